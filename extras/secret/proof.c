/*
 * The handshake of both sides, with a MAC (HMAC-SHA512-256, libsodium's crypto_auth) as the proof
 * that they know the key.
 *
 * Both authenticate the same transcript: the role of the one that speaks, the caller's Hello with
 * its nonce, and the answerer's nonce. One function writes it, so no field can be forgotten on one
 * side. Nonces are used once, so a recorded handshake cannot be used again; because of the role, a
 * proof that is sent back to its sender proves nothing. sodium_memcmp compares in constant time.
 */
#include <sodium.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/comm/store/handshake.h"
#include "common/comm/store/net.h"

_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_BYTES && crypto_auth_BYTES == HANDSHAKE_BYTES,
               "libsodium's crypto_auth");
_Static_assert(offsetof(HandshakeAnswer, proof) == sizeof(HandshakeHello),
               "hello and proof are received as one run of bytes");

enum { CALLER = 'c', ANSWERER = 'a' };

/* nonce: the answerer's; the caller's is in its Hello. */
static void prove(uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                  const HandshakeHello *hello, const uint8_t *nonce)
{
    uint8_t whole[1 + sizeof *hello + HANDSHAKE_BYTES] = { role };
    memcpy(whole + 1, hello, sizeof *hello);
    memcpy(whole + 1 + sizeof *hello, nonce, HANDSHAKE_BYTES);
    crypto_auth(proof, whole, sizeof whole, key->bytes);
}

static bool is_proven(const uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                      const HandshakeHello *hello, const uint8_t *nonce)
{
    uint8_t expected[HANDSHAKE_BYTES];
    prove(expected, key, role, hello, nonce);
    return sodium_memcmp(proof, expected, sizeof expected) == 0;
}

int handshake_call(int fd, const Key256 *key, HandshakeHello own, double deadline)
{
    uint8_t theirs[2 * HANDSHAKE_BYTES], proof[HANDSHAKE_BYTES], welcome = 0;
    SYS_CHECK(getrandom(own.nonce, sizeof own.nonce, 0));
    if (net_send(fd, &own, sizeof own, deadline) < 0 || net_recv(fd, theirs, 1, deadline) < 0)
        return -1;
    if (net_recv(fd, theirs + 1, sizeof theirs - 1, deadline) < 0) {
        errno = errno == ECONNRESET ? EPROTO : errno;
        return -1;
    }
    errno = EACCES;
    if (!is_proven(theirs + HANDSHAKE_BYTES, key, ANSWERER, &own, theirs))
        return -1;
    prove(proof, key, CALLER, &own, theirs);
    if (net_send(fd, proof, sizeof proof, deadline) < 0 ||
        net_recv(fd, &welcome, sizeof welcome, deadline) < 0)
        return -1;
    errno = EACCES;
    return welcome == HANDSHAKE_WELCOME ? 0 : -1;
}

/* False: the connection is closed. The first bytes on a connection always fit. */
static bool send_at_once(int fd, const void *data, size_t bytes)
{
    return send(fd, data, bytes, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)bytes;
}

static bool send_own_proof(int fd, HandshakeAnswer *answer, const Key256 *key)
{
    uint8_t reply[2 * HANDSHAKE_BYTES]; // nonce and proof
    SYS_CHECK(getrandom(answer->nonce, sizeof answer->nonce, 0));
    memcpy(reply, answer->nonce, sizeof answer->nonce);
    prove(reply + sizeof answer->nonce, key, ANSWERER, &answer->hello, answer->nonce);
    return send_at_once(fd, reply, sizeof reply);
}

HandshakeState handshake_read(int fd, HandshakeAnswer *answer, const Key256 *key,
                              const HandshakeHello *own)
{
    const HandshakeHello *hello = &answer->hello;
    const bool begins = answer->bytes < sizeof *hello;
    const size_t due = sizeof *hello + (begins ? 0 : sizeof answer->proof);
    const ssize_t count =
        recv(fd, (uint8_t *)answer + answer->bytes, due - answer->bytes, MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        return HANDSHAKE_MORE;
    if (count <= 0)
        return HANDSHAKE_REFUSED;

    answer->bytes += (size_t)count;
    if (hello->opening != own->opening)
        return HANDSHAKE_REFUSED;
    if (answer->bytes < due)
        return HANDSHAKE_MORE;
    if (begins)
        return handshake_is_for(hello, own) && send_own_proof(fd, answer, key) ? HANDSHAKE_MORE
                                                                               : HANDSHAKE_REFUSED;
    return is_proven(answer->proof, key, CALLER, hello, answer->nonce) &&
                   send_at_once(fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1)
               ? HANDSHAKE_DONE
               : HANDSHAKE_REFUSED;
}
