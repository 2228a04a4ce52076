/* The configuration file. */
#include "common/base/args.h"
#include "tests/fuzz/targets.h"

void fuzz_config(Input input)
{
    Args args;
    char *argv[] = { "train", "--config", (char *)world_file(input.data, input.size), NULL };
    args_parse(&args, STEP_FAULT, 3, argv);
    world_passed();
    EXPECT(args.epochs >= 0 && args.batch_size > 0 && args.lr >= 0 && args.timeout > 0);
}
