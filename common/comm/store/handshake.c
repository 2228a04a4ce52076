/*
 * The transcript that both sides authenticate: the role of the one that speaks, the caller's Hello
 * with its nonce, and the answerer's nonce. One function makes it, so no field can be forgotten on
 * one side. crypto_auth_verify compares in constant time.
 */
#include "common/comm/store/handshake.h"

#include <sodium.h>
#include <stdio.h>
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

typedef struct {
    uint8_t role;
    HandshakeHello hello;
    uint8_t nonce[HANDSHAKE_BYTES]; // the answerer's
} __attribute__((packed)) Transcript;

static Transcript transcript(uint8_t role, const HandshakeHello *hello, const uint8_t *nonce)
{
    Transcript whole = { .role = role, .hello = *hello };
    memcpy(whole.nonce, nonce, sizeof whole.nonce);
    return whole;
}

static void prove(uint8_t mac[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                  const HandshakeHello *hello, const uint8_t *nonce)
{
    const Transcript whole = transcript(role, hello, nonce);
    crypto_auth(mac, (const uint8_t *)&whole, sizeof whole, key->bytes);
}

static bool is_proven(const uint8_t mac[HANDSHAKE_BYTES], const Key256 *key, uint8_t role,
                      const HandshakeHello *hello, const uint8_t *nonce)
{
    const Transcript whole = transcript(role, hello, nonce);
    return crypto_auth_verify(mac, (const uint8_t *)&whole, sizeof whole, key->bytes) == 0;
}

HandshakeHello handshake_hello(HandshakeService service)
{
    HandshakeHello hello = { .opening = HANDSHAKE_OPENING,
                             .version = HANDSHAKE_VERSION,
                             .service = (uint8_t)service };
    const char *run_id = getenv("TORCHELASTIC_RUN_ID");
    const bool is_set = run_id != NULL && run_id[0] != '\0';
    const int length = snprintf(hello.run_id, sizeof hello.run_id, "%s", is_set ? run_id : "none");
    CHECK(length < (int)sizeof hello.run_id, "TORCHELASTIC_RUN_ID is too long: %s", run_id);
    if (service == HANDSHAKE_ENDPOINT)
        memset(hello.run_id, 0, sizeof hello.run_id);
    return hello;
}

Key256 handshake_key(const Key256 *secret, HandshakeService service)
{
    static const char *const purpose[] = { [HANDSHAKE_STORE] = "ddp.c store",
                                           [HANDSHAKE_BACKEND] = "ddp.c backend",
                                           [HANDSHAKE_ENDPOINT] = "ddp.c endpoint" };
    Key256 key;
    const char *text = purpose[service];
    crypto_auth(key.bytes, (const uint8_t *)text, strlen(text), secret->bytes);
    return key;
}

int handshake_call(int fd, const Key256 *key, HandshakeHello own, double deadline)
{
    struct {
        uint8_t nonce[HANDSHAKE_BYTES], proof[HANDSHAKE_BYTES];
    } theirs;
    uint8_t proof[HANDSHAKE_BYTES], welcome = 0;
    SYS_CHECK(getrandom(own.nonce, sizeof own.nonce, 0));
    if (net_send(fd, &own, sizeof own, deadline) < 0 || net_recv(fd, &theirs, 1, deadline) < 0)
        return -1;
    if (net_recv(fd, (uint8_t *)&theirs + 1, sizeof theirs - 1, deadline) < 0) {
        errno = errno == ECONNRESET ? EPROTO : errno;
        return -1;
    }
    errno = EACCES;
    if (!is_proven(theirs.proof, key, ANSWERER, &own, theirs.nonce))
        return -1;
    prove(proof, key, CALLER, &own, theirs.nonce);
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
