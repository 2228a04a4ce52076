/*
 * Both sides of the handshake, with a MAC (HMAC-SHA512-256, libsodium's crypto_auth) as the proof
 * that they know the key.
 *
 * Both authenticate the same transcript: the sender's role, the caller's Hello with its nonce, and
 * the answerer's nonce. One function writes it, so no field can be forgotten on one side. Nonces
 * are used once, so a recorded handshake cannot be used again; because of the role, a proof that is
 * sent back to its sender proves nothing. sodium_memcmp compares in constant time.
 *
 * A Hello's seal is the proof that a caller can give before it knows the answerer's nonce.
 */
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/store/net.h"
#include "common/comm/store/store.h"
#include "extras/secret/hello.h"

_Static_assert(sizeof(HandshakeHello) == 24 + 2 * HANDSHAKE_BYTES, "a Hello has no padding");
_Static_assert(sizeof(Key256) == HANDSHAKE_BYTES, "a key is as long as a proof");
_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_BYTES && crypto_auth_BYTES == HANDSHAKE_BYTES,
               "libsodium's crypto_auth");
_Static_assert(offsetof(HandshakeAnswer, proof) == sizeof(HandshakeHello),
               "hello and proof are received as one run of bytes");

enum { CALLER = 'c', ANSWERER = 'a', SEALER = 's' };

#define SILENT_SECONDS 60.0 // torchrun's store may leave a handshake unanswered
#define HANG_UP_SECONDS 8.0 // how long to retry: a store with too many callers hangs up on some

HandshakeHello hello_for(const HandshakePurpose *purpose)
{
    return (HandshakeHello){ .opening = HANDSHAKE_OPENING,
                             .version = HANDSHAKE_VERSION,
                             .service = (uint8_t)purpose->service,
                             .channel = (uint8_t)purpose->channel,
                             .caller = purpose->caller,
                             .answerer = purpose->answerer,
                             .attempt = purpose->attempt,
                             .group = purpose->group };
}

/* Returns true if it is a Hello for this answerer. Nothing in it is secret. */
static bool is_for(const HandshakeHello *theirs, const HandshakePurpose *own)
{
    HandshakeHello expected = hello_for(own);
    expected.caller = theirs->caller;
    expected.channel = theirs->channel;
    memcpy(expected.nonce, theirs->nonce, sizeof expected.nonce + sizeof expected.seal);
    const bool is_peer = own->caller == 0 ? theirs->caller == 0
                                          : theirs->caller != own->answerer &&
                                                theirs->caller >= 0 && theirs->caller < own->caller;
    return is_peer && theirs->channel <= own->channel &&
           memcmp(theirs, &expected, sizeof expected) == 0;
}

/* Computes a proof. nonce is the answerer's; the caller's is in its Hello. */
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

static void seal(uint8_t seal[HANDSHAKE_BYTES], const Key256 *key, const HandshakeHello *hello)
{
    HandshakeHello unsealed = *hello;
    memset(unsealed.seal, 0, sizeof unsealed.seal);
    prove(seal, key, SEALER, &unsealed, unsealed.seal);
}

static bool is_sealed(const HandshakeHello *hello, const Key256 *key)
{
    uint8_t expected[HANDSHAKE_BYTES];
    seal(expected, key, hello);
    return sodium_memcmp(hello->seal, expected, sizeof expected) == 0;
}

int handshake_call(int fd, const Key256 *key, const HandshakePurpose *purpose, double deadline)
{
    HandshakeHello own = hello_for(purpose);
    uint8_t theirs[2 * HANDSHAKE_BYTES], proof[HANDSHAKE_BYTES], welcome = 0;
    SYS_CHECK(getrandom(own.nonce, sizeof own.nonce, 0));
    seal(own.seal, key, &own);
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

/* Returns false if the connection is closed. The first bytes on a connection always fit. */
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

/* Reads the available bytes of the Hello, or of the proof after it. */
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
    if (begins && (!is_for(hello, own) || !send_own_proof(fd, answer, key)))
        return HANDSHAKE_REFUSED;
    if (begins)
        return is_sealed(hello, key) ? HANDSHAKE_SEALED : HANDSHAKE_MORE;
    return is_proven(answer->proof, key, CALLER, hello, answer->nonce) &&
                   send_at_once(fd, &(uint8_t){ HANDSHAKE_WELCOME }, 1)
               ? HANDSHAKE_DONE
               : HANDSHAKE_REFUSED;
}

HandshakeState handshake_read(int fd, HandshakeAnswer **answer, const Key256 *key,
                              HandshakePurpose *purpose)
{
    if (*answer == NULL)
        *answer = mem_calloc(1, sizeof **answer);
    const HandshakeState state = read_message(fd, *answer, key, purpose);
    purpose->caller = (*answer)->hello.caller;
    purpose->channel = (*answer)->hello.channel;
    return state;
}

/* Proves knowledge of the key. A wrong proof is final; a full store may hang up, at first. */
bool store_prove(const Store *store, const Key256 *key, double since, double deadline)
{
    const double silent_until = seconds_awake() + SILENT_SECONDS;
    const HandshakePurpose own = { .service = HANDSHAKE_STORE };
    if (handshake_call(store->fd, key, &own, fmin(deadline, silent_until)) == 0)
        return true;
    if (errno == EPROTO)
        return false;
    const char *file = getenv(SECRET_VARIABLE);
    const bool is_silent = errno == ETIMEDOUT;
    CHECK(errno != EACCES && (!is_silent || seconds_awake() < silent_until),
          "the store at %s:%d does not know this job's secret, %s (" SECRET_VARIABLE
          "): give all nodes the same, with the same --rdzv-id, or none; torchrun's have none",
          store->host, store->port, file);
    CHECK(is_silent || seconds_awake() < since + HANG_UP_SECONDS,
          "the store at %s:%d hangs up: it is full, or does not have this job's secret, %s "
          "(" SECRET_VARIABLE
          "), or not this --rdzv-id: give all nodes the same, or none; torchrun's have none",
          store->host, store->port, file);
    errno = is_silent ? ENOMSG : ECONNRESET;
    return false;
}

void store_check_secret(Store *store)
{
    uint8_t reply = STORE_NOT_READY;
    StoreRequest request = store_request_begin(store, STORE_CHECK, NULL);
    bytes_put_u64(&request.bytes, 1);
    store_request_put_value(&request, STORE_HAS_SECRET, strlen(STORE_HAS_SECRET)); // no prefix
    store_reply(&request, &reply, 1);
    CHECK(reply != STORE_READY,
          "the job at %s:%d has a secret and this process has none: give it the same --secret-file "
          "or " SECRET_VARIABLE,
          store->host, store->port);
}
