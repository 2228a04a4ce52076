/*
 * handshake.h - how each of our connections begins: both sides prove that they are of one job.
 *
 *     caller   -> answerer   Hello: which job, service and ranks are meant, and the caller's nonce
 *     answerer -> caller     its nonce, 32 bytes | the proof of an answerer, 32 bytes
 *     caller   -> answerer   the proof of a caller, 32 bytes
 *     answerer -> caller     'w', welcome
 *
 * - A service has a key: derived from the job's secret, if it has one (extras/secret).
 * - A caller uses handshake_call as soon as it is connected, before anything else.
 * - An answerer calls handshake_read when bytes have arrived. It hangs up on HANDSHAKE_REFUSED, and
 *   after HANDSHAKE_SECONDS.
 * - What follows is not encrypted (docs/security.md).
 */
#ifndef COMMON_COMM_STORE_HANDSHAKE_H
#define COMMON_COMM_STORE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_OPENING 0xdd // the first byte: no operation of TCPStore, whose servers refuse it
#define HANDSHAKE_VERSION 1
#define HANDSHAKE_SECONDS 10.0 // for the caller's part, after which an answerer hangs up
#define HANDSHAKE_BYTES 32 // of a key, a nonce and a proof
#define HANDSHAKE_REPLY_BYTES (2 * HANDSHAKE_BYTES) // the longest one of an answerer

typedef struct {
    uint8_t bytes[HANDSHAKE_BYTES];
} Key256;

typedef enum { HANDSHAKE_STORE = 1, HANDSHAKE_BACKEND, HANDSHAKE_ENDPOINT } HandshakeService;

/* The first message, in host byte order, as TCPStore's. A field without a meaning for a service is
 * 0: a store serves all ranks and attempts of its job, and its keys tell them apart; and launchers
 * compare their run ids themselves when they have met at an endpoint, to name both. */
typedef struct {
    uint8_t opening, version, service;
    uint8_t channel; // of the backend: data or notices
    int32_t caller, answerer; // ranks
    int32_t attempt; // TORCHELASTIC_RESTART_COUNT
    int64_t group; // index of the process group in the job
    char run_id[128]; // TORCHELASTIC_RUN_ID, zero-padded; "none" where it is not set
    uint8_t nonce[HANDSHAKE_BYTES];
} HandshakeHello;

/* A Hello for this job, its nonce not drawn yet. Dies if the run id is too long. */
HandshakeHello handshake_hello(HandshakeService service);

/* The caller's side; draws own.nonce. -1 and errno if it fails: EACCES if the answerer does not
 * know the key, EPROTO if it does not answer with a handshake, else as net_recv. */
int handshake_call(int fd, const Key256 *key, HandshakeHello own, double deadline);

/* The answerer's side of one connection; all zero at first. */
typedef struct {
    HandshakeHello hello; // the caller's; not to be trusted before HANDSHAKE_DONE
    uint8_t proof[HANDSHAKE_BYTES]; // the caller's
    uint8_t nonce[HANDSHAKE_BYTES]; // the answerer's
    size_t bytes; // received, of hello and proof
} HandshakeAnswer;

typedef enum { HANDSHAKE_MORE, HANDSHAKE_DONE, HANDSHAKE_REFUSED } HandshakeState;

/* Takes what has arrived, and replies. `own` is the Hello that a caller must send, apart from
 * caller, channel and nonce; the answerer checks these itself, once the hello is there. */
HandshakeState handshake_read(int fd, HandshakeAnswer *answer, const Key256 *key,
                              const HandshakeHello *own);

/* What it consists of: takes at most handshake_wants bytes, and writes what to reply, *reply_bytes
 * of it, perhaps none. */
size_t handshake_wants(const HandshakeAnswer *answer);
HandshakeState handshake_take(HandshakeAnswer *answer, const Key256 *key, const HandshakeHello *own,
                              const void *data, size_t count, uint8_t reply[HANDSHAKE_REPLY_BYTES],
                              size_t *reply_bytes);

/* Logs that this job has no secret, so that this port is open to all. Local. */
void secret_report_none(const char *host, int port);

/* ---- the job's secret: extras/secret. A build without it has none (secret_absent.c) ---- */

#define SECRET_VARIABLE "DDP_SECRET_FILE" // a path; the secret itself is never in the environment

/* Reads the file that DDP_SECRET_FILE names: a regular file of this user with mode 600 and at least
 * 32 bytes; the secret is the first 32 bytes of its SHA-512. False: the variable is not set or
 * empty, so the job has none. Ends with one line and status 2 if the file is unsuitable. Local. */
bool secret_find(Key256 *secret);

/* Makes a secret for the processes that this one starts, unless DDP_SECRET_FILE is set: 32 random
 * bytes in a file whose only name is /proc/PID/fd/N, so it ends with this process. Local. */
void secret_make(void);

/* Each service has a key of its own, so a proof for one of them is not valid for another. */
Key256 handshake_key(const Key256 *secret, HandshakeService service);

/* The proof that this side knows the key: a MAC (HMAC-SHA512-256) of the role, the Hello and both
 * nonces; `nonce` is the answerer's. A recorded proof cannot be used again, since nonces are used
 * once; because of the role, one that is sent back to its sender proves nothing. */
typedef enum { HANDSHAKE_CALLER = 'c', HANDSHAKE_ANSWERER = 'a' } HandshakeRole;
void handshake_prove(uint8_t proof[HANDSHAKE_BYTES], const Key256 *key, HandshakeRole role,
                     const HandshakeHello *hello, const uint8_t nonce[HANDSHAKE_BYTES]);

#endif
