/* store_fixture.h - for tests: a store's server, an honest client, and unknown clients. */
#ifndef TESTS_COMMON_COMM_STORE_STORE_FIXTURE_H
#define TESTS_COMMON_COMM_STORE_STORE_FIXTURE_H

#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "tests/common/comm/store/store_requests.h"
#include "tests/helpers/unit.h"

#define TIMEOUT 300.0 // seconds

typedef struct {
    StoreServer *server;
    int port;
    Store honest;
} Fixture;

static inline int set_up(void **state)
{
    Fixture *f = mem_calloc(1, sizeof *f);
    f->server = store_server_start("127.0.0.1", &f->port, NULL);
    *state = f;
    return f->server == NULL || !store_connect(&f->honest, "127.0.0.1", f->port, TIMEOUT);
}

/* Checks after every test that the server still answers known and new clients. */
static inline int tear_down(void **state)
{
    Fixture *f = *state;
    Store late;
    store_ping(&f->honest);
    const bool connected = store_connect(&late, "127.0.0.1", f->port, TIMEOUT);
    if (connected)
        store_free(&late);
    store_free(&f->honest);
    store_server_stop(f->server);
    free(f);
    return connected ? 0 : -1;
}

static inline double deadline(void)
{
    return seconds_now() + TIMEOUT;
}

static inline int connect_unproven(const Fixture *f)
{
    const int fd = net_connect("127.0.0.1", f->port, deadline());
    assert_true(fd >= 0);
    return fd;
}

#define with_server(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

#endif
