/*
 * Both sides authenticate the same transcript: the role of the one that speaks, the caller's Hello
 * with its nonce, and the answerer's nonce. One function writes it, so no field can be forgotten on
 * one side. sodium_memcmp compares in constant time.
 */
#include "common/comm/store/handshake.h"

#include <sodium.h>
#include <stdlib.h>
#include <sys/random.h>

#include "common/base/log.h"
#include "common/comm/store/net.h"

_Static_assert(crypto_auth_KEYBYTES == HANDSHAKE_BYTES && crypto_auth_BYTES == HANDSHAKE_BYTES,
               "libsodium's crypto_auth");
_Static_assert(sizeof(HandshakeHello) == 24 + 128 + HANDSHAKE_BYTES, "a Hello has no padding");
_Static_assert(offsetof(HandshakeAnswer, proof) == sizeof(HandshakeHello),
               "hello and proof are received as one run of bytes");

enum { CALLER = 'c', ANSWERER = 'a', WELCOME = 'w' };

/* nonce: the answerer's; the caller's is in its Hello. */
static void prove(uint8_t mac[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                  const HandshakeHello *hello, const uint8_t *nonce)
{
    uint8_t whole[1 + sizeof *hello + HANDSHAKE_BYTES] = { role };
    memcpy(whole + 1, hello, sizeof *hello);
    memcpy(whole + 1 + sizeof *hello, nonce, HANDSHAKE_BYTES);
    crypto_auth(mac, whole, sizeof whole, key->bytes);
}

static bool is_proven(const uint8_t mac[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                      const HandshakeHello *hello, const uint8_t *nonce)
{
    uint8_t expected[HANDSHAKE_BYTES];
    prove(expected, key, role, hello, nonce);
    return sodium_memcmp(mac, expected, sizeof expected) == 0;
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

Key256 handshake_key(const Key256 *secret, HandshakeService service)
{
    const char *purpose = service == HANDSHAKE_STORE     ? "ddp.c store"
                          : service == HANDSHAKE_BACKEND ? "ddp.c backend"
                                                         : "ddp.c endpoint";
    Key256 key;
    crypto_auth(key.bytes, (const uint8_t *)purpose, strlen(purpose), secret->bytes);
    return key;
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
    if (!is_proven(theirs + HANDSHAKE_BYTES, key, ANSWERER, &own, theirs)) // after the nonce
        return -1;
    prove(proof, key, CALLER, &own, theirs);
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
        prove(reply + sizeof answer->nonce, key, ANSWERER, hello, answer->nonce);
        *reply_bytes = HANDSHAKE_REPLY_BYTES;
    }
    if (handshake_wants(answer) > 0)
        return HANDSHAKE_MORE;
    if (!is_proven(answer->proof, key, CALLER, hello, answer->nonce))
        return HANDSHAKE_REFUSED;
    reply[0] = WELCOME;
    *reply_bytes = 1;
    return HANDSHAKE_DONE;
}
