/* Stands in for extras/secret: no job has a secret. */
#include <stdlib.h>

#include "common/base/log.h"
#include "common/comm/store/handshake.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store_service.h"

bool secret_find(HandshakeService service, Key256 *key)
{
    (void)service, (void)key;
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

int handshake_call(int fd, const Key256 *key, HandshakeHello own, double deadline)
{
    uint8_t welcome = 0;
    memcpy(own.nonce, key, sizeof own.nonce);
    if (net_send(fd, &own, sizeof own, deadline) < 0 || net_recv(fd, &welcome, 1, deadline) < 0)
        return -1;
    errno = EPROTO;
    return welcome == HANDSHAKE_WELCOME ? 0 : -1;
}

HandshakeState handshake_read(int fd, HandshakeAnswer *answer, const Key256 *key,
                              const HandshakeHello *own)
{
    HandshakeHello *theirs = &answer->hello;
    const ssize_t count =
        recv(fd, (uint8_t *)theirs + answer->bytes, sizeof *theirs - answer->bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDSHAKE_MORE;
    answer->bytes += count > 0 ? (size_t)count : 0;
    if (count <= 0 || theirs->opening != own->opening)
        return HANDSHAKE_REFUSED;
    if (answer->bytes < sizeof *theirs)
        return HANDSHAKE_MORE;
    const bool is_let_in = handshake_is_for(theirs, own) &&
                           memcmp(theirs->nonce, key, sizeof theirs->nonce) == 0 &&
                           send(fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1, MSG_NOSIGNAL) == 1;
    return is_let_in ? HANDSHAKE_DONE : HANDSHAKE_REFUSED;
}

bool (*const torch_operation)(Client *, StoreOperation, Cursor *) = NULL; // extras/torch_store
