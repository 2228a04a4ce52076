#include "tests/fuzz/targets.h"

const Target targets[] = {
    { "args", fuzz_args, true, "1t" },
    { "config", fuzz_config, true, "t" },
    { "flags", fuzz_flags, false, "1t" },
    { "env", fuzz_env, false, "pt" },
    { "idx", fuzz_idx, false, "1i" },
    { "safetensors", fuzz_safetensors, false, "t" },
    { "checkpoint", fuzz_checkpoint, false, "1t" },
    { "metrics", fuzz_metrics, false, "1t" },
    { "flight", fuzz_flight, false, "p" },
    { "picture", fuzz_picture, false, "1t" },
    { "handshake", fuzz_handshake, false, "1p*" },
    { "service", fuzz_service, false, "1p" },
    { "server", fuzz_server, false, "1p" },
    { "store", fuzz_store, false, "lt" },
    { "mesh", fuzz_mesh, false, "1p*" },
    { "exchange", fuzz_exchange, false, "11p*" },
    { "launch", fuzz_launch, false, "1t" },
};

const int num_targets = sizeof targets / sizeof *targets;
