/* hello.h - the first message of a handshake, and what an answerer knows of a caller. */
#ifndef EXTRAS_SECRET_HELLO_H
#define EXTRAS_SECRET_HELLO_H

#include "common/comm/store/handshake.h"

enum { HANDSHAKE_VERSION = 2, HANDSHAKE_BYTES = 32 }; // bytes of a key, a nonce and a proof

/* In host byte order, as TCPStore's messages. */
typedef struct {
    uint8_t opening, version, service, channel;
    int32_t caller, answerer, attempt;
    int64_t group;
    uint8_t nonce[HANDSHAKE_BYTES]; // the caller's
    uint8_t seal[HANDSHAKE_BYTES]; // a MAC over the fields above
} HandshakeHello;

struct HandshakeAnswer {
    HandshakeHello hello;
    uint8_t proof[HANDSHAKE_BYTES]; // the caller's
    uint8_t nonce[HANDSHAKE_BYTES]; // the answerer's
    size_t bytes; // received, of hello and proof
};

/* A Hello, its nonce not drawn and its seal not made yet. */
HandshakeHello hello_for(const HandshakePurpose *purpose);

#endif
