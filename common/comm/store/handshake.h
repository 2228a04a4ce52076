/*
 * handshake.h - how each of our connections begins: both sides show that they are of one job.
 *
 *     caller   -> answerer   Hello: which job, service and ranks are meant | a nonce, 32 bytes
 *     answerer -> caller     its nonce, 32 bytes | its proof that it knows the key, 32 bytes
 *     caller   -> answerer   the proof of the caller, 32 bytes
 *     answerer -> caller     'w', welcome
 *
 * - Each service has a key, derived from the job's secret if it has one (secret_find).
 * - A caller uses handshake_call as soon as it is connected, before anything else.
 * - An answerer calls handshake_read when bytes have arrived. It hangs up on HANDSHAKE_REFUSED, and
 *   after HANDSHAKE_SECONDS. What follows is not encrypted (docs/security.md).
 * - Proofs are made by extras/secret. Builds without it have the first and the last message, and
 *   the key in place of the nonce (secret_absent.c).
 */
#ifndef COMMON_COMM_STORE_HANDSHAKE_H
#define COMMON_COMM_STORE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HANDSHAKE_OPENING 0xdd // the first byte: no operation of TCPStore, whose servers refuse it
#define HANDSHAKE_WELCOME 'w'
#define HANDSHAKE_VERSION 1
#define HANDSHAKE_SECONDS 10.0 // for the caller's part, after which an answerer hangs up
#define HANDSHAKE_BYTES 32 // of a key, a nonce and a proof
#define SECRET_VARIABLE "DDP_SECRET_FILE" // a path; the secret itself is never in the environment

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

/* Takes what has arrived, and replies. `own` is the Hello that a caller must send, but for these:
 * the nonce; the channel, which may be lower; and the caller, which must be a rank above
 * own->answerer and below own->caller, or 0 where that is 0. handshake_is_for checks it. */
HandshakeState handshake_read(int fd, HandshakeAnswer *answer, const Key256 *key,
                              const HandshakeHello *own);
bool handshake_is_for(const HandshakeHello *theirs, const HandshakeHello *own);

/* Derives the key of a service from the secret, which is the first 32 bytes of the SHA-512 of the
 * file that DDP_SECRET_FILE names: a regular file of this user with mode 600 and at least 32 bytes.
 * Ends with one line and status 2 if it is not. False: the variable is not set or empty, so the job
 * has no secret. Local. */
bool secret_find(HandshakeService service, Key256 *key);

/* Makes a secret for the processes that this one starts, unless DDP_SECRET_FILE is set: 32 random
 * bytes in a file whose only name is /proc/PID/fd/N, so it ends with this process. Local. */
void secret_make(void);

/* Logs that this job has no secret, so that this port is open to all. Local. */
void secret_report_none(const char *host, int port);

#endif
