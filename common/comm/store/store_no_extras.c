/* Stands in for extras/secret, so no job has a secret, extras/torch_store and extras/comfort. */
#include <stdlib.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_service.h"

int handshake_call(int fd, const Key256 *key, const HandshakePurpose *own, double deadline)
{
    (void)fd, (void)key, (void)own, (void)deadline;
    return -1;
}

HandshakeState handshake_read(int fd, HandshakeAnswer **answer, const Key256 *key,
                              HandshakePurpose *purpose)
{
    (void)fd, (void)answer, (void)key, (void)purpose;
    return HANDSHAKE_REFUSED;
}

bool store_prove(const Store *store, const Key256 *key, double since, double deadline)
{
    (void)store, (void)key, (void)since, (void)deadline;
    return false;
}

bool torch_operation(Client *client, StoreOperation operation, Cursor *at)
{
    (void)client, (void)operation, (void)at;
    return false;
}

const Key256 *secret_find(HandshakeService service)
{
    (void)service;
    const char *path = getenv(SECRET_VARIABLE);
    if (path != NULL && path[0] != '\0')
        usage_error("--secret-file or " SECRET_VARIABLE " %s: this program was built without "
                    "extras/secret and cannot use a secret: make EXTRAS=1",
                    path);
    return NULL;
}

void secret_make(void)
{
}

void store_check_secret(Store *store)
{
    (void)store;
}

void comfort_port_owner(int port, char *text, size_t bytes)
{
    (void)port, (void)bytes;
    text[0] = '\0';
}
