/* The trainer is small here: the gradients are drawn from the step, the rows and the seed. */
#include "teach/lab/snapshot/phases.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "05_fault_tolerance/snapshots.h"
#include "common/base/log.h"

typedef struct {
    Args args;
    Device device;
    Dataset data;
    Sampler sampler;
    Model model;
    Optimizer optim;
    Checkpoint checkpoint;
    Snapshots snapshots;
    FlightRecorder recorder;
} Run;

Shared *shared;
int rung, num_ranks;
uint64_t seed;
char base[512];
RunSetting setting;

/* ---- stand-ins of the collectives: through rank 0 ---- */

// The rest of collective.c, which other parts of the library need.
#define all_check_divergence our_all_check_divergence
#define all_reduce our_all_reduce
#define all_reduce_scalar our_all_reduce_scalar
#define barrier our_barrier
#define broadcast our_broadcast
#define pg_recv our_pg_recv
#define pg_send our_pg_send
#include "common/comm/collective.c"
#undef all_check_divergence
#undef all_reduce
#undef all_reduce_scalar
#undef barrier
#undef broadcast
#undef pg_recv
#undef pg_send

void broadcast(ProcessGroup *pg, void *data, size_t count, DType type, int root)
{
    for (int rank = 0; pg->rank == root && rank < pg->world_size; rank++)
        if (rank != root)
            pg_send(pg, data, count, type, rank);
    if (pg->rank != root)
        pg_recv(pg, data, count, type, root);
}

void all_reduce(ProcessGroup *pg, void *data, size_t count, DType type, ReduceOp op)
{
    void *other = mem_alloc(count, dtype_size(type));
    for (int rank = 1; rank < pg->world_size; rank++)
        if (pg->rank == rank) {
            pg_send(pg, data, count, type, 0);
        } else if (pg->rank == 0) {
            pg_recv(pg, other, count, type, rank);
            reduce_elements(data, data, other, count, type, op);
        }
    free(other);
    reduce_finish(data, count, type, op, pg->world_size);
    broadcast(pg, data, count, type, 0);
}

double all_reduce_scalar(ProcessGroup *pg, double value, ReduceOp op)
{
    all_reduce(pg, &value, 1, FLOAT64, op);
    return value;
}

void barrier(ProcessGroup *pg)
{
    all_reduce_scalar(pg, 0, REDUCE_SUM);
}

void all_check_divergence(ProcessGroup *pg, const Args *args, Divergence mine)
{
    (void)args, (void)mine;
    barrier(pg); // a collective, as the real one
}

/* ---- a run ---- */

void folder_of(int rank, const char *name, char path[PATH_MAX])
{
    if (rank == 0)
        snprintf(path, PATH_MAX, "%s/%s", base, name);
    else
        snprintf(path, PATH_MAX, "%s/rank%d", base, rank);
}

static void run_init(Run *run, ProcessGroup *pg, const char *name)
{
    static char text[6][PATH_MAX]; // static, because args keep pointers to it
    folder_of(pg->rank, name, text[0]);
    mkdir(text[0], 0777);
    const bool adam = strncmp(setting.optimizer, "adam", 4) == 0;
    snprintf(text[1], PATH_MAX, "%d", setting.every);
    snprintf(text[2], PATH_MAX, "%d", setting.keep);
    snprintf(text[3], PATH_MAX, "%llu", (unsigned long long)setting.seed);
    snprintf(text[4], PATH_MAX, "%d", setting.rows);
    snprintf(text[5], PATH_MAX, "%d", setting.batch);
    char *argv[] = { "try",
                     "--model",
                     "linear",
                     "--device",
                     "plain",
                     "--checkpoint-dir",
                     text[0],
                     "--save-every-steps",
                     text[1],
                     "--keep",
                     text[2],
                     "--seed",
                     text[3],
                     "--dataset-size",
                     text[4],
                     "--batch-size",
                     text[5],
                     "--optimizer",
                     (char *)setting.optimizer,
                     adam ? NULL : "--momentum",
                     "0.9",
                     NULL };
    dup2(STDERR_FILENO, STDOUT_FILENO); // leaves standard output to faults
    args_parse(&run->args, STEP_FAULT, adam ? 19 : 21, argv);
    log_set_rank(pg->rank, pg->world_size);
    device_init(&run->device, &run->args, 0);
    Rng rng;
    rng_seed(&rng, setting.seed);
    dataset_init(&run->data, &run->args, TRAIN, &rng);
    distributed_sampler_init(&run->sampler, run->data.size, pg->rank, pg->world_size, true, false,
                             setting.seed);
    if (pg->rank > 0)
        rng_seed(&rng, setting.seed + (uint64_t)pg->rank);
    model_init(&run->model, &run->args, setting.batch, &rng, &run->device);
    CHECK(run->model.numel <= MOST_NUMEL, "the model has become larger");
    optim_init(&run->optim, &run->args, &run->model, 8);
    checkpoint_init(&run->checkpoint, &run->args, &run->optim, &run->sampler, &run->data,
                    pg->world_size);
    memset(&run->recorder, 0, sizeof run->recorder);
    snapshots_init(&run->snapshots, &run->args, &run->checkpoint, pg, &run->recorder);
}

/* Takes a trainer's step, with gradients that depend on the step, the rows and the seed. */
static void run_batch(Run *run)
{
    Sampler *sampler = &run->sampler;
    size_t index[64];
    if (sampler_next(sampler, index, (size_t)setting.batch) == 0) {
        sampler_set_epoch(sampler, sampler->epoch);
        sampler_next(sampler, index, (size_t)setting.batch);
    }
    const size_t row = sampler->order[(sampler->position - 1) * (size_t)sampler->world_size];
    for (size_t i = 0; i < run->model.numel; i++)
        run->model.grads[i] =
            (float)(int)(lab_draw(setting.seed, run->model.step, row, i) % 2001) / 1000 - 1;
    optim_step(&run->optim);
}

static void state_of(const Run *run, State *state)
{
    memset(state, 0, sizeof *state);
    memcpy(state->params, run->model.params, run->model.numel * sizeof(float));
    for (int i = 0; i < run->optim.num_states; i++)
        memcpy(state->state[i], run->optim.state[i], run->model.numel * sizeof(float));
    state->step = run->model.step;
    state->epoch = run->sampler.epoch;
    state->position = run->sampler.position * (size_t)run->sampler.world_size;
}

/* Returns the step of the uninterrupted run with this state, or reports what differs as a fault. */
static uint64_t identify(const Run *run, const ProcessGroup *pg, const char *otherwise)
{
    State state;
    uint64_t s = 0;
    state_of(run, &state);
    while (s <= MOST_STEPS && memcmp(shared->due[s].params, state.params, sizeof state.params) != 0)
        s++;
    if (s > MOST_STEPS)
        fault(pg->rank > 0 ? "broadcast" : otherwise, "the weights are not those of any step");
    const State *due = &shared->due[s];
    const char *name = NULL;
    if (memcmp(due->state, state.state, sizeof due->state) != 0)
        name = "optimizer";
    else if (due->step != state.step)
        name = "step";
    else if (due->epoch != state.epoch || due->position != state.position)
        name = state.position > 0 && due->epoch == state.epoch ? "position_all" : "position";
    if (name != NULL)
        fault(pg->rank > 0 ? "broadcast"
              : rung > 1   ? otherwise
                           : name,
              "the weights are those of step %d, and with %s so should be the optimizer's states, "
              "the step (it is %d), the epoch (%d, due %d) and the place in it (%zu, due %zu)",
              (int)s, setting.optimizer, (int)state.step, state.epoch, due->epoch, state.position,
              due->position);
    return s;
}

/* Notes which files are new or changed since the last call: those of this step's snapshot. */
static void note_files(const char *folder, uint64_t step)
{
    static struct {
        char name[256];
        struct stat info;
    } old[64];
    static int num_old;
    int count = 0;
    DIR *dir = opendir(folder);
    for (const struct dirent *entry; dir != NULL && (entry = readdir(dir)) != NULL;) {
        struct stat info;
        int i = 0;
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) < 0 || !S_ISREG(info.st_mode))
            continue;
        while (i < num_old && strcmp(old[i].name, entry->d_name) != 0)
            i++;
        const bool same = i < num_old && old[i].info.st_ino == info.st_ino &&
                          old[i].info.st_mtim.tv_nsec == info.st_mtim.tv_nsec;
        if (!same && count < 8)
            snprintf(shared->newest[step][count++], 256, "%s", entry->d_name);
        if (i < 64) {
            snprintf(old[i].name, sizeof old[i].name, "%s", entry->d_name);
            old[i].info = info;
            num_old += i == num_old;
        }
    }
    if (dir != NULL)
        closedir(dir);
}

static void play(ProcessGroup *pg, void *context)
{
    const Phase *phase = context;
    static Run run;
    int last = phase->steps;
    char path[PATH_MAX], images[PATH_MAX];
    lab_stage(phase->stage);
    disk_wait_for_threads(); // the first call counts them
    run_init(&run, pg, phase->folder);
    if (phase->none)
        run.args.resume_auto = false;
    if (phase->nan_from > 0)
        run.args.on_nan = ON_NAN_WARN;
    if (phase->resumes) {
        const int epoch = snapshots_resume(&run.snapshots);
        const uint64_t from = identify(&run, pg, phase->otherwise);
        if (epoch != run.sampler.epoch)
            fault("position", "snapshots_resume returns epoch %d, not %d", epoch,
                  run.sampler.epoch);
        if (pg->rank == 0)
            shared->resumed = from;
        last += (int)from;
    } else {
        broadcast(pg, run.model.params, run.model.numel, FLOAT32, 0);
    }
    sampler_set_epoch(&run.sampler, run.sampler.epoch);
    folder_of(0, phase->folder, path);
    snprintf(images, sizeof images, "%s/images", base);
    if (phase->watches && pg->rank == 0)
        disk_watch(path, images, &shared->disk, phase->power);
    if (phase->delays && pg->rank == 0)
        disk_delay_threads(20000);
    signal(SIGXFSZ, SIG_IGN);
    while (run.model.step < (uint64_t)last) {
        if (phase->nan_from > 0 && run.model.step + 1 >= (uint64_t)phase->nan_from)
            run.model.params[0] = NAN;
        run_batch(&run);
        if (phase->full_from > 0 && pg->rank == 0 && run.model.step >= (uint64_t)phase->full_from) {
            struct rlimit limit; // keeps a lower hard limit
            getrlimit(RLIMIT_FSIZE, &limit);
            limit.rlim_cur = (rlim_t)phase->full_bytes;
            setrlimit(RLIMIT_FSIZE, &limit);
        }
        snapshots_step(&run.snapshots);
        if (phase->delays) { // a thread may write meanwhile
            usleep(7000);
            continue;
        }
        const bool due = pg->rank == 0 && run.model.step % (uint64_t)setting.every == 0;
        disk_look();
        if (!disk_wait_for_threads())
            fault("stop", "a thread that writes does not end within 10 s");
        if (due && phase->watches)
            shared->disk.complete = run.model.step;
        disk_look();
        if (due && !phase->watches && !phase->resumes)
            note_files(path, run.model.step);
    }
    if (phase->stops) {
        if (pg->rank == 0)
            disk_delay_threads(100000); // what is not waited for is lost at the exit
        snapshots_stop(&run.snapshots);
        lab_done();
        _exit(EXIT_SUCCESS); // ends all threads
    }
    if (phase->delays) {
        disk_wait_for_threads();
        return;
    }
    State end;
    state_of(&run, &end);
    if (memcmp(&end, &shared->due[last], sizeof end) != 0)
        fault("torn", "after step %d the run has another state than one without snapshots", last);
    snapshots_free(&run.snapshots);
}

/* Plays the uninterrupted run, without snapshots. */
static void play_due(ProcessGroup *pg, void *context)
{
    (void)context;
    static Run run;
    run_init(&run, pg, "due");
    broadcast(pg, run.model.params, run.model.numel, FLOAT32, 0);
    for (int s = 0; s <= MOST_STEPS; s++) {
        if (pg->rank == 0)
            state_of(&run, &shared->due[s]);
        if (s < MOST_STEPS)
            run_batch(&run);
    }
}

/* Obeys the judge on a rank that it serves. The first word is what to do:
 *   0  begins a run: whether it resumes, every, keep, seed; the data are the base of its folders
 *   1  takes a step, then sets the state that the judge has drawn; most bytes of a file (0: any)
 *   2  stops after the step that was the last
 * Replies with the step, the epoch and the state. */
void answer_run(ProcessGroup *pg, const Order *order, void *data)
{
    static Run run;
    const int32_t *word = order->word;
    Model *model = &run.model;
    if (word[0] == 0) {
        snprintf(base, sizeof base, "%s", (const char *)data);
        setting = (RunSetting){ "adam", (uint64_t)word[4], word[2], word[3], ROWS, BATCH };
        disk_wait_for_threads();
        run_init(&run, pg, "run");
        if (word[1])
            snapshots_resume(&run.snapshots);
        else
            broadcast(pg, model->params, model->numel, FLOAT32, 0);
        sampler_set_epoch(&run.sampler, run.sampler.epoch);
    } else if (word[0] == 1) {
        run_batch(&run);
        const size_t bytes = model->numel * sizeof(float);
        CHECK(order->bytes == bytes * 3, "the judge draws another model");
        memcpy(model->params, data, bytes);
        for (int i = 0; i < 2; i++)
            memcpy(run.optim.state[i], (const char *)data + (size_t)(i + 1) * bytes, bytes);
        if (word[1] > 0 && pg->rank == 0) {
            struct rlimit limit;
            getrlimit(RLIMIT_FSIZE, &limit);
            limit.rlim_cur = (rlim_t)word[1];
            setrlimit(RLIMIT_FSIZE, &limit);
            signal(SIGXFSZ, SIG_IGN);
        }
        snapshots_step(&run.snapshots);
        disk_wait_for_threads();
    } else {
        snapshots_stop(&run.snapshots);
    }
    float results[3][MOST_NUMEL];
    const size_t numel = model->numel;
    float *next = results[0];
    for (int i = 0; i < 3; i++, next += numel)
        memcpy(next, i == 0 ? model->params : run.optim.state[i - 1], numel * sizeof(float));
    lab_send(RESULT, (int32_t[7]){ (int32_t)model->step, run.sampler.epoch }, results,
             3 * numel * sizeof(float));
}

void make_due(void)
{
    if (lab_run(num_ranks, play_due, NULL) != 0)
        exit(EXIT_FAILURE);
}

void begin(const char *optimizer, int every, int keep)
{
    setting = (RunSetting){ optimizer, seed % 100000, every, keep, ROWS, BATCH };
    make_due();
}

void play_all(const char *stage, Phase phase)
{
    if (phase.otherwise == NULL)
        phase.otherwise = stage;
    phase.stage = stage;
    if (lab_run(num_ranks, play, &phase) != 0)
        exit(EXIT_FAILURE);
}
