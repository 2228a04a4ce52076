/* A rank joins the store of its job as PyTorch's TCPStore does, by the launcher's variables. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"

/* Returns whether torchrun's agent serves the store at MASTER_PORT itself. */
static bool agent_serves(int port)
{
    const char *agent = getenv("TORCHELASTIC_USE_AGENT_STORE"),
               *master_port = getenv("MASTER_PORT");
    return agent != NULL && master_port != NULL && atoi(master_port) == port &&
           (strcmp(agent, "True") == 0 || strcmp(agent, "true") == 0 || strcmp(agent, "1") == 0);
}

static const char *env_or(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value == NULL || value[0] == '\0' ? otherwise : value;
}

/* Connects as store_connect does, but logs after a while that it is still waiting. */
static bool connect_and_log(Store *store, const char *host, int port, double timeout)
{
    if (store_connect(store, host, port, fmin(timeout, STORE_QUIET_SECONDS)))
        return true;
    CHECK(
        errno != ECONNREFUSED || !agent_serves(port), // an agent serves before its ranks start
        "no store at %s:%d, where a launcher should serve it: is MASTER_ADDR right? If no launcher "
        "started this, unset TORCHELASTIC_USE_AGENT_STORE",
        host, port);
    if (timeout <= STORE_QUIET_SECONDS || errno == EPROTO)
        return false;
    if (errno != ENXIO) // logged by net_connect
        log_info("waits for rank 0 at %s:%d (%s), %g s at most (--timeout)", host, port,
                 store_connect_reason(errno), timeout);
    return store_connect(store, host, port, timeout - STORE_QUIET_SECONDS);
}

void store_init(Store *store, const char *host, int port, bool is_server, double timeout)
{
    const double begun = seconds_now();
    StoreServer *server = NULL;
    const bool is_agents = agent_serves(port);
    char name[4096];
    CHECK(net_copy_host(name, sizeof name, host, strlen(host)),
          "MASTER_ADDR is \"%s\", which can be no host: give one name or address", host);
    if (is_server && !is_agents) {
        server = store_server_start(host, &port, NULL);
        char reason[NET_REASON_BYTES];
        const bool is_port = server == NULL && (errno == EADDRINUSE || errno == EACCES);
        CHECK(server != NULL, "cannot serve the store at %s:%d: %s%s", host, port,
              net_listen_reason(errno, port, reason),
              is_port ? " (MASTER_PORT may be changed)" : "");
        log_detail(LOG_STORE, "serving at %s:%d", host, port);
    }
    CHECK(connect_and_log(store, host, port, timeout),
          "no store at %s:%d within %g s (%s): is rank 0 running, is MASTER_ADDR right?", host,
          port, timeout, store_connect_reason(errno));
    store->timeout = timeout; // whichever attempt connected
    log_detail(LOG_STORE, "connected to %s:%d after %.3f s", host, port, seconds_now() - begun);
    store->server = server;
    store->is_agents = is_agents;
    if (is_server && getenv(SECRET_VARIABLE) == NULL && !net_is_loopback(host))
        secret_report_none(host, port); // else a launcher has reported it, or there is a secret
    const int length =
        snprintf(store->prefix, sizeof store->prefix, "ddp.c/%s/%s/",
                 env_or("TORCHELASTIC_RUN_ID", "none"), env_or("TORCHELASTIC_RESTART_COUNT", "0"));
    CHECK(length < (int)sizeof store->prefix, "TORCHELASTIC_RUN_ID is too long: %s", store->prefix);
    store_count_worker(store, 1);
}
