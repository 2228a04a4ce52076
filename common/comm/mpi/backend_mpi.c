/* The mpi backend: hands each collective to the installed MPI library.
 *
 * Every call becomes MPI's nonblocking counterpart, which may overlap computation, but progresses
 * only when the rank calls MPI, so starting a call also progresses the earlier ones. MPI has no
 * deadlines, so a wait polls. It does not compare the ranks' calls either: --check-collectives on
 * does, by an exchange before each collective. The ranks find each other through MPI and its
 * launcher; no store is needed. */
#include <libgen.h>
#include <limits.h>
#include <mpi.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "common/base/host.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "common/comm/env.h"
#include "common/comm/library_calls.h"

#define MAX_PENDING 256
#define EAGER_POLLS 1000
#define MAX_NAP_NANOSECONDS 50000
#define MISSING_RANK \
    "a rank was not started, has died or does not use mpi: give all ranks the same options, " \
    "under one mpirun or srun --mpi=pmix"

/* UCX, which Open MPI 5 loads into a program even where it uses no MPI, handles SIGHUP as a request
 * to be debugged, so a rank would outlive its terminal. This restores the action that the signal
 * had (ignored under nohup) before any library's constructor ran. */
static struct sigaction hangup;

static void note_hangup(void)
{
    sigaction(SIGHUP, NULL, &hangup);
}
__attribute__((section(".preinit_array"), used)) static void (*const before)(void) = note_hangup;

__attribute__((constructor)) static void restore_hangup(void)
{
    sigaction(SIGHUP, &hangup, NULL);
}

typedef struct {
    Collective collective;
    MPI_Request request; // MPI_REQUEST_NULL when done
} MpiRequest;

/* A call is in slot op_id % MAX_PENDING, until it is done and another takes the slot. */
typedef struct {
    MPI_Comm comm; // a duplicate, so that our messages never match another library's
    MPI_Op bfloat16_ops[4]; // indexed by ReduceOp
    MpiRequest calls[MAX_PENDING];
} Mpi;

static void check_mpi(int error, const char *what)
{
    if (error == MPI_SUCCESS)
        return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(error, text, &length);
    die("%s: %s", what, text);
}

/* Ends this process with the reason if a call of MPI fails. */
#define MPI_CHECK(call) check_mpi((call), #call)

/* ---- does MPI agree about this rank's number? ---- */

/* Open MPI treats a process that no launcher started as a world of one, without complaint; and a
 * rank may have a second launcher's numbers (srun around mpirun). Both would silently train the
 * wrong model, so the variables are compared before MPI_Init, and MPI's own numbers after it. */
static void compare_numbers(int rank, int world_size, int mpi_rank, int mpi_size)
{
    CHECK(
        mpi_rank == rank && mpi_size == world_size,
        "this is rank %d of %d, but rank %d of %d for MPI: start every rank by one mpirun or srun "
        "--mpi=pmix, and nothing in between that starts ranks",
        rank, world_size, mpi_rank, mpi_size);
}

static void mpi_check(int rank, int world_size)
{
    bool launched = false;
    for (const Launcher *at = launchers; at->rank != NULL; at++) {
        const char *size = at->world_size;
        if (!at->is_mpi || getenv(at->rank) == NULL || (size != NULL && getenv(size) == NULL))
            continue;
        launched = true;
        compare_numbers(rank, world_size, env_number(at->rank),
                        size != NULL ? env_number(size) : world_size);
    }
    if (launched)
        return;
    if (getenv("SLURM_STEP_NUM_TASKS") != NULL && getenv("TORCHELASTIC_RUN_ID") == NULL)
        usage_error(
            "--backend mpi needs ranks that an MPI launcher started, and this srun is none: "
            "type SLURM_MPI_TYPE=pmix before run.sh, sbatch or srun (srun --mpi=list shows what "
            "there is), or leave the option out");
    usage_error("--backend mpi needs ranks that an MPI launcher started: type LAUNCHER=mpirun "
                "before run.sh (from step 03 on), or mpirun -n %d before the program (in a Slurm "
                "job srun --mpi=pmix), or leave the option out",
                world_size);
}

/* Dies if MPI knows of no other rank, as where the mpirun of another MPI has started this one. */
static void refuse_other_mpi(int world_size, int mpi_size)
{
    char version[MPI_MAX_LIBRARY_VERSION_STRING] = "", path[64], launcher[PATH_MAX] = "?";
    int length;
    if (mpi_size > 1 || world_size == 1)
        return;
    MPI_CHECK(MPI_Get_library_version(version, &length));
    version[strcspn(version, ",\n")] = '\0';
    snprintf(path, sizeof path, "/proc/%d/exe", getppid());
    if (readlink(path, launcher, sizeof launcher - 1) < 0)
        strcpy(launcher, "DIR/bin/mpirun");
    char *home = strdupa(launcher); // of /opt/mpich/bin/hydra_pmi_proxy it is /opt/mpich
    die("this program was built with %s, which does not know %s, by which it was started: use the "
        "mpirun of that MPI, or build for this one: make MPI_HOME=%s",
        version, launcher, dirname(dirname(home)));
}

/* ---- bf16, which MPI lacks: a type, and reductions of our own ---- */

#define BFLOAT16_OP(name, op) \
    static void name(void *in, void *inout, int *count, MPI_Datatype *type) \
    { \
        (void)type; \
        reduce_elements(inout, in, inout, (size_t)*count, BFLOAT16, op); \
    }
BFLOAT16_OP(bfloat16_sum, REDUCE_SUM)
BFLOAT16_OP(bfloat16_max, REDUCE_MAX)
BFLOAT16_OP(bfloat16_min, REDUCE_MIN)

/* ---- a call, from start to end ---- */

static void check_call(int error, const Collective *collective)
{
    char text[DESCRIPTION_BYTES];
    if (error != MPI_SUCCESS)
        check_mpi(error, collective_describe(collective, text));
}

/* Waits for a request that belongs to a call. */
static void complete(MPI_Request *request, MPI_Status *status, const Collective *collective)
{
    const ProcessGroup *pg = collective->pg;
    const double deadline = seconds_awake() + pg->timeout;
    struct timespec nap = { 0 };
    for (int polls = 0, done = 0;; polls++) {
        check_call(MPI_Test(request, &done, status), collective);
        if (done)
            return;
        if (seconds_awake() >= deadline) {
            char text[DESCRIPTION_BYTES];
            collective_report(collective, COLLECTIVE_FAILED);
            die("%s did not end within %g s: a rank is missing or calls something else; mpi cannot "
                "tell which (--check-collectives on compares the calls, --backend tcp names "
                "ranks)%s",
                collective_describe(collective, text), pg->timeout, pg->calls.error_suffix);
        }

        // There may be more ranks than cores: yield, and after a while sleep between polls.
        nap.tv_nsec += polls >= EAGER_POLLS && nap.tv_nsec < MAX_NAP_NANOSECONDS ? 100 : 0;
        if (nap.tv_nsec == 0)
            sched_yield();
        else
            nanosleep(&nap, NULL);
    }
}

/* Exchanges what each rank is about to call. Blocks, and so is off by default. */
static void compare_calls(const Mpi *mpi, const Collective *collective)
{
    const ProcessGroup *pg = collective->pg;
    Collective *all = mem_calloc((size_t)pg->world_size, sizeof *all);
    MPI_Request request;
    check_call(MPI_Iallgather(collective, sizeof *all, MPI_BYTE, all, sizeof *all, MPI_BYTE,
                              mpi->comm, &request),
               collective);
    complete(&request, MPI_STATUS_IGNORE, collective);
    collectives_compare(pg, all);
    free(all);
}

/* Tests if the short array of all_gather or reduce_scatter is this rank's share of the long one. */
static bool in_place(const Collective *c)
{
    const size_t offset = (size_t)c->pg->rank * c->count * dtype_size(c->type);
    const char *in = c->in, *out = c->out;
    return c->kind == ALL_GATHER ? in == out + offset : out == in + offset;
}

static int start_request(const Mpi *mpi, const Collective *c, MPI_Request *request)
{
    const MPI_Comm comm = mpi->comm;
    const MPI_Datatype types[] = {
        [FLOAT32] = MPI_FLOAT, [BFLOAT16] = MPI_UINT16_T, [FLOAT64] = MPI_DOUBLE,
        [INT32] = MPI_INT32_T, [INT64] = MPI_INT64_T,     [UINT8] = MPI_UINT8_T
    };
    const MPI_Op ops[] = { MPI_SUM, MPI_SUM, MPI_MAX, MPI_MIN }; // a mean is a sum, see finish
    const MPI_Datatype type = types[c->type];
    const MPI_Op op = (c->type == BFLOAT16 ? mpi->bfloat16_ops : ops)[c->op];
    const bool is_root = c->pg->rank == c->root;
    const int count = (int)c->count;
    switch (c->kind) {
    case ALL_REDUCE:
        return MPI_Iallreduce(MPI_IN_PLACE, c->out, count, type, op, comm, request);
    case BROADCAST:
        return MPI_Ibcast(c->out, count, type, c->root, comm, request);
    case REDUCE: // in place on the root; unchanged elsewhere
        return MPI_Ireduce(is_root ? MPI_IN_PLACE : c->in, is_root ? c->out : NULL, count, type, op,
                           c->root, comm, request);
    case GATHER:
        return MPI_Igather(c->in, count, type, c->out, count, type, c->root, comm, request);
    case ALL_GATHER:
        return MPI_Iallgather(in_place(c) ? MPI_IN_PLACE : c->in, count, type, c->out, count, type,
                              comm, request);
    case SCATTER:
        return MPI_Iscatter(c->in, count, type, c->out, count, type, c->root, comm, request);
    case REDUCE_SCATTER:
        if (in_place(c)) // MPI's result is at the beginning; finish moves it
            return MPI_Ireduce_scatter_block(MPI_IN_PLACE, (void *)c->in, count, type, op, comm,
                                             request);
        return MPI_Ireduce_scatter_block(c->in, c->out, count, type, op, comm, request);
    case BARRIER:
        return MPI_Ibarrier(comm, request);
    case SEND:
        return MPI_Isend(c->in, count, type, c->root, 0, comm, request);
    case RECV:
        return MPI_Irecv(c->out, count, type, c->root, 0, comm, request);
    }
    return MPI_ERR_ARG;
}

/* Waits for the call in a slot, unless it is done. */
static void finish(MpiRequest *call)
{
    if (call->request == MPI_REQUEST_NULL)
        return;
    const Collective *c = &call->collective;
    const ProcessGroup *pg = c->pg;
    MPI_Status status;
    complete(&call->request, &status, c);

    if (c->kind == REDUCE_SCATTER && in_place(c))
        memmove(c->out, c->in, c->count * dtype_size(c->type));
    if (c->kind == ALL_REDUCE || c->kind == REDUCE_SCATTER ||
        (c->kind == REDUCE && c->root == pg->rank))
        reduce_finish(c->out, c->count, c->type, c->op, pg->world_size);
    if (c->kind == RECV) { // MPI reports a longer message as an error, but not a shorter one
        char text[DESCRIPTION_BYTES];
        MPI_Count bytes = 0;
        MPI_CHECK(MPI_Get_elements_x(&status, MPI_BYTE, &bytes));
        CHECK((size_t)bytes == c->count * dtype_size(c->type), "%s: rank %d sends %lld bytes",
              collective_describe(c, text), c->root, (long long)bytes);
    }
    collective_report(c, COLLECTIVE_COMPLETED);
}

static long mpi_start(void *state, const Collective *collective)
{
    Mpi *mpi = state;
    char text[DESCRIPTION_BYTES];
    CHECK(collective->count <= INT_MAX, "%s: MPI counts to %d, so do it in several calls",
          collective_describe(collective, text), INT_MAX);

    if (collective->pg->check_collectives && !collective_is_point_to_point(collective->kind))
        compare_calls(mpi, collective);

    MpiRequest *call = &mpi->calls[collective->op_id % MAX_PENDING];
    finish(call); // a much earlier call
    call->collective = *collective;
    collective_report(collective, COLLECTIVE_STARTED);
    check_call(start_request(mpi, collective, &call->request), collective);

    int done; // testing one request progresses all of them
    check_call(MPI_Request_get_status(call->request, &done, MPI_STATUS_IGNORE), collective);
    return (long)collective->op_id;
}

static void mpi_wait(void *state, long ticket)
{
    Mpi *mpi = state;
    MpiRequest *call = &mpi->calls[ticket % MAX_PENDING];
    if (call->collective.op_id == (uint64_t)ticket)
        finish(call);
}

/* ---- the group ---- */

static void *mpi_init(ProcessGroup *pg)
{
    Mpi *mpi = mem_calloc(1, sizeof *mpi);
    for (int i = 0; i < MAX_PENDING; i++)
        mpi->calls[i].request = MPI_REQUEST_NULL;

    int initialized = 0, level = 0;
    MPI_CHECK(MPI_Initialized(&initialized));
    CHECK(!initialized, "MPI starts once in a process: it can be in one mpi group only");
    Watchdog watchdog;
    watchdog_start(&watchdog, pg->timeout, "MPI_Init", MISSING_RANK);
    MPI_CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level));
    CHECK(level >= MPI_THREAD_FUNNELED, "this MPI library allows a rank no threads of its own");

    MPI_CHECK(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN)); // the default aborts
    int rank = 0, size = 0;
    MPI_CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &rank));
    MPI_CHECK(MPI_Comm_size(MPI_COMM_WORLD, &size));
    refuse_other_mpi(pg->world_size, size);
    compare_numbers(pg->rank, pg->world_size, rank, size);
    MPI_CHECK(MPI_Comm_dup(MPI_COMM_WORLD, &mpi->comm));
    watchdog_stop(&watchdog);

    MPI_User_function *const functions[] = { bfloat16_sum, bfloat16_sum, bfloat16_max,
                                             bfloat16_min };
    for (ReduceOp op = REDUCE_SUM; op <= REDUCE_MIN; op++)
        MPI_CHECK(MPI_Op_create(functions[op], true, &mpi->bfloat16_ops[op]));
    return mpi;
}

/* Compares options as process_groups.c does in the store. The exchange has no number of its own. */
static void mpi_compare(const ProcessGroup *pg)
{
    char(*lines)[OPTIONS_BYTES] = mem_calloc((size_t)pg->world_size, OPTIONS_BYTES);
    const Collective exchange = { .pg = pg,
                                  .kind = ALL_GATHER,
                                  .type = UINT8,
                                  .count = OPTIONS_BYTES,
                                  .in = pg->options,
                                  .out = lines };
    mpi_wait(pg->state, mpi_start(pg->state, &exchange));
    for (int rank = 0; rank < pg->world_size; rank++)
        if (!options_agree(pg, lines[rank]))
            ranks_disagree(pg, lines[rank]);
    free(lines);
}

static void mpi_destroy(void *state, ProcessGroup *pg)
{
    Mpi *mpi = state;
    for (int i = 0; i < MAX_PENDING; i++)
        finish(&mpi->calls[i]);

    Watchdog watchdog;
    watchdog_start(&watchdog, pg->timeout, "MPI_Finalize", MISSING_RANK);
    MPI_CHECK(MPI_Comm_free(&mpi->comm));
    for (ReduceOp op = REDUCE_SUM; op <= REDUCE_MIN; op++)
        MPI_CHECK(MPI_Op_free(&mpi->bfloat16_ops[op]));
    MPI_CHECK(MPI_Finalize());
    watchdog_stop(&watchdog);
    free(mpi);
}

const Backend backend_mpi = { .name = "mpi",
                              .compare = mpi_compare,
                              .check = mpi_check,
                              .init = mpi_init,
                              .start = mpi_start,
                              .wait = mpi_wait,
                              .destroy = mpi_destroy };
