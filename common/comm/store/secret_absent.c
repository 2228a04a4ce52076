/* Stands in for extras/secret, so no job has a secret, and for extras/torch_store. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/store/store.h"
#include "common/comm/store/store_service.h"

int (*const handshake_call)(int, const Key256 *, const HandshakePurpose *, double) = NULL;
HandshakeState (*const handshake_read)(int, HandshakeAnswer **, const Key256 *,
                                       HandshakePurpose *) = NULL;
bool (*const store_prove)(const Store *, const Key256 *, double, double) = NULL;
bool (*const torch_operation)(Client *, StoreOperation, Cursor *) = NULL;

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
