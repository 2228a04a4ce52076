/* The command line of each step's train program. */
#include "common/base/args.h"
#include "tests/fuzz/targets.h"
#include "tests/fuzz/words.h"

void fuzz_args(Input input)
{
    static Words words;
    const Step step = (Step)(STEP_SINGLE + input_byte(&input) % STEP_FAULT);
    read_words(&words, input);

    Args args;
    args_parse(&args, step, words.argc, words.argv);
    world_passed();
    EXPECT(args.epochs >= 0 && args.batch_size > 0 && args.lr >= 0 && args.timeout > 0);
    EXPECT(args_batch_size(&args, 3) > 0);
}
