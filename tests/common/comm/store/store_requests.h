/* store_requests.h - requests to a store as bytes, for tests that play its clients. */
#ifndef TESTS_COMMON_COMM_STORE_STORE_REQUESTS_H
#define TESTS_COMMON_COMM_STORE_STORE_REQUESTS_H

#include <string.h>

#include "common/base/comfort.h"
#include "common/comm/store/store_service.h"

/* Reads at most `most` bytes of the replies to a client without a socket; returns how many. */
static inline size_t read_reply(Client *client, void *data, size_t most)
{
    size_t count = 0;
    while (client->unread > 0 && count < most) {
        const Blob reply = service_reply(client);
        const size_t part = reply.count < most - count ? reply.count : most - count;
        memcpy((uint8_t *)data + count, reply.data, part);
        service_sent(client, part);
        count += part;
    }
    return count;
}

#define BYTES(literal) literal, sizeof literal - 1

#define U64(byte) byte "\0\0\0\0\0\0\0" // a number below 256
#define EMPTY U64("\0") // blobs of zero, one and two letters
#define ONE(letter) U64("\1") letter
#define TWO(letters) U64("\2") letters

/* Operations on keys of one letter; values are blobs. */
#define VALIDATE "\0\xce\xf7\x85\x3c"
#define SET(key, value) "\1" ONE(key) value
#define COMPARE_SET(key, expected, desired) "\2" ONE(key) expected desired
#define GET(key) "\3" ONE(key)
#define ADD(key, amount) "\4" ONE(key) amount
#define CHECK_KEY(key) "\5" U64("\1") ONE(key)
#define WAIT(key) "\6" U64("\1") ONE(key)
#define WAIT_TWO(key, other) "\6" U64("\2") ONE(key) ONE(other)
#define GETNUMKEYS "\7"
#define DELETE(key) "\10" ONE(key)
#define APPEND(key, value) "\11" ONE(key) value
#define MULTI_GET(key, other) "\12" U64("\2") ONE(key) ONE(other)
#define MULTI_SET(key, value, other, value2) "\13" U64("\2") ONE(key) value ONE(other) value2
#define CANCEL_WAIT "\14"
#define PING(four) "\15" four
#define PUSH(key, value) "\16" ONE(key) value
#define POP(key) "\17" ONE(key)
#define QUEUE_LEN(key) "\20" ONE(key)
#define LIST_KEYS "\21"
#define BARRIER(key, world) "\22" ONE(key) U64(world)

/* Skips a test of operations that only PyTorch's clients use. */
#define needs_torch_store() \
    do { \
        if (!has_extras) \
            skip(); \
    } while (0)

/* Every operation once (except VALIDATE), and the expected replies. */
#define REQUESTS_OF_KEYS \
    PING("ping") SET("k", ONE("v")) LIST_KEYS GET("k") ADD("n", U64("\5")) GETNUMKEYS DELETE("n")
#define REPLIES_TO_KEYS "ping" U64("\1") ONE("k") ONE("v") U64("\5") U64("\2") U64("\1")
#define REQUESTS_OF_VALUES \
    COMPARE_SET("c", EMPTY, ONE("d")) \
    APPEND("k", ONE("w")) MULTI_SET("a", EMPTY, "b", TWO("22")) MULTI_GET("k", "b")
#define REPLIES_TO_VALUES ONE("d") TWO("vw") TWO("22")
#define REQUESTS_OF_WAITING \
    CHECK_KEY("a") \
    WAIT("a") CANCEL_WAIT PUSH("q", ONE("x")) QUEUE_LEN("q") POP("q") BARRIER("t", "\1")
#define REPLIES_TO_WAITING \
    "\0" \
    "\0" \
    "\1" U64("\1") U64("\1") ONE("x") "\0"
#define CONVERSATION REQUESTS_OF_KEYS REQUESTS_OF_VALUES REQUESTS_OF_WAITING
#define ANSWERS REPLIES_TO_KEYS REPLIES_TO_VALUES REPLIES_TO_WAITING

#endif
