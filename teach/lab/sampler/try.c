/*
 * Usage: try RUNG RANKS SEED, or try serve RANK RANKS DESCRIPTOR
 * The harness of lab-sampler: each rank compares the learner's rows with those of our sampler,
 * which has PyTorch's (tests/common/data/test_sampler.c), and prints the first fault as "NAME:
 * TEXT".
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/rng.c" // with the sanitizers that this file has
#include "common/data/sampler.h"
#include "teach/lab/ranks.h"
#include "teach/lab/served.h"

// Ours, under other names.
#define distributed_sampler_init our_distributed_init
#define sampler_pad our_pad
#define sequential_sampler_init our_sequential_init
#define sampler_set_epoch our_set_epoch
#define sampler_seek our_seek
#define sampler_next our_next
#define sampler_free our_free
void sampler_set_epoch(Sampler *sampler, int epoch);
#include "common/data/sampler.c"
#undef distributed_sampler_init
#undef sampler_pad
#undef sequential_sampler_init
#undef sampler_set_epoch
#undef sampler_seek
#undef sampler_next
#undef sampler_free

typedef struct {
    size_t rows;
    bool shuffle, drop_last;
    uint64_t seed;
} Case;

static int rung;
static uint64_t seed;
static char what[128]; // the setting, for messages

/* The learner's sampler and ours, in the same setting. */
typedef struct {
    Sampler mine, due;
} Pair;

static void begin(Pair *pair, const ProcessGroup *pg, const Case *s)
{
    snprintf(what, sizeof what, "%zu rows, %d ranks%s%s, seed %llu", s->rows, pg->world_size,
             s->shuffle ? ", shuffle" : "", s->drop_last ? ", drop_last" : "",
             (unsigned long long)s->seed);
    lab_count = (LabCount){ 0 };
    distributed_sampler_init(&pair->mine, s->rows, pg->rank, pg->world_size, s->shuffle,
                             s->drop_last, s->seed);
    our_distributed_init(&pair->due, s->rows, pg->rank, pg->world_size, s->shuffle, s->drop_last,
                         s->seed);
}

static void end(Pair *pair)
{
    const size_t places =
        pair->due.total > pair->due.dataset_size ? pair->due.total : pair->due.dataset_size;
    sampler_free(&pair->mine);
    if (lab_count.live > 0)
        fault("memory", "%s: %zu bytes are not freed", what, lab_count.live);
    if (lab_count.peak > 2 * places * sizeof(size_t) + 65536)
        fault("memory", "%s: %zu bytes are allocated for an order of %zu rows", what,
              lab_count.peak, places);
    our_free(&pair->due);
}

// Whether the last same_rows got rows where 0 were due, or 0 where rows were due.
static bool ends_wrong;

/* Takes the rest of an epoch from both, in pieces of at most max. Returns whether they are equal;
 * if not, writes the difference to text. */
static bool same_rows(Pair *pair, size_t max, char text[256])
{
    size_t *mine = malloc((max > 0 ? max : 1) * sizeof *mine),
           *due = malloc((max > 0 ? max : 1) * sizeof *due);
    bool same = true;
    for (size_t place = pair->due.position, count = 1; same && count > 0;) {
        count = our_next(&pair->due, due, max);
        const size_t got = sampler_next(&pair->mine, mine, max);
        if (got != count) {
            ends_wrong = count == 0 || got == 0;
            snprintf(
                text, 256,
                "%s: sampler_next of at most %zu returns %zu at place %zu, and should return %zu",
                what, max, got, place, count);
            same = false;
        }
        for (size_t i = 0; same && i < count; i++) {
            if (mine[i] != due[i]) {
                snprintf(text, 256, "%s: place %zu of this rank is row %zu, and should be row %zu",
                         what, place + i, mine[i], due[i]);
                same = false;
            }
        }
        place += count;
    }
    free(due);
    free(mine);
    return same;
}

static void expect_rows(Pair *pair, size_t max, const char *name)
{
    char text[256];
    lab_stage(name);
    ends_wrong = false;
    if (!same_rows(pair, max, text))
        fault(rung == 1 && ends_wrong ? "end" : name, "%s", text);
}

static void check_size(const Pair *pair, const char *name)
{
    if (pair->mine.size != pair->due.size)
        fault(name, "%s: size is %zu, and should be %zu", what, pair->mine.size, pair->due.size);
}

/* Tries the first epoch in one call, without set_epoch, and its end. */
static void try_first(Pair *pair)
{
    const size_t count = pair->due.size;
    size_t *mine = calloc(count + 1, sizeof *mine), *due = calloc(count + 1, sizeof *due);
    our_next(&pair->due, due, count);
    const size_t got = sampler_next(&pair->mine, mine, count);
    bool all_zero = true;
    for (size_t i = 0; i < got; i++)
        all_zero = all_zero && mine[i] == 0;
    if (got != count)
        fault(got == 0 ? "ready" : "part", "%s: the first sampler_next of at most %zu returns %zu",
              what, count, got);
    for (size_t i = 0; i < count; i++)
        if (mine[i] != due[i])
            fault(all_zero && count > 1 ? "ready" : "deal",
                  "%s: row %zu of this rank is %zu, and should be %zu", what, i, mine[i], due[i]);
    if (count > 0 && sampler_next(&pair->mine, mine, count) != 0)
        fault("end", "%s: after all rows sampler_next does not return 0", what);
    if (count > 0)
        our_next(&pair->due, due, count);
    free(due);
    free(mine);
}

static void try_simple(const ProcessGroup *pg, size_t rows)
{
    Pair pair;
    lab_stage("ready");
    begin(&pair, pg, &(Case){ rows, false, false, 0 });
    check_size(&pair, "total");
    try_first(&pair);
    expect_rows(&pair, 3, "part");
    expect_rows(&pair, rows + 5, "part");
    expect_rows(&pair, 1, "part");
    if (pair.mine.epoch != pair.due.epoch)
        fault("end", "%s: after four epochs epoch is %d, and should be %d", what, pair.mine.epoch,
              pair.due.epoch);
    end(&pair);
}

static void try_size(const ProcessGroup *pg, size_t rows, bool drop_last, const char *size,
                     const char *order)
{
    Pair pair;
    lab_stage(drop_last ? "room" : order);
    begin(&pair, pg, &(Case){ rows, false, drop_last, 0 });
    check_size(&pair, size);
    expect_rows(&pair, 4, order);
    expect_rows(&pair, 4, order);
    end(&pair);
}

/* Returns the hint for why the order of this epoch is wrong. */
static const char *why_shuffled(const ProcessGroup *pg, const Case *s, int epoch)
{
    Pair pair;
    char text[256];
    begin(&pair, pg, s);
    if (epoch != 0)
        sampler_set_epoch(&pair.mine, epoch);
    our_set_epoch(&pair.due, 0);
    const bool as_first = epoch != 0 && same_rows(&pair, 7, text);
    our_free(&pair.due);
    our_distributed_init(&pair.due, s->rows, pg->rank, pg->world_size, true, s->drop_last,
                         s->seed + (uint64_t)pg->rank);
    sampler_set_epoch(&pair.mine, epoch + 1);
    sampler_set_epoch(&pair.mine, epoch);
    our_set_epoch(&pair.due, epoch);
    const bool own_seed = pg->rank > 0 && same_rows(&pair, 7, text);
    return as_first ? "epoch" : own_seed ? "seed" : "";
}

static void try_shuffle(const ProcessGroup *pg, const Case *s, const char *name)
{
    static const int epochs[] = { 0, 1, 2, 1, 0, 7 };
    Pair pair;
    char text[256];
    lab_stage(s->drop_last ? "room" : name);
    begin(&pair, pg, s);
    check_size(&pair, s->drop_last ? "drop" : "equal");
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        if (i > 0) {
            sampler_set_epoch(&pair.mine, epochs[i]);
            our_set_epoch(&pair.due, epochs[i]);
        }
        if (same_rows(&pair, 7, text))
            continue;
        const char *why = why_shuffled(pg, s, epochs[i]);
        if (*why == '\0') // in epoch 0 of the simplest setting nothing else can be wrong
            why = i == 0 || strcmp(name, "pytorch") != 0 ? name : "history";
        fault(why, "epoch %d: %s", epochs[i], text);
    }
    if (!same_rows(&pair, 7, text))
        fault("keeps", "the next epoch, without set_epoch: %s", text);
    end(&pair);
}

static void try_sequential(const ProcessGroup *pg, size_t rows)
{
    Pair pair;
    snprintf(what, sizeof what, "sequential_sampler_init of %zu rows, %d ranks", rows,
             pg->world_size);
    lab_stage("once");
    lab_count = (LabCount){ 0 };
    sequential_sampler_init(&pair.mine, rows, pg->rank, pg->world_size);
    our_sequential_init(&pair.due, rows, pg->rank, pg->world_size);
    check_size(&pair, "once");
    expect_rows(&pair, 5, "once");
    expect_rows(&pair, rows + 1, "once");
    end(&pair);
}

static void take(Pair *pair, size_t max)
{
    size_t *index = malloc((max + 1) * sizeof *index);
    sampler_next(&pair->mine, index, max);
    our_next(&pair->due, index, max);
    free(index);
}

static void try_resume(const ProcessGroup *pg, const Case *s)
{
    Pair pair;
    begin(&pair, pg, s);
    static const int epochs[] = { 3, 3, 4, 3, 0 };
    for (size_t i = 0; i < sizeof epochs / sizeof *epochs; i++) {
        lab_stage("resume");
        sampler_set_epoch(&pair.mine, epochs[i]);
        our_set_epoch(&pair.due, epochs[i]);
        if (pair.mine.position != pair.due.position)
            fault("resume", "%s: after set_epoch(%d) position is %zu, and should be %zu", what,
                  epochs[i], pair.mine.position, pair.due.position);
        take(&pair, 2);
    }
    expect_rows(&pair, 3, "resume");
    for (size_t position = 0; position < s->rows + 3 * (size_t)pg->world_size; position++) {
        const char *name = position < s->rows ? "seek" : "seek_end";
        lab_stage(name);
        sampler_set_epoch(&pair.mine, 5);
        our_set_epoch(&pair.due, 5);
        sampler_seek(&pair.mine, position);
        our_seek(&pair.due, position);
        if (pair.mine.position != pair.due.position)
            fault(name, "%s: after sampler_seek(%zu) position is %zu, and should be %zu", what,
                  position, pair.mine.position, pair.due.position);
        expect_rows(&pair, 6, name);
    }
    end(&pair);

    lab_stage("shards");
    begin(&pair, pg, s);
    sampler_pad(&pair.mine, pg->world_size * 4);
    our_pad(&pair.due, pg->world_size * 4);
    check_size(&pair, "shards");
    expect_rows(&pair, 8, "shards");
    end(&pair);
}

static void try_rung(ProcessGroup *pg, void *context)
{
    (void)context;
    const size_t n = (size_t)pg->world_size;
    size_t drawn[8];
    for (size_t i = 0; i < 8; i++)
        drawn[i] = lab_draw(seed, (uint64_t)rung, n, i) % (i < 4 ? 40 : 5000);
    const size_t sizes[] = { 3 * n + 1, 5 * n - 1, n + 1,    1,        n > 1 ? n - 1 : 1, 2,
                             n / 2 + 1, 0,         drawn[0], drawn[1], drawn[2],          drawn[3],
                             drawn[4],  drawn[5],  drawn[6], drawn[7] };
    const size_t count = sizeof sizes / sizeof *sizes;
    for (size_t i = 0; rung == 1 && i < count; i++)
        try_simple(pg, sizes[i] == 0 ? 0 : (sizes[i] + n - 1) / n * n);
    for (size_t i = 0; rung == 2 && i < count; i++)
        try_size(pg, sizes[i] / n * n, i % 2 == 1, "total", "total");
    for (size_t i = 0; rung == 2 && i < count; i++)
        try_size(pg, sizes[i], false, "equal", sizes[i] < n ? "few" : "pad");
    for (size_t i = 0; rung == 2 && i < count; i++)
        try_size(pg, sizes[i], true, "drop", "drop");
    if (rung == 3)
        try_shuffle(pg, &(Case){ 12 * n, true, false, 0 }, "pytorch");
    for (size_t i = 0; rung == 3 && i < count; i++)
        try_shuffle(pg, &(Case){ sizes[i], true, false, i },
                    sizes[i] % n == 0 ? "pytorch" : "pad_first");
    for (size_t i = 0; rung == 3 && i < count; i++)
        try_shuffle(pg, &(Case){ sizes[i], true, true, i }, "drop_shuffle");
    for (size_t i = 0; rung == 3 && i < 4; i++)
        try_shuffle(pg, &(Case){ 9 * n, true, false, lab_draw(seed, 9, n, i) >> 24 }, "seed");
    for (size_t i = 0; rung == 4 && i < count; i++)
        try_sequential(pg, sizes[i]);
    for (size_t i = 0; rung == 5 && i < count; i++)
        try_resume(pg, &(Case){ sizes[i] % 60, i % 3 > 0, i % 3 == 2, i });
}

/* Runs a sampler with numbers drawn by the judge. The words are rows, shuffle, drop_last, seed,
 * sequential; the data are pairs: 0 EPOCH, 1 POSITION (seek), 2 MOST (next), 3 MULTIPLE (pad).
 * Replies with the size, and the count and the rows of each next. */
static void answer(ProcessGroup *pg, const Order *order, void *data)
{
    static int64_t values[1 << 16];
    const int32_t *word = order->word, *pair = data;
    Sampler sampler;
    size_t count = 1, index[1 << 12];
    if (word[4])
        sequential_sampler_init(&sampler, (size_t)word[0], pg->rank, pg->world_size);
    else
        distributed_sampler_init(&sampler, (size_t)word[0], pg->rank, pg->world_size, word[1],
                                 word[2], (uint64_t)word[3]);
    for (size_t i = 0; i + 1 < order->bytes / sizeof *pair; i += 2) {
        if (pair[i] == 0)
            sampler_set_epoch(&sampler, pair[i + 1]);
        if (pair[i] == 1)
            sampler_seek(&sampler, (size_t)pair[i + 1]);
        if (pair[i] == 3)
            sampler_pad(&sampler, pair[i + 1]);
        if (pair[i] != 2)
            continue;
        const size_t got = sampler_next(&sampler, index, (size_t)pair[i + 1]);
        CHECK(got <= (size_t)pair[i + 1] && count + got < 1 << 16, "too many rows");
        values[count++] = (int64_t)got;
        for (size_t k = 0; k < got; k++)
            values[count++] = (int64_t)index[k];
    }
    values[0] = (int64_t)sampler.size;
    sampler_free(&sampler);
    lab_send(RESULT, NULL, values, count * sizeof *values);
}

int main(int argc, char **argv)
{
    if (argc == 5)
        lab_serve(argv, answer);
    CHECK(argc == 4, "usage: try RUNG RANKS SEED");
    rung = atoi(argv[1]);
    seed = strtoull(argv[3], NULL, 10);
    return lab_run(atoi(argv[2]), try_rung, NULL);
}
