/* The launcher's command line and PET_ variables, as 03's and 05's ddprun read them. */
#include "launcher/elastic_group.h"

#include <string.h>

#include "tests/fuzz/targets.h"
#include "tests/fuzz/words.h"

void fuzz_flags(Input input)
{
    static Words words;
    const MoreFlags *more = input_byte(&input) % 2 == 0 ? NULL : &more_flags;
    read_words(&words, input);
    world_set_env("DDP_SECRET_FILE="); // otherwise it would make one and keep it open

    static Flags flags;
    flags_parse(&flags, more, words.argc, words.argv);
    world_passed();
    EXPECT(flags.nproc_per_node > 0 && flags.nproc_per_node <= FLAGS_MAX_WORKERS);
    EXPECT(flags.min_nodes > 0 && flags.min_nodes <= flags.max_nodes);
    EXPECT(strchr(flags.run_id, '/') == NULL && flags.master_addr[0] != '\0');
    EXPECT(flags.elastic || flags.min_nodes == flags.max_nodes);
    EXPECT(more != NULL || !flags.elastic);
    EXPECT(flags.max_nodes == 1 || flags.master_port > 0);
    EXPECT(flags.command[0] != NULL && flags.program != NULL);
    rank_output_check(&flags);
    flags_free(&flags);
}
