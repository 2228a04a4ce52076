/* Both sides of the handshake. The proofs themselves: extras/secret. */
#include "common/comm/store/handshake.h"

#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

_Static_assert(sizeof(HandshakeHello) == 24 + 128 + HANDSHAKE_BYTES, "a Hello has no padding");
_Static_assert(offsetof(HandshakeAnswer, proof) == sizeof(HandshakeHello),
               "hello and proof are received as one run of bytes");

enum { WELCOME = 'w' };

/* Takes the same time wherever the first difference is: it must not help to guess a proof. */
static bool is_proven(const uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, HandshakeRole role,
                      const HandshakeHello *hello, const uint8_t *nonce)
{
    uint8_t expected[HANDSHAKE_BYTES];
    volatile uint8_t difference = 0;
    handshake_prove(expected, key, role, hello, nonce);
    for (int i = 0; i < HANDSHAKE_BYTES; i++)
        difference |= proof[i] ^ expected[i];
    return difference == 0;
}

HandshakeHello handshake_hello(HandshakeService service)
{
    HandshakeHello hello = { .opening = HANDSHAKE_OPENING,
                             .version = HANDSHAKE_VERSION,
                             .service = (uint8_t)service };
    const char *run_id = getenv("TORCHELASTIC_RUN_ID");
    if (run_id == NULL || run_id[0] == '\0')
        run_id = "none";
    CHECK(strlen(run_id) < sizeof hello.run_id, "TORCHELASTIC_RUN_ID is too long: %s", run_id);
    if (service != HANDSHAKE_ENDPOINT)
        strcpy(hello.run_id, run_id);
    return hello;
}

int handshake_call(int fd, const Key256 *key, HandshakeHello own, double deadline)
{
    uint8_t theirs[HANDSHAKE_REPLY_BYTES], proof[HANDSHAKE_BYTES], welcome = 0;
    SYS_CHECK(getrandom(own.nonce, sizeof own.nonce, 0));
    if (net_send(fd, &own, sizeof own, deadline) < 0 || net_recv(fd, theirs, 1, deadline) < 0)
        return -1;
    if (net_recv(fd, theirs + 1, sizeof theirs - 1, deadline) < 0) {
        errno = errno == ECONNRESET ? EPROTO : errno;
        return -1;
    }
    errno = EACCES;
    if (!is_proven(theirs + HANDSHAKE_BYTES, key, HANDSHAKE_ANSWERER, &own, theirs))
        return -1;
    handshake_prove(proof, key, HANDSHAKE_CALLER, &own, theirs);
    if (net_send(fd, proof, sizeof proof, deadline) < 0 ||
        net_recv(fd, &welcome, sizeof welcome, deadline) < 0)
        return -1;
    errno = EACCES;
    return welcome == WELCOME ? 0 : -1;
}

/* Does the caller mean this answerer? */
static bool is_for(const HandshakeHello *theirs, const HandshakeHello *own)
{
    HandshakeHello expected = *own;
    expected.caller = theirs->caller;
    expected.channel = theirs->channel;
    memcpy(expected.nonce, theirs->nonce, sizeof expected.nonce);
    return memcmp(theirs, &expected, sizeof expected) == 0; // nothing in it is secret
}

size_t handshake_wants(const HandshakeAnswer *answer)
{
    const size_t hello = sizeof answer->hello;
    return (answer->bytes < hello ? hello : hello + sizeof answer->proof) - answer->bytes;
}

HandshakeState handshake_take(HandshakeAnswer *answer, const Key256 *key, const HandshakeHello *own,
                              const void *data, size_t count, uint8_t reply[HANDSHAKE_REPLY_BYTES],
                              size_t *reply_bytes)
{
    const HandshakeHello *hello = &answer->hello;
    memcpy((uint8_t *)answer + answer->bytes, data, count);
    answer->bytes += count;
    *reply_bytes = 0;
    if (answer->bytes < sizeof *hello)
        return hello->opening == own->opening ? HANDSHAKE_MORE : HANDSHAKE_REFUSED;
    if (!is_for(hello, own))
        return HANDSHAKE_REFUSED;
    if (answer->bytes == sizeof *hello) {
        SYS_CHECK(getrandom(answer->nonce, sizeof answer->nonce, 0));
        memcpy(reply, answer->nonce, sizeof answer->nonce);
        handshake_prove(reply + HANDSHAKE_BYTES, key, HANDSHAKE_ANSWERER, hello, answer->nonce);
        *reply_bytes = HANDSHAKE_REPLY_BYTES;
    }
    if (handshake_wants(answer) > 0)
        return HANDSHAKE_MORE;
    if (!is_proven(answer->proof, key, HANDSHAKE_CALLER, hello, answer->nonce))
        return HANDSHAKE_REFUSED;
    reply[0] = WELCOME;
    *reply_bytes = 1;
    return HANDSHAKE_DONE;
}

HandshakeState handshake_read(int fd, HandshakeAnswer *answer, const Key256 *key,
                              const HandshakeHello *own)
{
    uint8_t data[sizeof answer->hello], reply[HANDSHAKE_REPLY_BYTES];
    size_t reply_bytes = 0;
    const ssize_t count = recv(fd, data, handshake_wants(answer), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDSHAKE_MORE;
    if (count <= 0)
        return HANDSHAKE_REFUSED;
    const HandshakeState state =
        handshake_take(answer, key, own, data, (size_t)count, reply, &reply_bytes);
    // The first bytes on a connection always fit.
    const ssize_t sent = send(fd, reply, reply_bytes, MSG_DONTWAIT | MSG_NOSIGNAL);
    return sent == (ssize_t)reply_bytes ? state : HANDSHAKE_REFUSED;
}

void secret_report_none(const char *host, int port)
{
    log_info("this job has no secret: whoever reaches %s:%d may join it; give every node the same "
             "--secret-file or " SECRET_VARIABLE " (docs/security.md)",
             host, port);
}
