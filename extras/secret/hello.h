/* hello.h - the first message of a handshake, and what the answerer knows of a caller. */
#ifndef EXTRAS_SECRET_HELLO_H
#define EXTRAS_SECRET_HELLO_H

#include "common/comm/store/handshake.h"

enum { HANDSHAKE_VERSION = 2, HANDSHAKE_BYTES = 32 }; // size of a key, a nonce and a proof

/* A Hello, in host byte order like TCPStore's messages. */
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
    size_t bytes; // bytes received of hello and proof
};

/* Returns a Hello whose nonce and seal are not set yet. */
HandshakeHello hello_for(const HandshakePurpose *purpose);

#endif
