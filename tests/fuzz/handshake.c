/*
 * The handshake: an answerer that gets any bytes in any parts, and a caller that gets any answer.
 * Only who computes the MAC is let in: the input can, since random numbers are known in this world.
 */
#include "common/comm/store/handshake.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"
#include "tests/fuzz/targets.h"

void fuzz_handshake(Input input)
{
    const Key256 key = { { 0 } };
    const HandshakeHello own = handshake_hello(HANDSHAKE_BACKEND);
    if (input_byte(&input) % 2 == 0) {
        const int fd = world_connect(input);
        handshake_call(fd, &key, own, seconds_now() + 1);
        close(fd);
        return;
    }
    HandshakeAnswer answer = { 0 };
    HandshakeState state = HANDSHAKE_MORE;
    while (state == HANDSHAKE_MORE && input.size > 0) {
        const Input part = input_part(&input);
        const size_t most = handshake_wants(&answer), count = part.size < most ? part.size : most;
        uint8_t reply[HANDSHAKE_REPLY_BYTES];
        size_t reply_bytes = 0;
        EXPECT(most > 0);
        state = handshake_take(&answer, &key, &own, part.data, count, reply, &reply_bytes);
        EXPECT(reply_bytes <= sizeof reply && answer.bytes <= sizeof answer.hello + 32);
        EXPECT(state != HANDSHAKE_DONE || reply_bytes == 1);
    }
}
