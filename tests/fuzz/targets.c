#include "tests/fuzz/targets.h"

const Target targets[] = {
    { "args", fuzz_args, true },
    { "config", fuzz_config, true },
    { "flags", fuzz_flags, false },
    { "env", fuzz_env, false },
    { "idx", fuzz_idx, false },
    { "safetensors", fuzz_safetensors, false },
    { "checkpoint", fuzz_checkpoint, false },
    { "metrics", fuzz_metrics, false },
    { "flight", fuzz_flight, false },
    { "picture", fuzz_picture, false },
    { "handshake", fuzz_handshake, false },
    { "service", fuzz_service, false },
    { "server", fuzz_server, false },
    { "store", fuzz_store, false },
    { "mesh", fuzz_mesh, false },
    { "exchange", fuzz_exchange, false },
    { "launch", fuzz_launch, false },
};

const int num_targets = sizeof targets / sizeof *targets;
