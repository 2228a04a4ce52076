/*
 * Usage: try RUNG RANKS SEED, or try serve RANK RANKS DESCRIPTOR
 * The harness of lab-ring: calls the learner's functions on forked ranks, from easy to hard, and
 * prints the first fault as "NAME: TEXT". Numbers are small integers whose sum is a multiple of
 * RANKS, so that each order of adding gives the same bits in every type; two of them are no
 * multiples, so that dividing before adding does not.
 */
#include "teach/lab/ring/ring.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "common/comm/reduce_ops.c" // with the sanitizers that this file has
#include "teach/lab/ranks.h"
#include "teach/lab/served.h"

typedef enum { BROADCAST_, ALL_REDUCE_, REDUCE_SCATTER_, ALL_GATHER_ } What;
static const char *const names[] = { "lab_broadcast", "lab_all_reduce", "lab_reduce_scatter",
                                     "lab_all_gather" };
static const char *const op_names[] = { "sum", "mean", "max", "min" };

static int rung;
static uint64_t seed, num_calls;
static bool lone; // whether there is one rank only

/* Returns the number that a rank has at this place in this call. */
static double number(int rank, size_t i, int n, DType type)
{
    const int most = 248 / (n * n); // so that sums fit in a byte, and in the 8 bits that bf16 has
    const uint64_t drawn = lab_draw(seed, num_calls, (uint64_t)rank, i);
    const double size = n * (double)(drawn % ((uint64_t)most + 1));
    const int first = (int)(i % (size_t)n), second = (first + 1) % n; // get a rest, and n - rest
    const int rest = n > 1 ? 1 + first % (n - 1) : 0;
    const int more = rank == first ? rest : rank == second ? n - rest : 0;
    return (drawn >> 40 & 1 && type != UINT8 ? -size : size) + more;
}

static void put(void *array, DType type, size_t i, double value)
{
    union {
        float value;
        uint32_t bits;
    } wide = { .value = (float)value };
    switch (type) {
    case FLOAT32:
        ((float *)array)[i] = (float)value;
        break;
    case BFLOAT16:
        ((uint16_t *)array)[i] = (uint16_t)(wide.bits >> 16);
        break;
    case FLOAT64:
        ((double *)array)[i] = value;
        break;
    case INT32:
        ((int32_t *)array)[i] = (int32_t)value;
        break;
    case INT64:
        ((int64_t *)array)[i] = (int64_t)value;
        break;
    default:
        ((uint8_t *)array)[i] = (uint8_t)value;
    }
}

static double get(const void *array, DType type, size_t i)
{
    union {
        float value;
        uint32_t bits;
    } wide;
    switch (type) {
    case FLOAT32:
        return (double)((const float *)array)[i];
    case BFLOAT16:
        wide.bits = (uint32_t)((const uint16_t *)array)[i] << 16;
        return (double)wide.value;
    case FLOAT64:
        return ((const double *)array)[i];
    case INT32:
        return ((const int32_t *)array)[i];
    case INT64:
        return (double)((const int64_t *)array)[i];
    default:
        return ((const uint8_t *)array)[i];
    }
}

static double reduced(size_t i, int n, DType type, ReduceOp op)
{
    double result = number(0, i, n, type);
    for (int rank = 1; rank < n; rank++) {
        const double other = number(rank, i, n, type);
        result = op == REDUCE_MAX   ? fmax(result, other)
                 : op == REDUCE_MIN ? fmin(result, other)
                                    : result + other;
    }
    return op == REDUCE_MEAN ? result / n : result;
}

#define FILLED 0x5a // each byte of an array that nobody has written yet

/* Returns a new array for each call, so that the sanitizer knows where it ends. */
static void *array_of(size_t count, DType type)
{
    const size_t bytes = count * dtype_size(type);
    return memset(malloc(bytes > 0 ? bytes : 1), FILLED, bytes);
}

typedef struct {
    What what;
    size_t count; // elements of the whole array, or of a rank's share
    DType type;
    ReduceOp op;
    int root;
    bool alias; // the short array is this rank's share of the long one
    const char *stage; // the judge's stage: "op", "lengths", "dtype", "again", "long" or ""
} Call;

/* Returns a text such as "lab_all_reduce of 12 float32 (sum)". */
static const char *describe(const Call *call)
{
    static char text[128];
    const bool reduces = call->what == ALL_REDUCE_ || call->what == REDUCE_SCATTER_;
    snprintf(text, sizeof text, "%s of %zu %s%s%s%s", names[call->what], call->count,
             dtype_name(call->type), reduces ? " (" : "", reduces ? op_names[call->op] : "",
             reduces ? ")" : "");
    return text;
}

/* What a wrong sum holds, such as one rank's numbers only, or with one rank's twice. */
typedef struct {
    const char *hint; // NULL: something else
    char text[64];
} Finding;

/* Compares a wrong sum with what each rank has at place i of the whole array. */
static Finding look_into(const Call *call, int me, size_t i, int n, double got, double due)
{
    static const char *const hints[] = { "only", "twice", "missing" };
    static const char *const what[] = { "is all that is in it", "is in it twice", "is missing" };
    Finding found = { .hint = NULL };
    for (int k = 0; k < 3 * n && found.hint == NULL && call->op == REDUCE_SUM; k++) {
        const int rank = (me + k) % n, kind = k / n;
        const double its = number(rank, i, n, call->type);
        if (its == 0 || got != (kind == 0 ? its : kind == 1 ? due + its : due - its))
            continue;
        found.hint = hints[kind];
        snprintf(found.text, sizeof found.text, ": rank %d's number %s", rank, what[kind]);
        if (k == 0)
            snprintf(found.text, sizeof found.text, ": it is still your own number");
    }
    return found;
}

/* Looks into a wrong share: was it written at all, and is it another rank's? */
static Finding look_into_share(const Call *call, const ProcessGroup *pg, const char *array,
                               size_t i)
{
    const size_t size = dtype_size(call->type), count = call->count;
    const char *place = array + i * size;
    Finding found = { .hint = NULL };
    if (call->stage[0] != '\0' || call->alias)
        return found;
    if (place[0] == FILLED && memcmp(place, place + 1, size - 1) == 0)
        return (Finding){ "unwritten", ": nobody has written it" };
    for (int rank = 0; rank < pg->world_size && call->what == REDUCE_SCATTER_; rank++) {
        const size_t first = (size_t)rank * count;
        size_t k = 0;
        while (k < count && get(array, call->type, k) ==
                                reduced(first + k, pg->world_size, call->type, call->op))
            k++;
        if (k < count)
            continue;
        found.hint = "shifted";
        snprintf(found.text, sizeof found.text, ": these are the sums of share %d", rank);
    }
    return found;
}

/* Returns what an integer's mean becomes if each rank's number is divided before it is added. */
static double divided_first(size_t i, int n, DType type)
{
    double result = 0;
    for (int rank = 0; rank < n; rank++)
        result += trunc(number(rank, i, n, type) / n);
    return result;
}

/* Returns the name of the hint for a wrong value at place i of the whole array. */
static const char *diagnosis(const Call *call, const Finding *found, int n, size_t i, double got)
{
    const bool reduces = call->what == ALL_REDUCE_ || call->what == REDUCE_SCATTER_;
    if (lone)
        return "alone";
    if (reduces && call->op == REDUCE_MEAN &&
        (strcmp(call->stage, "op") == 0 || got == divided_first(i, n, call->type)))
        return "mean";
    if (strcmp(call->stage, "lengths") == 0)
        return call->count < (size_t)n ? "short" : "rest";
    if (call->stage[0] != '\0')
        return call->stage;
    if (call->alias)
        return "alias";
    if (found->hint != NULL && rung > 2 && strcmp(found->hint, "only") == 0)
        return call->what == REDUCE_SCATTER_ ? "add" : "block";
    if (found->hint != NULL)
        return found->hint;
    return call->what == BROADCAST_ ? "root" : rung == 2 ? "sum" : "block";
}

static void compare(const Call *call, const ProcessGroup *pg, const void *array, size_t count,
                    size_t first)
{
    const int n = pg->world_size;
    for (size_t i = 0; i < count; i++) {
        double due = 0;
        if (call->what == BROADCAST_)
            due = number(call->root, i, n, call->type);
        else if (call->what == ALL_GATHER_)
            due = number((int)(i / call->count), i % call->count, n, call->type);
        else
            due = reduced(first + i, n, call->type, call->op);
        const double got = get(array, call->type, i);
        if (got == due)
            continue;
        Finding found = { .hint = NULL };
        if (call->what == REDUCE_SCATTER_ || call->what == ALL_GATHER_)
            found = look_into_share(call, pg, array, i);
        if (found.hint == NULL && (call->what == ALL_REDUCE_ || call->what == REDUCE_SCATTER_))
            found = look_into(call, pg->rank, first + i, n, got, due);
        fault(diagnosis(call, &found, n, first + i, got),
              "%s: element %zu is %g, and should be %g%s", describe(call), i, got, due, found.text);
    }
}

/* Checks what a call of rungs 3 and 4 sends, keeps and takes. `part` is the longest. */
static void check_costs(const Call *call, const ProcessGroup *pg)
{
    const size_t n = (size_t)pg->world_size, size = dtype_size(call->type);
    if (lab_count.live > 0)
        fault("memory", "%s: %zu bytes are not freed", describe(call), lab_count.live);
    if (rung < 3)
        return;
    const bool whole = call->what == ALL_REDUCE_;
    const size_t part = (whole ? (call->count + n - 1) / n : call->count) * size;
    const size_t steps = (whole ? 2 : 1) * (n - 1);
    for (int rank = 0; rank < pg->world_size; rank++)
        if (lab_count.peer[rank] && rank != (pg->rank + 1) % (int)n &&
            (rank + 1) % (int)n != pg->rank)
            fault("neighbours", "%s: rank %d exchanges messages with rank %d", describe(call),
                  pg->rank, rank);
    if (lab_count.sent > steps * part)
        fault("bytes", "%s: rank %d sends %zu bytes; %zu are enough", describe(call), pg->rank,
              lab_count.sent, steps * part);
    if (n > 2 && lab_count.longest > part)
        fault("part", "%s: rank %d sends a message of %zu bytes; the longest part has %zu",
              describe(call), pg->rank, lab_count.longest, part);
    if (lab_count.clock > 3.0 * (double)(steps * part))
        fault("chain", "%s: it takes as long as %.0f bytes, one after the other; %zu are enough",
              describe(call), lab_count.clock, 3 * steps * part);
    if (lab_count.peak > 2 * part + 65536)
        fault("memory", "%s: %zu bytes are allocated; two parts have %zu", describe(call),
              lab_count.peak, 2 * part);
}

static void call_learner(ProcessGroup *pg, const Call *call, void *whole, void *share)
{
    const size_t count = call->count;
    switch (call->what) {
    case BROADCAST_:
        lab_broadcast(pg, whole, count, call->type, call->root);
        break;
    case ALL_REDUCE_:
        lab_all_reduce(pg, whole, count, call->type, call->op);
        break;
    case REDUCE_SCATTER_:
        lab_reduce_scatter(pg, whole, share, count, call->type, call->op);
        break;
    case ALL_GATHER_:
        lab_all_gather(pg, share, whole, count, call->type);
        break;
    }
}

/* Makes one call on this rank, and checks its result. */
static void try_call(ProcessGroup *pg, const Call *call)
{
    const int n = pg->world_size;
    const size_t shares = (size_t)n, count = call->count, mine = (size_t)pg->rank * count;
    const bool scatters = call->what == REDUCE_SCATTER_, gathers = call->what == ALL_GATHER_;
    const size_t size = dtype_size(call->type);
    char *whole = array_of(scatters || gathers ? count * shares : count, call->type);
    void *share = call->alias ? whole + mine * size : array_of(count, call->type);
    num_calls++;
    lab_tries(call->stage[0] == '\0' ? "deadlock" : "deadlock_length", describe(call));
    lab_stage(call->stage);
    for (size_t i = 0; !gathers && i < (scatters ? count * shares : count); i++)
        put(whole, call->type, i, number(pg->rank, i, n, call->type));
    for (size_t i = 0; gathers && i < count; i++)
        put(share, call->type, i, number(pg->rank, i, n, call->type));

    lab_reset();
    call_learner(pg, call, whole, share);
    const LabCount counted = lab_count;
    lab_barrier();
    lab_count = counted;
    if (rung == 3 && count > 0 && n > 1 && lab_count.sent == shares * count * size)
        fault("steps", "%s: rank %d sends its share of the work %d times", describe(call), pg->rank,
              n);
    if (scatters)
        compare(call, pg, share, count, mine);
    else
        compare(call, pg, whole, gathers ? count * shares : count, 0);
    for (size_t i = 0; scatters && !call->alias && i < count * shares; i++)
        if (get(whole, call->type, i) != number(pg->rank, i, n, call->type))
            fault("input", "%s: it changes element %zu of in", describe(call), i);
    for (size_t i = 0; gathers && !call->alias && i < count; i++)
        if (get(share, call->type, i) != number(pg->rank, i, n, call->type))
            fault("input", "%s: it changes element %zu of in", describe(call), i);
    check_costs(call, pg);
    if (!call->alias)
        free(share);
    free(whole);
}

/* Expects that all ranks end with the same bits, near the sum of random numbers. */
static void try_random(ProcessGroup *pg, DType type, size_t count, void *shared)
{
    const size_t bytes = count * dtype_size(type);
    char *mine = array_of(count, type), *all = shared;
    num_calls++;
    for (size_t i = 0; i < count; i++)
        put(mine, type, i, (double)lab_draw(seed, num_calls, (uint64_t)pg->rank, i) / 0x1p64 - 0.3);
    lab_reset();
    lab_all_reduce(pg, mine, count, type, REDUCE_SUM);
    if (pg->rank == 0)
        memcpy(all, mine, bytes);
    lab_barrier();
    if (memcmp(all, mine, bytes) != 0)
        fault("replicas", "lab_all_reduce of %zu random %s: ranks 0 and %d end with different bits",
              count, dtype_name(type), pg->rank);
    const double epsilon = type == FLOAT64 ? 0x1p-52 : type == FLOAT32 ? 0x1p-23 : 0x1p-7;
    for (size_t i = 0; i < count; i++) {
        double due = 0, most = 0;
        for (int rank = 0; rank < pg->world_size; rank++) {
            const double x = (double)lab_draw(seed, num_calls, (uint64_t)rank, i) / 0x1p64 - 0.3;
            due += x, most += fabs(x);
        }
        if (fabs(get(mine, type, i) - due) > pg->world_size * epsilon * most * 1.5)
            fault("sum",
                  "lab_all_reduce of %zu random %s: element %zu is %g, and should be near %g",
                  count, dtype_name(type), i, get(mine, type, i), due);
    }
    free(mine);
    lab_barrier(); // before the shared copy is used again
}

/* Tries a function from easy to hard calls; a fault in a later stage has another reason. */
static void try_function(ProcessGroup *pg, What what)
{
    const size_t n = (size_t)pg->world_size;
    const bool reduces = what == ALL_REDUCE_ || what == REDUCE_SCATTER_;
    const size_t lengths[] = { n + 1,
                               3 * n + 2,
                               2 * n - 1,
                               n - 1,
                               1,
                               0,
                               n,
                               1 + lab_draw(seed, 1, n, 0) % 100,
                               1 + lab_draw(seed, 2, n, 0) % 3000 };
    const size_t simple = 4 * n, odd = 3 * n + 2;
    const int roots = what == BROADCAST_ ? pg->world_size : 1;
    for (int root = 0; root < roots; root++)
        try_call(pg, &(Call){ what, simple, FLOAT32, REDUCE_SUM, root, false, "" });
    for (ReduceOp op = REDUCE_MEAN; reduces && op <= REDUCE_MIN; op++)
        try_call(pg, &(Call){ what, simple, FLOAT32, op, 0, false, "op" });
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
        try_call(pg, &(Call){ what, lengths[i], FLOAT32, i % 2 ? REDUCE_MEAN : REDUCE_SUM, 0, false,
                              "lengths" });
    for (DType type = FLOAT32; type < NUM_DTYPES; type++)
        for (ReduceOp op = REDUCE_SUM; op <= (reduces ? REDUCE_MIN : REDUCE_SUM); op++)
            try_call(pg, &(Call){ what, odd, type, op, (int)n - 1, false, "dtype" });
    const size_t share = what == REDUCE_SCATTER_ ? n : 1;
    const size_t again[] = { 50000 + lab_draw(seed, 3, n, 0) % 15000, 3, 60000, n + 2 };
    for (size_t i = 0; i < sizeof again / sizeof *again; i++)
        try_call(pg, &(Call){ what, again[i] / share, i % 2 ? INT64 : FLOAT32, REDUCE_SUM, 0, false,
                              "again" });
    if (n == 2) // each part has more elements than 16 bits can count
        try_call(pg, &(Call){ what, 140000 / share, FLOAT32, REDUCE_SUM, 0, false, "long" });
    if (what == REDUCE_SCATTER_ || what == ALL_GATHER_)
        for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++)
            try_call(pg, &(Call){ what, lengths[i], FLOAT32, REDUCE_SUM, 0, true, "" });
}

static void try_rung(ProcessGroup *pg, void *shared)
{
    lone = pg->world_size == 1;
    if (rung == 1)
        try_function(pg, BROADCAST_);
    if (rung == 2 || rung == 4) {
        try_function(pg, ALL_REDUCE_);
        try_random(pg, FLOAT32, 3001, shared);
        try_random(pg, BFLOAT16, 100, shared);
        try_random(pg, FLOAT64, 100, shared);
    }
    if (rung == 3) {
        try_function(pg, REDUCE_SCATTER_);
        try_function(pg, ALL_GATHER_);
    }
}

/* Makes a call with numbers that the judge has drawn. The words: what, count, type, op, root. */
static void answer(ProcessGroup *pg, const Order *order, void *data)
{
    const Call call = { .what = (What)order->word[0],
                        .count = (size_t)order->word[1],
                        .type = (DType)order->word[2],
                        .op = (ReduceOp)order->word[3],
                        .root = order->word[4],
                        .stage = "" };
    const bool scatters = call.what == REDUCE_SCATTER_, gathers = call.what == ALL_GATHER_;
    const size_t all = call.count * (size_t)(scatters || gathers ? pg->world_size : 1);
    const size_t out = scatters ? call.count : all, size = dtype_size(call.type);
    char *whole = array_of(all, call.type), *share = array_of(call.count, call.type);
    memcpy(gathers ? share : whole, data, order->bytes);
    call_learner(pg, &call, whole, share);
    lab_send(RESULT, NULL, scatters ? share : whole, out * size);
    free(share);
    free(whole);
}

int main(int argc, char **argv)
{
    if (argc == 5)
        lab_serve(argv, answer);
    CHECK(argc == 4, "usage: try RUNG RANKS SEED");
    rung = atoi(argv[1]);
    seed = strtoull(argv[3], NULL, 10);
    return lab_run(atoi(argv[2]), try_rung, lab_shared(1 << 20));
}
