/*
 * The handshake: an answerer that gets any bytes in any parts, and a caller that gets any answer.
 * Only a peer with the right MAC is accepted; an input can have it, since random numbers are fixed.
 */
#include "extras/secret/hello.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "tests/fuzz/targets.h"

void fuzz_handshake(Input input)
{
    if (!has_extras)
        return; // a build without extras/secret
    const Key256 key = { { 0 } };
    const HandshakePurpose own = { .service = HANDSHAKE_BACKEND };
    if (input_byte(&input) % 2 == 0) {
        const int fd = world_connect(input);
        handshake_call(fd, &key, &own, seconds_now() + 1);
        world_passed();
        close(fd);
        return;
    }
    HandshakeAnswer *answer = NULL;
    HandshakeState state = HANDSHAKE_MORE;
    while (state != HANDSHAKE_DONE && state != HANDSHAKE_REFUSED && input.size > 0) {
        const int fd = world_connect(input_part(&input)); // may be read only in part
        HandshakePurpose purpose = own;
        state = handshake_read(fd, &answer, &key, &purpose);
        if (state != HANDSHAKE_REFUSED)
            world_passed();
        EXPECT(answer->bytes <= sizeof answer->hello + sizeof answer->proof);
        EXPECT(state != HANDSHAKE_DONE ||
               answer->bytes == sizeof answer->hello + sizeof answer->proof);
        close(fd);
    }
    free(answer);
}
