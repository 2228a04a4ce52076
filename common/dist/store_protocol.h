/*
 * store_protocol.h - what travels between a store and its clients: the protocol of PyTorch's
 * TCPStore.
 *
 * A request is one byte, the operation, and its arguments; a reply has no header at all. Numbers
 * are little-endian (each machine's own order, in truth), keys and values are blobs: a u64 length,
 * then the bytes. Operations that set something have no reply. The one error signal is a closed
 * connection.
 */
#ifndef COMMON_DIST_STORE_PROTOCOL_H
#define COMMON_DIST_STORE_PROTOCOL_H

#include <stddef.h>
#include <stdint.h>

#define STORE_MAGIC 0x3c85f7ceu // what a client proves itself with, once
#define STORE_MAX_KEY 8192 // bytes
#define STORE_MAX_VALUE (8u << 20) // bytes
#define STORE_MAX_KEYS (128u << 10) // of one request
/* Ours alone: what one side buffers of the other, be it one request or replies that nobody reads.
 */
#define STORE_MAX_BUFFER (64u << 20) // bytes
/* Ours too: behind the key of a client that is missed, when it has gone (store_server.h). */
#define STORE_GONE "/gone"

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

/* The protocol's word for an operation, for messages. */
const char *store_operation_name(StoreOperation operation);

/* How far the request at the front of some bytes has been measured; all zero is the beginning. */
typedef struct {
    size_t bytes; // that belong to it for certain
    const char *argument; // the next one, in the list of the operation's arguments
    const char *repeat; // where those that come several times begin
    uint64_t repeats; // how often they come again
} RequestMeasure;

typedef enum { REQUEST_PARTIAL, REQUEST_WHOLE, REQUEST_NONSENSE } RequestState;

/* Measures on, given the `count` bytes that are there by now. No limit of the protocol is exceeded,
 * and no byte beyond these is looked at; a request of measure->bytes is whole. Nothing is measured
 * twice, so a request costs the same in one piece and byte by byte. */
RequestState request_measure(RequestMeasure *measure, const uint8_t *data, size_t count);

#endif
