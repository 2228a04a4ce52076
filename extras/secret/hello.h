/* hello.h - the first message of a handshake, and what an answerer knows of a caller. */
#ifndef EXTRAS_SECRET_HELLO_H
#define EXTRAS_SECRET_HELLO_H

#include "common/comm/store/handshake.h"

enum { HANDSHAKE_VERSION = 1, HANDSHAKE_BYTES = 32 }; // bytes of a key, a nonce and a proof

/* In host byte order, as TCPStore's messages. */
typedef struct {
    uint8_t opening, version, service, channel;
    int32_t caller, answerer, attempt;
    int64_t group;
    char run_id[128]; // TORCHELASTIC_RUN_ID, zero-padded; "none" where it is not set
    uint8_t nonce[HANDSHAKE_BYTES]; // the caller's
} HandshakeHello;

struct HandshakeAnswer {
    HandshakeHello hello;
    uint8_t proof[HANDSHAKE_BYTES]; // the caller's
    uint8_t nonce[HANDSHAKE_BYTES]; // the answerer's
    size_t bytes; // received, of hello and proof
};

/* A Hello for this job, its nonce not drawn yet. */
HandshakeHello hello_for(const HandshakePurpose *purpose);

/* As secret_find has read it: a server's thread makes Hellos, and must not read the environment
 * while another thread changes it. */
extern char secret_run_id[128];

#endif
