/*
 * Usage: try RUNG RANKS SEED [DESCRIPTOR]
 * The harness of lab-reconfigure: runs the learner's file over the clock and the network of
 * tests/simulation. In rungs 1 to 3 it is one rank, and a script plays the launcher and all others;
 * rung 4 is tests/simulation's own scenario. Prints the first fault as "NAME: TEXT".
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "05_fault_tolerance/reconfigure/agreement.h"
#include "common/base/log.h"
#include "teach/lab/reconfigure/shown.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulator.h"

#define PORT 29500
#define PREFIX "ddp.c/job/0/"
#define SOON 10.0 // seconds in which a rank must have done what it has to do
#define WHILE 3.0 // seconds for which it must not do what is too early
#define CPU_SECONDS 10
#define SEEDS 2000
#define BATCH 500 // seeds of one process, because killed ranks leave memory behind

_Noreturn void __real__exit(int status); // the real one: _exit ends a process of the simulation

bool has_faults;
static const char *wrong_name, *wrong_text; // the fault of a seed
static int num_ranks;
static uint64_t seed;
static Store store; // the script's client
static Agreement rank_0; // the learner's rank
static int num_called, num_returned, status; // calls of agreement_next

static _Noreturn void end_with(const char *name, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    printf("%s: ", name);
    vprintf(format, args);
    fflush(stdout);
    __real__exit(EXIT_FAILURE);
}

static void stop_loop(int signal)
{
    static const char text[] = "loop: it computes, and no time passes";
    (void)signal;
    if (write(STDOUT_FILENO, text, sizeof text - 1) < 0)
        __real__exit(2);
    __real__exit(EXIT_FAILURE);
}

/* ---- the script's side of the store ---- */

static void put(const char *key, const char *text)
{
    store_set(&store, key, text, strlen(text));
    store_ping(&store);
}

static void put_seat(int rank, const char *text)
{
    char key[TEXT_BYTES];
    snprintf(key, sizeof key, "seat/%d", rank);
    put(key, text);
}

/* Returns "" if there is no such key. */
static const char *get(const char *key)
{
    static char text[16 * MAX_RANKS];
    memset(text, 0, sizeof text);
    if (store_check(&store, key))
        store_get(&store, key, text, sizeof text - 1);
    return text;
}

/* Ends with a fault if the rank has ended without having returned; it has printed why. */
static void look_after_rank(void)
{
    if (sim_has_ended(1) && num_returned < num_called)
        end_with("crash", "%s", "");
}

static bool becomes(const char *key, const char *text, double seconds)
{
    for (const double end = sim_now() + seconds; sim_now() < end; sim_sleep(0.05)) {
        look_after_rank();
        if (strcmp(get(key), text) == 0)
            return true;
    }
    return false;
}

static void expect(const char *name, const char *key, const char *text, double seconds)
{
    if (!becomes(key, text, seconds))
        end_with(name, "%s holds \"%s\", and not \"%s\"", key, get(key), text);
}

/* Expects that the key holds this text for `seconds`. */
static void expect_still(const char *name, const char *key, const char *text, double seconds,
                         const char *when)
{
    for (const double end = sim_now() + seconds; sim_now() < end; sim_sleep(0.05)) {
        look_after_rank();
        if (strcmp(get(key), text) != 0)
            end_with(name, "%s is \"%s\", %s", key, get(key), when);
    }
}

/* Returns "NUMBER INCARNATION ...", for rank 0, for the others, and for the last rank. */
static const char *record_of(int number, int first, int others, int last)
{
    static char text[2][TEXT_BYTES];
    static int turn;
    char *record = text[turn ^= 1];
    int length = snprintf(record, TEXT_BYTES, "%d", number);
    for (int rank = 0; rank < num_ranks; rank++)
        length += snprintf(record + length, TEXT_BYTES - (size_t)length, " %d",
                           rank == 0              ? first
                           : rank < num_ranks - 1 ? others
                                                  : last);
    return record;
}

/* ---- the learner's rank ---- */

static void *be_rank(void *unused)
{
    Store own;
    (void)unused;
    if (!store_connect(&own, "127.0.0.1", PORT, 20))
        return NULL;
    own.may_fail = true;
    snprintf(own.prefix, sizeof own.prefix, PREFIX);
    rank_0.store = &own;
    while (num_called > 0) {
        status = agreement_next(&rank_0);
        num_returned++;
        while (num_returned == num_called)
            sim_sleep(0.05);
    }
    store_free(&own);
    return NULL;
}

/* Starts rank 0, which calls agreement_next. */
static void start(int incarnation, double timeout)
{
    rank_0 = (Agreement){ .world_size = num_ranks, .incarnation = incarnation, .timeout = timeout };
    num_called = 1;
    sim_start(1, be_rank, NULL);
}

static bool returns(double seconds)
{
    for (const double end = sim_now() + seconds; sim_now() < end && num_returned < num_called;
         sim_sleep(0.05))
        look_after_rank();
    return num_returned == num_called;
}

static void expect_status(const char *name, int due, const char *when)
{
    if (!returns(SOON))
        end_with(name, "%s: agreement_next does not return", when);
    if (status != due)
        end_with(name, "%s: agreement_next returns %d, and not %d", when, status, due);
}

static void expect_wait(const char *name, double seconds, const char *when)
{
    if (returns(seconds))
        end_with(name, "agreement_next returns %d, %s", status, when);
}

/* Expects, once all seats have left, that it proposes this record, and is in it. */
static void expect_group(int number, int first, int others, int last)
{
    const char *record = record_of(number, first, others, last);
    const char *before = get("generation");
    if (strtoll(before, NULL, 10) < number && !becomes("generation", record, SOON)) {
        const bool is_new = strtoll(get("generation"), NULL, 10) >= number;
        end_with(is_new || num_returned == num_called ? "record" : "propose",
                 "all seats have left generation %d, and generation holds \"%s\", not \"%s\"",
                 number - 1, get("generation"), record);
    }
    expect_status("member", -1, "this process is in the newest generation");
    const int due[] = { first, num_ranks > 2 ? others : last, last };
    if (rank_0.generation != number)
        end_with("member", "the newest generation is %d, and a->generation is %lld", number,
                 (long long)rank_0.generation);
    for (int rank = 0; rank < num_ranks; rank++)
        if (rank_0.member[rank] != due[rank])
            end_with("member", "the record is \"%s\", and a->member[%d] is %d", record, rank,
                     rank_0.member[rank]);
}

/* ---- rung 1 ---- */

static void look_around(void)
{
    char text[TEXT_BYTES];
    memset(text, 'x', sizeof text);
    const double begin = sim_now();
    store.timeout = 20;
    store.may_fail = true;
    agreement_look(&store, "nobody", text, sizeof text);
    if (store.failed || sim_now() > begin + 5)
        end_with("look_wait", "nobody has set the key, and agreement_look waits for %.0f seconds",
                 sim_now() - begin);
    if (store_check(&store, "nobody"))
        end_with("look_sets", "after agreement_look of a key that is absent it is there");
    if (text[0] != '\0')
        end_with("look_text", "of a key that is absent the text is not \"\"");
    static const char *const values[] = { "12 34", "0",
                                          "a text that fills its buffer, all but the last byte" };
    for (int i = 0; i < 3; i++) {
        memset(text, 'x', sizeof text);
        put("key", values[i]);
        agreement_look(&store, "key", text, strlen(values[i]) + 1);
        if (memchr(text, '\0', sizeof text) == NULL || strcmp(text, values[i]) != 0)
            end_with("look_text", "of the value \"%s\" the text is \"%.63s\"", values[i], text);
        if (strcmp(get("key"), values[i]) != 0)
            end_with("look_sets", "agreement_look changes the value \"%s\"", values[i]);
    }
}

static void put_others(const char *others, const char *last)
{
    for (int rank = 1; rank < num_ranks; rank++)
        put_seat(rank, rank < num_ranks - 1 ? others : last);
}

static void form_first(void)
{
    put_seat(0, "0 new");
    put_others("0 new", "2 new");
    start(0, 20);
    expect("seat", "seat/0", "0 0", SOON);
    expect_still("early", "generation", "", WHILE, "and no other rank has left generation 0 yet");
    put_others("0 0", "2 new");
    expect_still("early", "generation", "", WHILE,
                 "and the last rank has not left generation 0 yet");
    put_others("0 0", "2 0");
    expect_group(1, 0, 0, 2);
}

static void take_what_others_wrote(void)
{
    put_seat(0, "0 new");
    put_others("0 new", "2 new");
    start(0, 20);
    expect("seat", "seat/0", "0 0", SOON);
    put("generation", record_of(1, 0, 0, 2));
    expect_group(1, 0, 0, 2);
}

/* ---- rung 2 ---- */

/* Starts rank 0 as process 0 that was in generation 4, and has lost it. */
static void lose_group(double timeout)
{
    put_seat(0, "0 3");
    put_others("0 3", "0 3");
    put("generation", record_of(4, 0, 0, 0));
    start(0, timeout);
    rank_0.generation = 4;
    expect_wait("lost", WHILE, "and the newest generation is the one that it has lost");
    expect("seat", "seat/0", "0 4", SOON);
}

static void form_next(void)
{
    lose_group(20);
    put_others("0 4", "1 new");
    expect_still("early", "generation", record_of(4, 0, 0, 0), WHILE,
                 "and the last rank has not left generation 4 yet");
    put_others("0 4", "1 4");
    expect_group(5, 0, 0, 1);
    num_called++; // that generation is lost, too
    expect("seat", "seat/0", "0 5", SOON);
    put_others("0 5", "1 5");
    expect_group(6, 0, 0, 1);
}

/* Replaces a rank that had left while rank 0 waits for the last one. */
static void replace_meanwhile(void)
{
    if (num_ranks < 3)
        return;
    lose_group(20);
    put_others("0 4", "0 3");
    sim_sleep(WHILE);
    put_others("1 new", "0 3");
    put_others("1 new", "0 4");
    expect_still("stale", "generation", record_of(4, 0, 0, 0), WHILE,
                 "and rank 1 has a new process, which has not left generation 4 yet");
    put_others("1 4", "0 4");
    expect_group(5, 0, 1, 0);
}

static void join_again(void)
{
    put_seat(0, "1 new");
    put_others("0 3", "0 3");
    put("generation", record_of(4, 0, 0, 0));
    start(1, 20);
    expect_wait("stranger", WHILE, "and the generation has another process in its seat");
    expect("seat", "seat/0", "1 4", SOON);
    put("generation", record_of(5, 0, 0, 0)); // written before the others knew
    expect_wait("stranger", WHILE, "and the generation has another process in its seat");
    expect("newest", "seat/0", "1 5", SOON);
    put_others("0 5", "0 5");
    expect_group(6, 1, 0, 0);
}

static void see_replacement(void)
{
    lose_group(20);
    put_seat(0, "1 new");
    expect_status("replaced", EXIT_FAILURE, "another process has this seat");
    expect_still("replaced", "seat/0", "1 new", 0.2, "and it belongs to another process");
}

static void join_at_end(void)
{
    lose_group(20);
    put("end", "75");
    expect_status("end", 75, "all have ended with status 75");
}

static void join_too_late(void)
{
    put_seat(0, "1 new");
    put("generation", record_of(4, 0, 0, 0));
    put("end", "0");
    start(1, 20);
    expect_status("end", 0, "all have ended with status 0");
}

/* ---- rung 3 ---- */

static void suspect_one(void)
{
    char due[TEXT_BYTES];
    lose_group(20);
    put_others("0 4", "0 3");
    expect_still("patience", "suspect", "", 12, "after less than 16 of a->timeout's 20 seconds");
    snprintf(due, sizeof due, "%d 0", num_ranks - 1);
    expect("suspect", "suspect", due, 20);
    put_others("0 4", "1 new");
    sim_sleep(WHILE);
    put_others("0 4", "1 4");
    expect_group(5, 0, 0, 1);
}

static void wait_for_new(double timeout, double patience, double due_by)
{
    char due[TEXT_BYTES];
    lose_group(timeout);
    put_others("0 4", "1 new");
    expect_still("new", "suspect", "", patience, "and the rank's process is still starting");
    snprintf(due, sizeof due, "%d 1", num_ranks - 1);
    expect("suspect", "suspect", due, due_by - patience);
}

static void wait_sixty(void)
{
    wait_for_new(20, 45, 80);
}

static void wait_longer(void)
{
    wait_for_new(100, 85, 120);
}

static void suspect_directly(void)
{
    char due[TEXT_BYTES];
    put_others("0 3", "0 3");
    put_seat(0, "0 3");
    rank_0 = (Agreement){ .store = &store, .world_size = num_ranks, .timeout = 20 };
    snprintf(due, sizeof due, "%d 0", num_ranks - 1);
    agreement_suspect(&rank_0, num_ranks - 1, 0);
    expect("suspect", "suspect", due, 1);
    put("suspect", "0 0");
    agreement_suspect(&rank_0, num_ranks - 1, 0);
    expect_still("one", "suspect", "0 0", 0.2,
                 "and before it was that of another rank, which waits for its end");
    put_seat(0, "1 new");
    agreement_suspect(&rank_0, num_ranks - 1, 0);
    expect("old_suspect", "suspect", due, 1);
}

/* ---- all of it ---- */

static void *play(void *script)
{
    int port = PORT;
    CHECK(store_server_start("127.0.0.1", &port, NULL) != NULL, "no store in the simulation");
    CHECK(store_connect(&store, "127.0.0.1", PORT, 20), "no store in the simulation");
    snprintf(store.prefix, sizeof store.prefix, PREFIX);
    (*(void (**)(void))script)();
    *shown = true;
    __real__exit(EXIT_SUCCESS);
}

/* Plays a script in a process of its own. */
static void try_script(void (*script)(void))
{
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        sim_begin(seed, (SimFaults){ 0, 0, 0 });
        sim_start(0, play, &script);
        const char *stuck = sim_run(1000);
        look_after_rank();
        if (stuck == NULL) // die has ended the script's own process
            end_with("crash", "%s", "");
        end_with(script == look_around ? "look_wait" : "loop", "%s", stuck);
    }
    wait_for_end(child);
}

void complain(const char *what, int64_t value)
{
    static char text[256];
    if (wrong_name != NULL)
        return;
    snprintf(text, sizeof text, "%s %lld", what, (long long)value);
    wrong_text = text;
    wrong_name = strstr(what, "two groups") != NULL         ? "two_groups"
                 : strstr(what, "still in the gen") != NULL ? "early"
                 : strstr(what, "no such gen") != NULL      ? "record"
                                                            : "loop";
}

static void try_seeds(uint64_t first)
{
    // No connection breaks by itself, because here a rank whose store is gone would have ended.
    for (uint64_t number = first; number < first + BATCH; number++) {
        has_faults = number % 2 == 1;
        sim_begin(number, has_faults ? (SimFaults){ 0.002, 0, 0.002 } : (SimFaults){ 0, 0, 0 });
        const char *stuck = run_reconfigure();
        sim_end();
        if (wrong_name != NULL || stuck != NULL)
            end_with(wrong_name != NULL ? wrong_name : "loop", "%s (seed %llu of the simulation)",
                     wrong_name != NULL ? wrong_text : stuck, (unsigned long long)number);
    }
    *shown = true;
    __real__exit(EXIT_SUCCESS);
}

static void try_all_orders(void)
{
    const uint64_t begin = 1 + (seed - 1) * 2 * SEEDS + (uint64_t)(num_ranks - 2) * SEEDS;
    for (uint64_t first = begin; first < begin + SEEDS; first += BATCH) {
        fflush(stdout);
        const pid_t child = fork();
        if (child == 0)
            try_seeds(first);
        wait_for_end(child);
    }
}

int main(int argc, char **argv)
{
    static void (*const scripts[][8])(void) = {
        { look_around, form_first, take_what_others_wrote },
        { form_next, join_again, replace_meanwhile, see_replacement, join_at_end, join_too_late },
        { suspect_directly, suspect_one, wait_sixty, wait_longer },
        { try_all_orders },
    };
    CHECK(argc == 4 || argc == 5, "Usage: try RUNG RANKS SEED [DESCRIPTOR]");
    num_ranks = atoi(argv[2]);
    seed = strtoull(argv[3], NULL, 10);
    shown_init();
    unsetenv(SECRET_VARIABLE);
    setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS + 5 });
    signal(SIGXCPU, stop_loop);
    for (void (*const *script)(void) = scripts[atoi(argv[1]) - 1]; *script != NULL; script++)
        if (*script == try_all_orders)
            try_all_orders();
        else
            try_script(*script);
    if (argc == 5)
        write_number(atoi(argv[4]));
    return EXIT_SUCCESS;
}
