/*
 * Usage: try RUNG RANKS SEED, or try serve RANK RANKS DESCRIPTOR
 * The harness of lab-reducer: backward passes on forked ranks, each of which marks the gradients in
 * an order of its own. all_reduce and its relatives are stand-ins. A message is noted, with the
 * marks before it, and its gradients are spoilt until work_wait brings the mean: so a missing wait
 * shows, and so does a gradient that is touched too early. Gradients are small integers times
 * RANKS, and every rank knows those of the others, so no rank has to wait for another.
 */
#include "common/comm/ddp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "teach/lab/ranks.h"
#include "teach/lab/served.h"

#define MOST_PARAMETERS 40
#define MOST_MESSAGES 128
#define MOST_PASSES 8
#define SPOILT 7.0e30f
#define MIB (1024.0 * 1024.0)

typedef struct {
    size_t offset, count;
    int marks; // number of marks before it
    bool waited;
} Message;

typedef struct {
    const char *stage;
    int num_parameters;
    size_t most; // most elements of a parameter
    double cap;
    const int *uses; // uses of each parameter; NULL if each has one
    int missing; // the parameter that is not marked (-1 if none)
} Case;

static int rung;
static uint64_t seed;
static ProcessGroup *group;

// The pass in progress.
static const Case *now;
static Tensor parameter[MOST_PARAMETERS];
static char names[MOST_PARAMETERS][40];
static float *grads;
static size_t numel;
static int marks, passes;
static bool marking; // the backward pass is running
static int complete_at[MOST_PARAMETERS]; // the mark that completed it
static bool complete[MOST_PARAMETERS];
static Message message[MOST_MESSAGES];
static int num_messages;
static Message (*shared)[MOST_MESSAGES]; // the messages of each rank, to compare

#define PERIOD 41 // elements after which gradients repeat

/* Returns what a pass adds to a rank's gradient at this place; passes without sync add up. */
static float gradient(int rank, size_t i, int pass)
{
    static uint64_t drawn[MOST_PASSES][LAB_RANKS];
    uint64_t *start = &drawn[pass][rank];
    if (*start == 0)
        *start = 1 + lab_draw(seed, (uint64_t)pass, (uint64_t)rank, 0) % 1000000;
    return (float)(group->world_size * ((int)((*start + i * (*start % 37 + 3)) % PERIOD) - 20));
}

static float sum_of(size_t i, int first_pass)
{
    static float sum[PERIOD];
    static int from, to; // the passes that `sum` covers
    if (from != first_pass || to != passes)
        for (size_t k = 0; k < PERIOD; k++) {
            sum[k] = 0;
            for (int rank = 0; rank < group->world_size; rank++)
                for (int pass = first_pass; pass <= passes; pass++)
                    sum[k] += gradient(rank, k, pass);
        }
    from = first_pass, to = passes;
    return sum[i % PERIOD];
}

static int unsynced; // the pass from which gradients add up

static noreturn void wrong(const char *name, const char *text)
{
    fault(name, "%d parameters, %zu gradients, cap %g MiB, pass %d: %s", now->num_parameters, numel,
          now->cap, passes, text);
}

Work all_reduce_async(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    char text[160];
    const float *from = data;
    if (lab_is_served) {
        lab_send(STARTED, (int32_t[7]){ (int32_t)(from - grads), (int32_t)count, (int32_t)op },
                 data, count * sizeof *grads);
        message[num_messages % MOST_MESSAGES] =
            (Message){ (size_t)(from - grads), count, marks, false };
        return (Work){ pg, num_messages++ };
    }
    if (from < grads || from >= grads + numel + 1)
        wrong("memory", "a message is no slice of the gradients");
    const size_t offset = (size_t)(from - grads);
    if (offset + count > numel || type != FLOAT32)
        wrong("offset", "a message ends behind the gradients");
    if (op != REDUCE_MEAN && op != REDUCE_SUM)
        wrong("mean", "a message is neither a mean nor a sum");
    if (num_messages == MOST_MESSAGES)
        wrong("messages", "too many messages");
    for (int i = 0; i < now->num_parameters; i++) {
        const Tensor *p = &parameter[i];
        if (p->offset + p->numel <= offset || p->offset >= offset + count)
            continue;
        if (now->uses != NULL && now->uses[i] == 0)
            wrong("frozen_sent", "a frozen parameter is in a message");
        if (p->offset < offset || p->offset + p->numel > offset + count)
            wrong("offset", "a message cuts a parameter");
        snprintf(text, sizeof text, "the message of %zu gradients leaves before %s is complete",
                 count, p->name);
        if (!complete[i])
            wrong(strcmp(now->stage, "tied") == 0 ? "tied" : "early", text);
    }
    for (int i = 0; i < num_messages; i++)
        if (count > 0 && message[i].offset < offset + count &&
            offset < message[i].offset + message[i].count)
            wrong("twice", "a gradient is in two messages");
    message[num_messages] = (Message){ offset, count, marks, false };
    for (size_t i = 0; i < count; i++)
        grads[offset + i] = SPOILT;
    return (Work){ pg, op == REDUCE_MEAN ? num_messages++ : -1 - num_messages++ };
}

void work_wait(Work work)
{
    if (lab_is_served && work.pg != NULL) {
        const Message *sent = &message[work.ticket % MOST_MESSAGES];
        lab_send(WAITING, (int32_t[7]){ (int32_t)work.ticket }, NULL, 0);
        lab_receive(ARRIVED, grads + sent->offset, sent->count * sizeof *grads);
        return;
    }
    const bool mean = work.ticket >= 0;
    const long number = mean ? work.ticket : -1 - work.ticket;
    if (work.pg == NULL)
        wrong(strcmp(now->stage, "frozen_wait") == 0 ? now->stage : "late",
              "work_wait of a message that has not left");
    if (work.pg != group || number >= num_messages || message[number].waited)
        wrong(passes > 1 ? "again" : "wait",
              "work_wait is called for no message, or twice for one");
    if (marking)
        wrong("blocking", "it waits during the backward pass");
    Message *m = &message[number];
    m->waited = true;
    for (size_t i = m->offset; i < m->offset + m->count; i++) {
        if (grads[i] != SPOILT)
            wrong("touched", "a gradient is changed while it travels");
        grads[i] = sum_of(i, unsynced) / (mean ? (float)group->world_size : 1);
    }
}

void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    if (marking)
        wrong("blocking", "reducer_mark_ready calls all_reduce, which waits");
    work_wait(all_reduce_async(pg, data, count, type, op));
}

/* Draws a pass's marks, roughly from the last parameter to the first, in this rank's own order. */
static int draw_marks(int *order)
{
    int count = 0;
    for (int i = now->num_parameters - 1; i >= 0; i--)
        for (int use = 0; use < (now->uses != NULL ? now->uses[i] : 1); use++)
            if (i != now->missing)
                order[count++] = i;
    for (int i = 0; i + 1 < count; i++) {
        if (lab_draw(seed, (uint64_t)passes, (uint64_t)group->rank, (uint64_t)i) % 2 == 0 ||
            order[i] == order[i + 1])
            continue;
        const int other = order[i];
        order[i] = order[i + 1];
        order[i + 1] = other;
        i++;
    }
    return count;
}

static void backward(Reducer *reducer)
{
    int order[2 * MOST_PARAMETERS], used[MOST_PARAMETERS] = { 0 };
    const int count = draw_marks(order);
    memset(complete, 0, sizeof complete);
    num_messages = marks = 0;
    marking = true;
    for (int k = 0; k < count; k++) {
        const int i = order[k], uses = now->uses != NULL ? now->uses[i] : 1;
        const Tensor *p = &parameter[i];
        if (++used[i] == uses) {
            complete[i] = true;
            complete_at[i] = k + 1;
            for (size_t j = p->offset; j < p->offset + p->numel; j++)
                grads[j] += gradient(group->rank, j, passes);
        }
        marks = k + 1;
        if (k == count - 1)
            marking = false; // nothing is left to overlap with
        reducer_mark_ready(reducer, i);
    }
    marking = false;
}

/* Returns the parameter that ends at this place of the gradients, or -1. */
static int parameter_before(size_t offset)
{
    int i = now->num_parameters - 1;
    while (i >= 0 && parameter[i].offset >= offset)
        i--;
    return i;
}

static void check_buckets(void)
{
    const double cap = now->cap * MIB;
    char text[160];
    size_t sent = 0;
    size_t last = numel; // end of the parameters that are not frozen
    for (int i = now->num_parameters - 1; now->uses != NULL && now->uses[i] == 0; i--)
        last = parameter[i].offset;
    if (num_messages > 0 && message[0].offset + message[0].count != last)
        wrong("backwards", "the last parameter is not in the first message");
    if (num_messages == now->num_parameters &&
        num_messages > 2 + 2 * (double)(numel * sizeof(float)) / cap)
        wrong("messages", "each parameter has a message of its own");
    for (int k = 0, due = 0; k < num_messages; k++) {
        const Message *m = &message[k];
        size_t first = 0; // elements of the parameter that was added last
        for (int i = now->num_parameters - 1; i >= 0; i--) {
            const Tensor *p = &parameter[i];
            if (p->offset < m->offset || p->offset >= m->offset + m->count)
                continue;
            first = p->numel;
            if (complete_at[i] > due)
                due = complete_at[i];
        }
        const double limit = k == 0 && cap > MIB ? MIB : cap;
        const double bytes = (double)((m->count - first) * sizeof(float));
        snprintf(text, sizeof text, "message %d has %zu bytes", k, m->count * sizeof(float));
        if (bytes >= limit)
            wrong("cap", text);
        const int next = parameter_before(m->offset); // the backward pass comes to it next
        snprintf(text, sizeof text, "message %d has %zu bytes, and is not the last", k,
                 m->count * sizeof(float));
        if ((double)(m->count * sizeof(float)) < limit && next >= 0 &&
            (now->uses == NULL || now->uses[next] > 0))
            wrong("cap", text);
        snprintf(text, sizeof text, "message %d was complete at mark %d, and left at mark %d", k,
                 due, m->marks);
        if (m->marks > due)
            wrong("late", text);
        sent += m->count;
    }
    if (num_messages > 2 + 2 * (double)(sent * sizeof(float)) / cap + (now->uses != NULL ? 20 : 0))
        wrong("cap", "more messages than buckets of this cap");
}

static void check_pass(void)
{
    char text[160];
    memcpy(shared[group->rank], message, sizeof message);
    shared[group->rank][MOST_MESSAGES - 1].marks = num_messages;
    lab_barrier();
    for (int k = 0; k < num_messages || k < shared[0][MOST_MESSAGES - 1].marks; k++)
        if (shared[0][k].offset != message[k].offset || shared[0][k].count != message[k].count ||
            k >= num_messages)
            wrong("order", "the messages are others than rank 0's, or in another order");
    lab_barrier();
    for (int k = 0; k < num_messages; k++)
        if (!message[k].waited)
            wrong("wait", "a message was not waited for");
    for (int i = 0; i < now->num_parameters; i++) {
        const Tensor *p = &parameter[i];
        const bool frozen = now->uses != NULL && now->uses[i] == 0;
        for (size_t j = p->offset; j < p->offset + p->numel; j++) {
            const float due = frozen ? 0 : sum_of(j, unsynced) / (float)group->world_size;
            if (grads[j] == due)
                continue;
            bool travelled = false;
            for (int k = 0; k < num_messages; k++)
                travelled = travelled ||
                            (j >= message[k].offset && j < message[k].offset + message[k].count);
            snprintf(text, sizeof text, "%s is %g, and should be %g", p->name, (double)grads[j],
                     (double)due);
            wrong(frozen                     ? "frozen_sent"
                  : !travelled && passes > 1 ? "again"
                  : !travelled               ? "partial"
                                             : "mean",
                  text);
        }
    }
    if (rung >= 2 && now->uses == NULL && 16 * now->cap * MIB < (double)(numel * sizeof *grads) &&
        (num_messages == 0 || message[0].marks >= marks))
        wrong(num_messages > 0 && message[0].offset + message[0].count < numel ? "backwards"
                                                                               : "overlap",
              "the first message leaves when the backward pass has ended");
    if (rung >= 3)
        check_buckets();
}

static void begin(Reducer *reducer, const Case *c)
{
    static Args args;
    now = c;
    numel = 0;
    lab_stage(c->stage);
    for (int i = 0; i < c->num_parameters; i++) {
        snprintf(names[i], sizeof names[i], "layer%d.weight", i);
        const size_t size = i % 3 == 2 ? parameter[i - 1].numel
                                       : 1 + lab_draw(seed, 77, c->most, (uint64_t)i) % c->most;
        parameter[i] = (Tensor){ .name = names[i], .offset = numel, .numel = size };
        numel += size;
    }
    grads = calloc(numel, sizeof *grads);
    passes = 0;
    args.bucket_cap_mb = c->cap;
    lab_count = (LabCount){ 0 };
    reducer_init(reducer, &args, group, grads, parameter, c->num_parameters);
    if (c->uses != NULL)
        reducer_set_uses(reducer, c->uses);
}

static void end(Reducer *reducer)
{
    reducer_free(reducer);
    if (lab_count.live > 0)
        wrong("memory", "reducer_free leaves something allocated");
    if (lab_count.peak > numel * sizeof(float) + 65536)
        wrong("memory", "more is allocated than one copy of the gradients");
    free(grads);
}

static void pass(Reducer *reducer)
{
    passes++;
    unsynced = passes;
    memset(grads, 0, numel * sizeof *grads); // model_zero_grad
    backward(reducer);
    reducer_finalize(reducer);
    check_pass();
}

static void try_case(const Case *c)
{
    Reducer reducer;
    begin(&reducer, c);
    pass(&reducer);
    if (*c->stage == '\0')
        lab_stage("again");
    pass(&reducer);
    pass(&reducer);
    end(&reducer);
}

static void try_sync(const Case *c)
{
    Reducer reducer;
    begin(&reducer, c);
    pass(&reducer);
    memset(grads, 0, numel * sizeof *grads);
    unsynced = ++passes;
    reducer_set_sync(&reducer, false);
    backward(&reducer);
    reducer_finalize(&reducer);
    if (num_messages > 0)
        wrong("sync", "a message leaves while sync is off");
    for (size_t j = 0; j < numel; j++)
        if (grads[j] != gradient(group->rank, j, passes))
            wrong("sync", "a gradient is changed while sync is off");
    reducer_set_sync(&reducer, true);
    passes++;
    backward(&reducer);
    reducer_finalize(&reducer);
    check_pass();
    end(&reducer);
}

/* Runs the case in a process of its own, which must die and name the parameter. */
static void try_missing(const Case *c)
{
    int ends[2], status;
    char output[4096] = "";
    SYS_CHECK(pipe(ends));
    const pid_t pid = fork();
    SYS_CHECK(pid);
    if (pid == 0) {
        dup2(ends[1], STDERR_FILENO);
        close(ends[0]);
        Reducer reducer;
        begin(&reducer, c);
        passes = unsynced = 1;
        backward(&reducer);
        reducer_finalize(&reducer);
        _exit(EXIT_SUCCESS);
    }
    close(ends[1]);
    for (ssize_t got, had = 0;
         (got = read(ends[0], output + had, sizeof output - 1 - (size_t)had)) > 0;)
        had += got;
    close(ends[0]);
    waitpid(pid, &status, 0);
    now = c;
    snprintf(names[c->missing], sizeof names[0], "layer%d.weight", c->missing);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != EXIT_FAILURE ||
        strstr(output, names[c->missing]) == NULL)
        fault("missing",
              "%s was never marked, and reducer_finalize does not end the program with its name",
              names[c->missing]);
}

static void try_rung(ProcessGroup *pg, void *context)
{
    group = pg;
    shared = context;
    const int size = 1 + (int)(lab_draw(seed, 5, (uint64_t)pg->world_size, 0) % MOST_PARAMETERS);
    const Case cases[] = { { "", 4, 30, 25, NULL, -1 },    { "", 30, 900, 0.001, NULL, -1 },
                           { "", 1, 100, 25, NULL, -1 },   { "", 40, 2000, 0.02, NULL, -1 },
                           { "", 40, 900, 25, NULL, -1 },  { "", size, 3000, 0.01, NULL, -1 },
                           { "", 10, 60000, 2, NULL, -1 }, { "", 12, 30000, 0.3, NULL, -1 } };
    for (size_t i = 0; rung < 4 && i < (rung == 2 ? 2 : sizeof cases / sizeof *cases); i++)
        if (rung != 2 || cases[i].num_parameters == 30)
            try_case(&cases[i]);
    if (rung < 4)
        return;
    int frozen[30], tied[30], both[30];
    for (int i = 0; i < 30; i++) {
        frozen[i] = i % 5 != 3 && i != 29;
        tied[i] = 1 + (i % 7 == 2 || i == 28);
        both[i] = i % 4 == 1 ? 0 : 1 + (i % 5 == 0);
    }
    try_case(&(Case){ "frozen_wait", 30, 60, 0.001, frozen, -1 });
    try_case(&(Case){ "tied", 30, 60, 0.001, tied, -1 });
    try_case(&(Case){ "tied", 30, 500, 0.003, both, -1 });
    for (int missing = 0; missing < 5; missing += 2)
        try_missing(&(Case){ "missing", 5, 40, 0.0001, NULL, missing });
    try_missing(&(Case){ "missing", 30, 60, 25, frozen, 17 });
    try_sync(&(Case){ "sync", 30, 60, 0.001, NULL, -1 });
}

/* Runs a backward pass with gradients drawn by the judge. The words are the number of parameters,
 * their elements, the cap in KiB, the number of marks, whether to synchronise and to set uses; the
 * data are sizes, uses, marks, and gradients. The reducer is that of the first pass. */
static void answer(ProcessGroup *pg, const Order *order, void *data)
{
    static Reducer reducer;
    static Args args;
    static int used[MOST_PARAMETERS];
    const int n = order->word[0], num_marks = order->word[3];
    const int32_t *sizes = data, *uses = sizes + n, *mark = uses + n;
    const float *drawn = (const float *)(mark + num_marks);
    group = pg;
    if (numel == 0) { // the first pass
        numel = (size_t)order->word[1], num_messages = 0;
        for (size_t i = 0, offset = 0; i < (size_t)n; offset += parameter[i].numel, i++) {
            snprintf(names[i], sizeof names[i], "layer%zu.weight", i);
            parameter[i] =
                (Tensor){ .name = names[i], .offset = offset, .numel = (size_t)sizes[i] };
        }
        grads = calloc(numel, sizeof *grads);
        args.bucket_cap_mb = order->word[2] / 1024.0;
        reducer_init(&reducer, &args, pg, grads, parameter, n);
        if (order->word[5])
            reducer_set_uses(&reducer, uses);
    }
    reducer_set_sync(&reducer, order->word[4]);
    memset(used, 0, sizeof used);
    memset(grads, 0, numel * sizeof *grads);
    num_messages = 0;
    for (int k = 0; k < num_marks; k++) {
        const Tensor *p = &parameter[mark[k]];
        if (++used[mark[k]] == uses[mark[k]])
            memcpy(grads + p->offset, drawn + p->offset, p->numel * sizeof *grads);
        lab_send(MARKED, (int32_t[7]){ mark[k] }, NULL, 0);
        reducer_mark_ready(&reducer, mark[k]);
    }
    reducer_finalize(&reducer);
    lab_send(RESULT, NULL, grads, numel * sizeof *grads);
}

int main(int argc, char **argv)
{
    if (argc == 5)
        lab_serve(argv, answer);
    CHECK(argc == 4, "usage: try RUNG RANKS SEED");
    rung = atoi(argv[1]);
    seed = strtoull(argv[3], NULL, 10);
    return lab_run(atoi(argv[2]), try_rung, lab_shared(LAB_RANKS * sizeof *shared));
}
