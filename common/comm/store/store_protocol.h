/* store_protocol.h - the protocol between a store and its clients, that of PyTorch's TCPStore.
 *
 * A request is one byte, the operation, and its arguments; a reply has no header at all. Numbers
 * are in host byte order, which is little-endian in practice. Keys and values are blobs: a u64
 * length, then the bytes. Operations that set something have no reply. The only error signal is a
 * closed connection. */
#ifndef COMMON_COMM_STORE_STORE_PROTOCOL_H
#define COMMON_COMM_STORE_STORE_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

/* ---- bytes ---- */

/* A byte queue: appended at its end, consumed at its front. All zero is an empty one. It holds
 * memory only while it holds bytes. */
typedef struct {
    uint8_t *data;
    size_t count, capacity;
} Bytes;

/* Borrowed bytes; where they are read, data is not NULL. */
typedef struct {
    const uint8_t *data;
    size_t count;
} Blob;

Blob blob_of(const char *text);
int blob_compare(const void *left, const void *right); // orders two Blobs; 0 if they are equal

void bytes_put(Bytes *bytes, const void *data, size_t count);
void bytes_put_u8(Bytes *bytes, uint8_t value);
void bytes_put_u64(Bytes *bytes, uint64_t value); // also for signed values
void bytes_put_blob(Bytes *bytes, Blob blob); // a u64 count, then its bytes

void bytes_drop(Bytes *bytes, size_t count); // drops the first `count`
void bytes_free(Bytes *bytes);

/* A read position. The bytes must be known to be there. */
typedef const uint8_t *Cursor;

uint64_t take_u64(Cursor *at);
Blob take_blob(Cursor *at);

/* ---- requests ---- */

#define STORE_MAGIC 0x3c85f7ceu // sent once by every client
#define STORE_MAX_KEY 8192 // bytes
#define STORE_MAX_VALUE (8u << 20) // bytes
#define STORE_MAX_KEYS (128u << 10) // in one request

/* Ours, not PyTorch's. A server sets KEY/gone when the client of a watched KEY disconnects. CHECK
 * finds STORE_HAS_SECRET in a store whose job has a secret, if the client has none. */
#define STORE_MAX_BUFFER (64u << 20) // bytes of a request, or of a client's unread replies
#define STORE_GONE "/gone"
#define STORE_HAS_SECRET "ddp.c/secret"

typedef enum {
    STORE_VALIDATE,
    STORE_SET,
    STORE_COMPARE_SET,
    STORE_GET,
    STORE_ADD,
    STORE_CHECK,
    STORE_WAIT,
    STORE_GETNUMKEYS,
    STORE_DELETE_KEY,
    STORE_APPEND,
    STORE_MULTI_GET,
    STORE_MULTI_SET,
    STORE_CANCEL_WAIT,
    STORE_PING,
    STORE_QUEUE_PUSH,
    STORE_QUEUE_POP,
    STORE_QUEUE_LEN,
    STORE_LIST_KEYS,
    STORE_BARRIER,
    STORE_NUM_OPERATIONS
} StoreOperation;

enum { STORE_READY, STORE_NOT_READY }; // replies to CHECK
enum { STORE_STOP_WAITING, STORE_WAIT_CANCELED }; // replies to WAIT and BARRIER, and to CANCEL_WAIT

const char *store_operation_name(StoreOperation operation); // returns its name in the protocol

/* How far the request at the front of a buffer has been measured; all zero at first. */
typedef struct {
    size_t bytes; // bytes known to belong to the request
    const char *argument; // next argument, in the list of the operation's arguments
    uint64_t repeats; // how many repetitions are left
} RequestMeasure;

typedef enum { REQUEST_PARTIAL, REQUEST_WHOLE, REQUEST_NONSENSE } RequestState;

/* Continues measuring with the `count` bytes, at least 1, received so far, and checks the
 * protocol's limits; a whole request has measure->bytes. Nothing is measured twice, so a request
 * costs the same in one piece or byte by byte. */
RequestState request_measure(RequestMeasure *measure, const uint8_t *data, size_t count);

#endif
