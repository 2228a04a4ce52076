/* handshake.h - the job's secret, and how each connection begins in a job that has one: both sides
 * prove that they know it.
 *
 *     caller   -> answerer   Hello: which service and ranks are meant | a nonce, 32 bytes |
 *                            a seal: the caller's proof for these bytes alone, 32 bytes
 *     answerer -> caller     its nonce, 32 bytes | its proof that it knows the key, 32 bytes
 *     caller   -> answerer   the proof of the caller, 32 bytes
 *     answerer -> caller     'w', welcome
 *
 * - secret_find gives the key of a service, which is derived from the secret.
 * - The seal gives the caller a place that callers without one cannot take. It may be a replay.
 * - A caller uses handshake_call as soon as it is connected, before anything else.
 * - An answerer calls handshake_read when bytes have arrived. It disconnects on HANDSHAKE_REFUSED.
 *   What follows is not encrypted (docs/security.md).
 * - Builds without extras/secret have no secrets, and nothing calls these (store_no_extras.c). */
#ifndef COMMON_COMM_STORE_HANDSHAKE_H
#define COMMON_COMM_STORE_HANDSHAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/signals.h"

#define HANDSHAKE_OPENING 0xdd // the first byte: no operation of TCPStore, whose servers refuse it
#define HANDSHAKE_WELCOME 'w'
#define HANDSHAKE_SECONDS 10.0 // for the caller's part, after which a rank disconnects
#define SECRET_VARIABLE "DDP_SECRET_FILE" // a path; the secret itself is never in the environment

typedef struct {
    uint8_t bytes[32];
} Key256;

typedef enum { HANDSHAKE_STORE = 1, HANDSHAKE_BACKEND } HandshakeService;

/* What a connection is for. The other fields are 0 for stores, which serve all ranks and attempts
 * of their job, and the nodes that meet at an endpoint. */
typedef struct {
    HandshakeService service;
    int channel; // the backend's channel, for data or notices
    int caller, answerer; // ranks
    int attempt; // TORCHELASTIC_RESTART_COUNT
    int64_t group; // index of the process group in the job
} HandshakePurpose;

/* Makes the caller's side of it. Returns -1 and sets errno if it fails: EACCES if the answerer does
 * not know the key, EPROTO if it does not answer with a handshake, else as net_recv. */
int handshake_call(int fd, const Key256 *key, const HandshakePurpose *own, double deadline);

typedef struct HandshakeAnswer HandshakeAnswer; // the answerer's side of one connection
typedef enum { HANDSHAKE_MORE, HANDSHAKE_SEALED, HANDSHAKE_DONE, HANDSHAKE_REFUSED } HandshakeState;

/* Takes what has arrived, and replies. Returns HANDSHAKE_SEALED if the seal is right; more must
 * come, as after HANDSHAKE_MORE. *answer is NULL at first; free it in the end. `purpose` is what a
 * caller must mean, except that the channel may be lower, and the caller must be a rank below
 * purpose->caller other than purpose->answerer, or 0 if that is 0. It becomes the caller's own
 * purpose, which is not to be trusted before HANDSHAKE_DONE. */
HandshakeState handshake_read(int fd, HandshakeAnswer **answer, const Key256 *key,
                              HandshakePurpose *purpose);

/* Returns the key of a service, in memory that no core dump has: do not copy it. It is derived from
 * TORCHELASTIC_RUN_ID and the secret, the first 32 bytes of the SHA-512 of the file that
 * DDP_SECRET_FILE names: a regular file of this user with mode 600 and at least 32 bytes, read
 * once. Dies with one line and status 2 if it is not. Returns NULL if the variable is not set or
 * empty, so the job has no secret. Local. */
const Key256 *secret_find(HandshakeService service);

/* Makes a secret for the processes that this one starts, unless DDP_SECRET_FILE is set: 32 random
 * bytes in a file whose only name is /proc/PID/fd/N, so it ends with this process. Local. */
void secret_make(void);

#endif
