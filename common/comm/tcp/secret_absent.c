/*
 * Stands in for the extras that the store and the tcp backend know: secret, shared_memory (without
 * it all data goes through sockets), simulated_network.
 */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/tcp/tcp_mesh.h"

const PipeOps tcp_pipes = { NULL };
double (*const network_arrival)(Mesh *mesh, int from, size_t bytes) = NULL;

bool secret_find(Key256 *secret)
{
    (void)secret;
    const char *path = getenv(SECRET_VARIABLE);
    if (path != NULL && path[0] != '\0')
        usage_error("--secret-file or " SECRET_VARIABLE " %s: this program was built without "
                    "extras/secret and cannot use a secret: make EXTRAS=1",
                    path);
    return false;
}

void secret_make(void)
{
}

Key256 handshake_key(const Key256 *secret, HandshakeService service)
{
    (void)service;
    return *secret;
}

/* Without cryptography the caller shows the key itself, which rank 0 has left for all in the store,
 * and the answerer, which may not trust its caller yet, shows nothing. */
void handshake_prove(uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, HandshakeRole role,
                     const HandshakeHello *hello, const uint8_t nonce[HANDSHAKE_BYTES])
{
    (void)hello, (void)nonce;
    const Key256 nothing = { { 0 } };
    memcpy(proof, role == HANDSHAKE_CALLER ? key : &nothing, HANDSHAKE_BYTES);
}
