/* What the handshake is in every build; the rest is in extras/secret or secret_absent.c. */
#include "common/comm/store/handshake.h"

#include <stdlib.h>

#include "common/base/log.h"

_Static_assert(sizeof(HandshakeHello) == 24 + 128 + HANDSHAKE_BYTES, "a Hello has no padding");

HandshakeHello handshake_hello(HandshakeService service)
{
    HandshakeHello hello = { .opening = HANDSHAKE_OPENING,
                             .version = HANDSHAKE_VERSION,
                             .service = (uint8_t)service };
    const char *run_id = getenv("TORCHELASTIC_RUN_ID");
    if (run_id == NULL || run_id[0] == '\0')
        run_id = "none";
    CHECK(strlen(run_id) < sizeof hello.run_id, "TORCHELASTIC_RUN_ID is too long: %s", run_id);
    if (service != HANDSHAKE_ENDPOINT)
        strcpy(hello.run_id, run_id);
    return hello;
}

bool handshake_is_for(const HandshakeHello *theirs, const HandshakeHello *own)
{
    HandshakeHello expected = *own;
    expected.caller = theirs->caller;
    expected.channel = theirs->channel;
    memcpy(expected.nonce, theirs->nonce, sizeof expected.nonce);
    const bool is_peer = own->caller == 0
                             ? theirs->caller == 0
                             : theirs->caller > own->answerer && theirs->caller < own->caller;
    return is_peer && theirs->channel <= own->channel &&
           memcmp(theirs, &expected, sizeof expected) == 0; // nothing in it is secret
}

void secret_report_none(const char *host, int port)
{
    log_info("this job has no secret: whoever reaches %s:%d may join it; give every node the same "
             "--secret-file or " SECRET_VARIABLE " (docs/security.md)",
             host, port);
}
