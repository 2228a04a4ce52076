/* Ranks that agree on their next group after a failure: 05_fault_tolerance/reconfigure/agreement.c
 * unchanged, over the simulated store. Launcher, connections and training are simulated: a rank
 * sees only the messages of its own generation. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "05_fault_tolerance/reconfigure/agreement.h"
#include "tests/simulation/scenario.h"
#include "tests/simulation/simulator.h"

#define PORT 29500
#define PREFIX "ddp.c/job/0/"
#define SEATS 3
#define LIVES 3 // maximum processes per seat
#define STEPS 4
#define GENERATIONS 64
#define TIMEOUT 3.0
#define FORM_SECONDS 5.0

typedef struct {
    int seat, life;
    int64_t generation; // its current or last generation
    bool left;
    int step; // -1 if it has no state
    int status; // -1 if it has not exited by itself
} Process;

typedef struct {
    bool is_known;
    int member[SEATS];
    int value[STEPS + 4][SEATS]; // values sent in each collective (0 if not yet)
} Generation;

static Process processes[SEATS * LIVES];
static Generation generations[GENERATIONS];
static int num_seats, life[SEATS]; // life: the newest process in each seat
static bool is_over; // the launcher has lost its store, or has no processes left

static int number_of(int seat, int its_life)
{
    return 1 + seat * LIVES + its_life;
}

/* Returns true if this member will send nothing more in the generation. */
static bool is_gone(const Generation *generation, int64_t number, int seat)
{
    const Process *process = &processes[seat * LIVES + generation->member[seat]];
    return sim_has_ended(number_of(seat, generation->member[seat])) ||
           process->generation > number || (process->generation == number && process->left);
}

/* Takes part in a collective. Returns true if all members have sent their values. */
static bool exchange(const Agreement *a, int round, int value)
{
    Generation *generation = &generations[a->generation];
    const double end = sim_now() + (round == 0 ? FORM_SECONDS : TIMEOUT);
    generation->value[round][a->rank] = value;
    for (int seat = 0; seat < num_seats; seat++)
        while (generation->value[round][seat] == 0) {
            if (is_gone(generation, a->generation, seat) || (sim_now() > end && round == 0))
                return false;
            if (sim_now() > end) {
                agreement_suspect(a, seat, generation->member[seat]);
                return false;
            }
            sim_sleep((double)sim_random(100) / 1e3);
        }
    return true;
}

/* Enters a generation and compares its record with the one that other members read. */
static bool enter(Process *own, const Agreement *a)
{
    if (a->generation < 1 || a->generation >= GENERATIONS) {
        complain("no such generation", a->generation);
        return false;
    }
    Generation *generation = &generations[a->generation];
    for (int seat = 0; seat < num_seats && !generation->is_known; seat++) {
        const Process *member = &processes[seat * LIVES + a->member[seat]];
        generation->member[seat] = a->member[seat];
        if (!member->left && member->generation < a->generation &&
            !sim_has_ended(number_of(seat, a->member[seat])))
            complain("a member is still in the generation before", a->generation);
    }
    generation->is_known = true;
    if (memcmp(generation->member, a->member, (size_t)num_seats * sizeof(int)) != 0)
        complain("two groups in generation", a->generation);
    own->generation = a->generation;
    own->left = false;
    return true;
}

/* Forms the group, shares the state, and trains. Returns true if all members reached the end. */
static bool work(Process *own, const Agreement *a)
{
    Generation *generation = &generations[a->generation];
    if (!enter(own, a) || !exchange(a, 0, 1) || !exchange(a, 1, own->step + 2))
        return false;
    int source = 0;
    for (int seat = 0; seat < num_seats; seat++)
        source = generation->value[1][seat] > generation->value[1][source] ? seat : source;
    const int base = generation->value[1][source] - 2;
    if (base >= 0 && base != own->step) { // the state arrives, unless its source dies
        sim_sleep((double)sim_random(300) / 1e3);
        if (is_gone(generation, a->generation, source))
            return false;
    }
    own->step = base < 0 ? 0 : base;
    for (int round = 2; own->step < STEPS; round++) {
        if (!exchange(a, round, own->step + 1))
            return false;
        for (int seat = 0; seat < num_seats; seat++)
            if (generation->value[round][seat] != own->step + 1)
                complain("gradients of two steps are added in generation", a->generation);
        own->step++;
    }
    if (own->seat == 0) {
        store_set(a->store, "end", "0", 1);
        store_ping(a->store);
    }
    return exchange(a, STEPS + 2, STEPS + 1);
}

static void *be_rank(void *argument)
{
    Process *own = argument;
    Store store;
    sim_sleep((double)sim_random(500) / 1e3);
    if (!store_connect(&store, "127.0.0.1", PORT, 20))
        return NULL;
    store.may_fail = true;
    snprintf(store.prefix, sizeof store.prefix, PREFIX);
    Agreement agreement = { .store = &store,
                            .rank = own->seat,
                            .world_size = num_seats,
                            .incarnation = own->life,
                            .timeout = TIMEOUT };
    int status = -1;
    while (status < 0 && !store.failed) {
        own->left = true;
        status = agreement_next(&agreement);
        if (status < 0 && !store.failed && work(own, &agreement))
            status = 0;
    }
    own->status = store.failed ? -1 : status;
    store_free(&store);
    return NULL;
}

static void start(Store *store, int seat)
{
    Process *process = &processes[seat * LIVES + life[seat]];
    char key[TEXT_BYTES], text[TEXT_BYTES];
    *process =
        (Process){ .seat = seat, .life = life[seat], .left = true, .step = -1, .status = -1 };
    snprintf(key, sizeof key, "seat/%d", seat);
    snprintf(text, sizeof text, "%d new", life[seat]);
    store_set(store, key, text, strlen(text));
    store_ping(store);
    sim_start(number_of(seat, life[seat]), be_rank, process);
}

/* Like 05_fault_tolerance/reconfigure/seats.c. Returns how many seats still have a running process
 * or get a new one. */
static int look_after(Store *store)
{
    char text[TEXT_BYTES], end[TEXT_BYTES];
    int running = 0, suspect, its_life;
    agreement_look(store, "suspect", text, sizeof text);
    if (sscanf(text, "%d %d", &suspect, &its_life) == 2 && its_life == life[suspect])
        sim_kill_at(sim_now(), number_of(suspect, its_life));
    for (int seat = 0; seat < num_seats && !is_over; seat++) {
        running++;
        if (!sim_has_ended(number_of(seat, life[seat])))
            continue;
        agreement_look(store, "end", end, sizeof end);
        if (end[0] != '\0')
            running--;
        else if (life[seat] + 1 == LIVES)
            is_over = true;
        else if (!store->failed)
            life[seat]++, start(store, seat);
    }
    return running;
}

static void *launch_all(void *unused)
{
    (void)unused;
    int port = PORT;
    Store store;
    StoreServer *server = store_server_start("127.0.0.1", &port, NULL);
    is_over = server == NULL || !store_connect(&store, "127.0.0.1", PORT, 20);
    if (is_over)
        return NULL;
    store.may_fail = true;
    snprintf(store.prefix, sizeof store.prefix, PREFIX);
    for (int seat = 0; seat < num_seats; seat++)
        start(&store, seat);
    while (!is_over && look_after(&store) > 0) {
        is_over |= store.failed;
        sim_sleep(0.1);
    }
    for (int seat = 0; seat < num_seats && is_over; seat++)
        sim_kill_at(sim_now(), number_of(seat, life[seat]));
    store_free(&store);
    store_server_stop(server);
    return NULL;
}

const char *run_reconfigure(void)
{
    num_seats = 2 + (int)sim_random(SEATS - 1);
    memset(processes, 0, sizeof processes);
    memset(generations, 0, sizeof generations);
    memset(life, 0, sizeof life);
    is_over = false;
    sim_start(0, launch_all, NULL);
    for (int kill = 0; has_faults && kill < 2; kill++)
        if (sim_chance(0.7))
            sim_kill_at(1000 + (double)sim_random(4000) / 1e3,
                        number_of((int)sim_random((uint64_t)num_seats), (int)sim_random(2)));
    const char *stuck = sim_run(1000);
    for (int seat = 0; seat < num_seats && !is_over; seat++) {
        const Process *last = &processes[seat * LIVES + life[seat]];
        if (last->status > 0 ||
            (!has_faults && (last->status != 0 || last->step != STEPS || life[seat] > 0)))
            complain("the end is not reached by rank", seat);
    }
    return stuck;
}
