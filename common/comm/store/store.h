/*
 * store.h - a key-value store through which ranks find each other: PyTorch's TCPStore.
 *
 * The protocol on the wire is that of torch.distributed.TCPStore (2.x), so ranks may join the store
 * of a real torchrun, and PyTorch's may use ours. One thread of one process serves it
 * (store_server.h); all others are clients. After the rendezvous it is hardly used. A Store is one
 * connection, for one thread at a time.
 */
#ifndef COMMON_COMM_STORE_STORE_H
#define COMMON_COMM_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    int fd; // connection to the server
    double timeout; // seconds, of every call
    char host[256];
    int port;
    char prefix[128]; // put before every key; see store_init
    struct StoreServer *server; // in the process that serves it, else NULL
    bool is_agents; // store_init found that a launcher's agent serves it
} Store;

#define STORE_PATIENCE 5.0 // seconds until who waits for others says so

/* Joins the store of a training job at host:port. The process with is_server serves it, unless an
 * agent does already (TORCHELASTIC_USE_AGENT_STORE, as PyTorch's TCPStore understands it). Waits
 * until the server is there, and in the process that serves it until world_size workers have come.
 * Keys are prefixed with run id and restart count (TORCHELASTIC_RUN_ID, _RESTART_COUNT), since an
 * agent's store keeps the keys of a dead attempt. After `timeout` seconds dies, naming host and
 * port; so does each later call that is not answered within as many. */
void store_init(Store *store, const char *host, int port, bool is_server, int world_size,
                double timeout);

/* Only connects, without prefix or counting: for launchers and tools. False and errno on failure,
 * described by store_connect_reason: EPROTO if what listens there answers, but is no store, ENOMSG
 * if it does not answer; else as net_connect. Later calls have `timeout` seconds, too: whoever
 * connects in short attempts sets store->timeout afterwards. */
bool store_connect(Store *store, const char *host, int port, double timeout);
const char *store_connect_reason(int error);

/* Counts one more worker or agent (amount 1), as store_init does; returns how many have come. */
int64_t store_count_worker(const Store *store, int64_t amount);

/* Disconnects; if this process serves the store, ends the server. */
void store_free(Store *store);

/* All calls die, naming the key, when the server is gone or the timeout is over. Values are at most
 * 8 MiB, keys 8,000 bytes. */
void store_set(Store *store, const char *key, const void *value, size_t bytes);
/* Waits for the key. Returns the value's length; copies at most `bytes` of it. */
size_t store_get(Store *store, const char *key, void *value, size_t bytes);
int64_t store_add(Store *store, const char *key, int64_t amount); // returns the sum
void store_wait(Store *store, const char *key);
/* As store_wait, but returns false when `seconds` are over. */
bool store_try_wait(Store *store, const char *key, double seconds);
bool store_check(Store *store, const char *key); // is it there?
bool store_delete(Store *store, const char *key); // was it there?
/* Sets key to desired if it holds expected (or is absent and expected is empty); returns the length
 * of what it holds then, and copies at most `bytes` of it to result. */
size_t store_compare_set(Store *store, const char *key, const char *expected, const char *desired,
                         char *result, size_t bytes);

/* The rest of PyTorch's store, tested against it: not all of it is used here. Operations without a
 * result are not acknowledged; store_ping returns when all before it are done. */
void store_ping(Store *store);
void store_append(Store *store, const char *key, const void *value, size_t bytes);

typedef struct {
    void *data;
    size_t bytes;
} StoreValue;

/* Several keys at once, with values of 64 MiB together. multi_get waits for all of them; each value
 * has its capacity in `bytes`, and on return its length. */
void store_multi_set(Store *store, int count, const char *const keys[], const StoreValue values[]);
void store_multi_get(Store *store, int count, const char *const keys[], StoreValue values[]);

int64_t store_num_keys(Store *store); // on the whole server, whatever the prefix
char *store_list_keys(Store *store); // under the prefix, a line each; free it

/* First in, first out; a queue and a value may have the same key. Pop takes the value as multi_get
 * does; false: the queue is empty (with block: another rank was faster). On PyTorch's server use a
 * separate connection for queues: a push may wake a client that waited for one earlier. */
void store_queue_push(Store *store, const char *key, const void *value, size_t bytes);
bool store_queue_pop(Store *store, const char *key, bool block, StoreValue *value);
int64_t store_queue_len(Store *store, const char *key);

/* Waits until world_size callers have come to this key. Works once per key, since it keeps
 * counting. */
void store_barrier(Store *store, const char *key, int64_t world_size);

#endif
