/*
 * shards - prints the rows that DistributedSampler gives to one rank, one per line.
 *
 *     tools/shards --size 10 --world-size 3 --rank 0        # 4, 5, 0, 2
 *
 * The list equals that of torch.utils.data.distributed.DistributedSampler for the same seed and
 * epoch, so either can be checked against the other.
 */
#include <getopt.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>

#include "common/base/log.h"
#include "common/base/options.h"
#include "common/data/sampler.h"

// Beyond this torch.randperm draws 64-bit numbers, which give a different order.
#define MAX_SIZE (UINT32_MAX / 20 - 1)
#define MAX_WORLD_SIZE 1000000 // a typing error must not cost gigabytes of padding

static const char help[] =
    "usage: tools/shards --size N --world-size W --rank R [options]\n"
    "Prints the rows of a data set that one rank gets in an epoch, one a line.\n"
    "  --size N         rows of the data set\n"
    "  --world-size W   ranks that share it\n"
    "  --rank R         the rank whose rows are printed, 0 to W - 1\n"
    "  --seed S         of the shuffle (0)\n"
    "  --epoch E        added to the seed (0)\n"
    "  --no-shuffle     in the order of the data set\n"
    "  --drop-last      leave out what does not divide, instead of repeating the first rows\n";

enum {
    SIZE,
    WORLD_SIZE,
    RANK,
    SEED,
    EPOCH,
    NO_SHUFFLE,
    DROP_LAST,
    HELP,
    SHOW_VERSION,
    NUM_OPTIONS
};

static const struct option options[] = {
    { "size", required_argument, NULL, SIZE },
    { "world-size", required_argument, NULL, WORLD_SIZE },
    { "rank", required_argument, NULL, RANK },
    { "seed", required_argument, NULL, SEED },
    { "epoch", required_argument, NULL, EPOCH },
    { "no-shuffle", no_argument, NULL, NO_SHUFFLE },
    { "drop-last", no_argument, NULL, DROP_LAST },
    { "help", no_argument, NULL, HELP },
    { "version", no_argument, NULL, SHOW_VERSION },
    { NULL, 0, NULL, 0 },
};
static const uint64_t smallest[NUM_OPTIONS] = { [WORLD_SIZE] = 1 };
static const uint64_t largest[NUM_OPTIONS] = { [SIZE] = MAX_SIZE,
                                               [WORLD_SIZE] = MAX_WORLD_SIZE,
                                               [RANK] = MAX_WORLD_SIZE - 1,
                                               [SEED] = UINT64_MAX,
                                               [EPOCH] = INT_MAX };

static uint64_t number(int option, const char *text)
{
    char *end = NULL;
    errno = 0;
    const uint64_t value = strtoumax(text, &end, 10);
    if (text[0] < '0' || text[0] > '9' || *end != '\0' || errno != 0 || value < smallest[option] ||
        value > largest[option])
        usage_error("--%s %s: it must be a whole number from %" PRIu64 " to %" PRIu64,
                    options[option].name, text, smallest[option], largest[option]);
    return value;
}

/* Fills value and given, both indexed by option. */
static void parse(int argc, char **argv, uint64_t *value, bool *given)
{
    // --world_size is --world-size; the part after the = is left alone.
    for (int i = 1; i < argc; i++) {
        const size_t length = strncmp(argv[i], "--", 2) == 0 ? strcspn(argv[i], "=") : 0;
        for (size_t j = 0; j < length; j++)
            if (argv[i][j] == '_')
                argv[i][j] = '-';
    }

    opterr = 0;
    int option;
    for (int at = 1; (option = getopt_long(argc, argv, "+:", options, NULL)) != -1; at = optind) {
        if (option == ':')
            usage_error("%s needs a value: see tools/shards --help", argv[at]);
        if (option == '?')
            usage_error("%s is not understood: see tools/shards --help", argv[at]);
        given[option] = true;
        if (optarg != NULL)
            value[option] = number(option, optarg);
    }
    if (optind < argc)
        usage_error("%s is not understood: see tools/shards --help", argv[optind]);
}

int main(int argc, char **argv)
{
    uint64_t value[NUM_OPTIONS] = { 0 };
    bool given[NUM_OPTIONS] = { false };
    streams_guard();
    parse(argc, argv, value, given);
    if (given[HELP]) {
        fputs(help, stdout);
        streams_exit();
    }
    if (given[SHOW_VERSION])
        option_text(&(Option){ .name = "version" }, NULL, NULL);
    if (!given[SIZE] || !given[WORLD_SIZE] || !given[RANK])
        usage_error("--size, --world-size and --rank are needed: see tools/shards --help");
    if (value[RANK] >= value[WORLD_SIZE])
        usage_error("--rank %" PRIu64 ": of %" PRIu64 " ranks the last is %" PRIu64, value[RANK],
                    value[WORLD_SIZE], value[WORLD_SIZE] - 1);

    Sampler sampler;
    distributed_sampler_init(&sampler, value[SIZE], (int)value[RANK], (int)value[WORLD_SIZE],
                             !given[NO_SHUFFLE], given[DROP_LAST], value[SEED]);
    sampler_set_epoch(&sampler, (int)value[EPOCH]);
    for (size_t row; sampler_next(&sampler, &row, 1) > 0;)
        printf("%zu\n", row);
    sampler_free(&sampler);
    streams_exit();
}
