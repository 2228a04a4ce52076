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
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "extras/secret/hello.h"

_Static_assert(sizeof(HandshakeHello) == 24 + 128 + HANDSHAKE_BYTES, "a Hello has no padding");
_Static_assert(sizeof(Key256) == HANDSHAKE_BYTES, "a key is as long as a proof");
_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_BYTES && crypto_auth_BYTES == HANDSHAKE_BYTES,
               "libsodium's crypto_auth");
_Static_assert(offsetof(HandshakeAnswer, proof) == sizeof(HandshakeHello),
               "hello and proof are received as one run of bytes");

enum { CALLER = 'c', ANSWERER = 'a' };

HandshakeHello hello_for(const HandshakePurpose *purpose)
{
    HandshakeHello hello = { .opening = HANDSHAKE_OPENING,
                             .version = HANDSHAKE_VERSION,
                             .service = (uint8_t)purpose->service,
                             .channel = (uint8_t)purpose->channel,
                             .caller = purpose->caller,
                             .answerer = purpose->answerer,
                             .attempt = purpose->attempt,
                             .group = purpose->group };
    if (purpose->service != HANDSHAKE_ENDPOINT)
        strcpy(hello.run_id, secret_run_id);
    return hello;
}

/* Is it a Hello for this answerer? Nothing in it is secret. */
static bool is_for(const HandshakeHello *theirs, const HandshakePurpose *own)
{
    HandshakeHello expected = hello_for(own);
    expected.caller = theirs->caller;
    expected.channel = theirs->channel;
    memcpy(expected.nonce, theirs->nonce, sizeof expected.nonce);
    const bool is_peer = own->caller == 0
                             ? theirs->caller == 0
                             : theirs->caller > own->answerer && theirs->caller < own->caller;
    return is_peer && theirs->channel <= own->channel &&
           memcmp(theirs, &expected, sizeof expected) == 0;
}

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

static int call(int fd, const Key256 *key, const HandshakePurpose *purpose, double deadline)
{
    HandshakeHello own = hello_for(purpose);
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

/* Takes what has arrived of the Hello, or of the proof after it. */
static HandshakeState read_message(int fd, HandshakeAnswer *answer, const Key256 *key,
                                   const HandshakePurpose *own)
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
    if (hello->opening != HANDSHAKE_OPENING)
        return HANDSHAKE_REFUSED;
    if (answer->bytes < due)
        return HANDSHAKE_MORE;
    if (begins)
        return is_for(hello, own) && send_own_proof(fd, answer, key) ? HANDSHAKE_MORE
                                                                     : HANDSHAKE_REFUSED;
    return is_proven(answer->proof, key, CALLER, hello, answer->nonce) &&
                   send_at_once(fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1)
               ? HANDSHAKE_DONE
               : HANDSHAKE_REFUSED;
}

static HandshakeState read_call(int fd, HandshakeAnswer **answer, const Key256 *key,
                                HandshakePurpose *purpose)
{
    if (*answer == NULL)
        *answer = mem_calloc(1, sizeof **answer);
    const HandshakeState state = read_message(fd, *answer, key, purpose);
    purpose->caller = (*answer)->hello.caller;
    purpose->channel = (*answer)->hello.channel;
    return state;
}

int (*const handshake_call)(int, const Key256 *, const HandshakePurpose *, double) = call;
HandshakeState (*const handshake_read)(int, HandshakeAnswer **, const Key256 *,
                                       HandshakePurpose *) = read_call;
