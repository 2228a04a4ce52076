/* The launcher's command line and PET_ variables, as ddprun of 03 and of 05 reads them. */
#include "common/launch/flags.h"

#include <string.h>

#include "tests/fuzz/targets.h"
#include "tests/fuzz/words.h"

void fuzz_flags(Input input)
{
    static Words words;
    const Step step = input_byte(&input) % 2 == 0 ? STEP_ENV : STEP_FAULT;
    read_words(&words, input);

    static Flags flags;
    flags_parse(&flags, step, words.argc, words.argv);
    EXPECT(flags.nproc_per_node > 0 && flags.nproc_per_node <= FLAGS_MAX_WORKERS);
    EXPECT(flags.min_nodes > 0 && flags.min_nodes <= flags.max_nodes);
    EXPECT(strchr(flags.run_id, '/') == NULL && flags.master_addr[0] != '\0');
    EXPECT(flags.elastic || flags.min_nodes == flags.max_nodes);
    EXPECT(step == STEP_FAULT || !flags.elastic);
    EXPECT(flags.max_nodes == 1 || flags.master_port > 0);
    EXPECT(flags.command[0] != NULL && flags.program != NULL);
    flags_free(&flags);
}
