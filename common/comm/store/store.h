/* store.h - a key-value store through which ranks find each other: PyTorch's TCPStore.
 *
 * - A rank calls store_init; one of them serves the store, in a thread. A launcher or a tool calls
 *   store_connect. A Store is one connection, for one thread at a time.
 * - Then store_set, store_get, store_add ...: each waits for its reply, store->timeout at most.
 *   store_set and others without a result are acknowledged only by a later store_ping.
 * - A call that fails ends the process with a line that names the key: a rank is useless without
 *   its store. A launcher sets store->may_fail. Then the call sets store->failed, and it and all
 *   later ones return 0 or false at once.
 * - store_free disconnects, and stops the server if this process has it.
 *
 * The protocol is that of torch.distributed.TCPStore (2.x): ranks may join the store of a real
 * torchrun, and PyTorch's may use ours (extras/torch_store). */
#ifndef COMMON_COMM_STORE_STORE_H
#define COMMON_COMM_STORE_STORE_H

#include <stdbool.h>

#include "common/comm/store/handshake.h"
#include "common/comm/store/store_protocol.h"

typedef struct {
    int fd; // connection to the server
    double timeout; // seconds that every call may take
    char host[256];
    int port;
    char prefix[128]; // put before every key; see store_init
    struct StoreServer *server; // the server, in the process that serves the store; else NULL
    bool is_agents; // store_init found that a launcher's agent serves it
    bool has_secret; // the job has a secret, and the server knows it
    bool may_fail; // a failed call sets `failed` and returns
    bool failed; // the connection is no longer usable
} Store;

#define STORE_QUIET_SECONDS 5.0 // seconds after which a process logs what it waits for

/* Joins the store of a training job at host:port. The process with is_server serves it, unless an
 * agent does already (TORCHELASTIC_USE_AGENT_STORE, as PyTorch's TCPStore understands it). Counts
 * this process, and does not wait for the others. Keys are prefixed with run id and restart count
 * (TORCHELASTIC_RUN_ID, _RESTART_COUNT), since an agent's store keeps the keys of a dead attempt.
 * Dies after `timeout` seconds, naming host and port. */
void store_init(Store *store, const char *host, int port, bool is_server, double timeout);

/* Only connects, without prefix or counting: for launchers and tools. If the job has a secret
 * (DDP_SECRET_FILE) both sides prove that they know it, and it dies if the server does not: there
 * is no fallback. Returns false and sets errno on failure (see store_connect_reason): EPROTO if
 * what listens there answers, but is not a store, ENOMSG if it does not answer; else as
 * net_connect. `timeout` is also that of later calls; a store reached at its end gets a second to
 * answer. */
bool store_connect(Store *store, const char *host, int port, double timeout);
const char *store_connect_reason(int error);

/* Makes the client's handshake (extras/secret). Dies if disconnected for too long `since`. */
bool store_prove(const Store *store, const Key256 *key, double since, double deadline);

/* Dies if the store's job has a secret and this process does not; call it after waiting for a
 * while. Such a process sees only the table that is open to all, and would wait until its timeout.
 * In builds without extras/secret it does nothing. */
void store_check_secret(Store *store);

/* Logs that this job has no secret, so that this port is open to all. Local. */
void secret_report_none(const char *host, int port);

/* Counts one more worker or agent (amount 1), as store_init does; returns how many have come. */
int64_t store_count_worker(Store *store, int64_t amount);
void store_free(Store *store);

/* Values are at most 8 MiB, keys 8,000 bytes. store_get waits for the key and returns the value's
 * length, of which it copies at most `bytes`; store_add returns the sum; store_try_wait returns
 * false when `seconds` are over; store_delete returns whether the key was there. */
void store_set(Store *store, const char *key, const void *value, size_t bytes);
size_t store_get(Store *store, const char *key, void *value, size_t bytes);
int64_t store_add(Store *store, const char *key, int64_t amount);
void store_wait(Store *store, const char *key);
bool store_try_wait(Store *store, const char *key, double seconds);
bool store_check(Store *store, const char *key); // returns whether it is there
bool store_delete(Store *store, const char *key);
/* Sets key to desired if it holds expected (or is absent and expected is empty); returns the length
 * of what it then holds, and copies at most `bytes` of it to result. */
size_t store_compare_set(Store *store, const char *key, const char *expected, const char *desired,
                         char *result, size_t bytes);
void store_ping(Store *store); // returns when all earlier operations are done
bool store_try_ping(Store *store, double seconds); // returns false and sets errno on failure

/* ---- the server (store_server.c): a thread of this process ---- */

typedef struct StoreServer StoreServer;

/* - Listens on the interface that host names (loopback for localhost) and *port (0: any free one,
 *   set on return). Returns NULL and sets errno if it cannot.
 * - Disconnects a client that sends nonsense or has more than 64 MiB in one request or in unread
 *   replies, or for which there is no memory: a table may have 1 GiB for all that is stored, being
 *   received or not sent yet (store_service.h). A large reply is sent in parts, in turns.
 * - Raises the limit of descriptors, and keeps 64 free. All servers of a process share an eighth of
 *   them for unproven clients, and one for those with a sealed Hello. The oldest of these makes
 *   room for the next. Proven ones stay: they know the secret or, without one, made a request.
 * - If the job has a secret, clients that know it have a table of their own; all others, PyTorch's
 *   included, share one.
 * - When a client that has set a key beginning with `watched` (or NULL; it must outlive the server)
 *   disconnects, the server sets KEY/gone: a launcher killed by SIGKILL is noticed. */
StoreServer *store_server_start(const char *host, int *port, const char *watched);
void store_server_stop(StoreServer *server); // closes all connections, frees everything

/* ---- one request and its reply: what the functions above consist of ---- */

typedef struct {
    Store *store;
    StoreOperation operation;
    const char *key; // key named in messages; NULL if none yet
    double deadline; // for the request and all of its reply
    Bytes bytes; // the request, assembled to be sent in one piece
} StoreRequest;

StoreRequest store_request_begin(Store *store, StoreOperation operation, const char *key);
void store_request_put_key(StoreRequest *request, const char *key); // adds the store's prefix
void store_request_put_value(StoreRequest *request, const void *value, size_t count);
void store_request_send(StoreRequest *request); // also frees its bytes

/* Send the request first, unless that was done. store_reply_blob returns the blob's length, and
 * copies at most `capacity` bytes. They return false or 0 if the request failed. */
bool store_reply(StoreRequest *request, void *data, size_t count);
int64_t store_reply_i64(StoreRequest *request);
size_t store_reply_blob(StoreRequest *request, void *data, size_t capacity);

/* Dies, or sets store->failed. If `reason` is NULL, it is errno's. */
void store_request_fail(const StoreRequest *request, const char *reason);
#define STORE_NONSENSE "the answer makes no sense: is that a store?"

#endif
