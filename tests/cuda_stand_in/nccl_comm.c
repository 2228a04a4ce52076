/*
 * A communicator is a wire and a thread, which carries out jobs in order.
 *
 * NCCL_STAND_IN_ERROR=N: the N-th call of a communicator loses the connection and never ends.
 */
#include "nccl_comm.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void set_state(struct ncclComm *comm, ncclResult_t state)
{
    pthread_mutex_lock(&comm->mutex);
    comm->state = state;
    pthread_mutex_unlock(&comm->mutex);
}

struct ncclComm *comm_enter(struct ncclComm *comm)
{
    if (atomic_exchange(&comm->in_use, true))
        stand_in_fail("NCCL: two threads use one communicator at the same time");
    return comm;
}

void comm_leave(struct ncclComm **comm)
{
    (*comm)->in_use = false;
}

static void *answer(void *argument)
{
    struct ncclComm *comm = argument;
    comm->request(comm);
    comm->answered = true;
    return NULL;
}

ncclResult_t comm_request(struct ncclComm *comm, void (*request)(struct ncclComm *comm))
{
    if (comm->blocking) {
        request(comm);
        return comm->state;
    }
    comm->request = request;
    comm->answered = false;
    set_state(comm, ncclInProgress);
    LOCKED;
    stand_in_count.nccl_threads++;
    if (pthread_create(&comm->requested, NULL, answer, comm) != 0)
        stand_in_fail("NCCL: no thread");
    return ncclInProgress;
}

static void carry_out_job(struct ncclComm *comm, Job *job)
{
    if (++comm->num_jobs == comm->fails_at)
        set_state(comm, ncclRemoteError);
    if (comm->fails_at > 0 && comm->num_jobs >= comm->fails_at)
        return;
    for (int i = 0; i < job->num_calls; i++)
        job->calls[i].moved = 0;
    wire_carry_out(&comm->wire, job->calls, job->num_calls);
    job->done = true;
}

static void *serve(void *argument)
{
    struct ncclComm *comm = argument;
    pthread_mutex_lock(&comm->mutex);
    for (;;) {
        while (comm->first == NULL && !comm->closing)
            pthread_cond_wait(&comm->changed, &comm->mutex);
        if (comm->closing)
            break;
        Job *job = comm->first;
        comm->first = job->next;
        if (comm->first == NULL)
            comm->last = &comm->first;
        comm->working = true;
        pthread_mutex_unlock(&comm->mutex);
        carry_out_job(comm, job);
        pthread_mutex_lock(&comm->mutex);
        comm->working = false;
    }
    pthread_mutex_unlock(&comm->mutex);
    return NULL;
}

static void count_comms(int more)
{
    LOCKED;
    stand_in_count.nccl_comms += more;
}

static struct ncclComm *comm_new(const char *name, int rank, int num_ranks, bool blocking)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    const char *fails_at = getenv("NCCL_STAND_IN_ERROR");
    snprintf(comm->name, sizeof comm->name, "%.63s", name);
    comm->rank = rank;
    comm->num_ranks = num_ranks;
    comm->blocking = blocking;
    comm->fails_at = fails_at != NULL ? atol(fails_at) : 0;
    comm->last = &comm->first;
    count_comms(1);
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->changed, NULL);
    return comm;
}

/* Opens a communicator's wire, waiting for the other ranks. */
static void open_comm(struct ncclComm *comm)
{
    wire_open(&comm->wire, comm->name, comm->rank, comm->num_ranks);
    if (pthread_create(&comm->thread, NULL, serve, comm) != 0)
        stand_in_fail("NCCL: no thread");
}

static void split(struct ncclComm *comm)
{
    Choice all[WIRE_MAX_RANKS];
    WireCall gather = { .kind = WIRE_ALL_GATHER,
                        .type = ncclUint8,
                        .count = sizeof(Choice),
                        .in = (const char *)&comm->choice,
                        .out = (char *)all };
    if (comm->first != NULL || comm->working)
        stand_in_fail("NCCL: a communicator is split with calls on their way");
    wire_carry_out(&comm->wire, &gather, 1);
    int rank = 0, num_ranks = 0;
    for (int i = 0; i < comm->num_ranks; i++) {
        const bool before =
            all[i].key < comm->choice.key || (all[i].key == comm->choice.key && i < comm->rank);
        num_ranks += all[i].color == comm->choice.color;
        rank += all[i].color == comm->choice.color && before;
    }
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.40s-%d-%d", comm->name, comm->num_splits++, comm->choice.color);
    *comm->part = NULL;
    if (comm->choice.color == NCCL_SPLIT_NOCOLOR)
        return;
    *comm->part = comm_new(name, rank, num_ranks, comm->blocking);
    open_comm(*comm->part);
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    static atomic_int ids;
    snprintf(id->internal, sizeof id->internal, "/nccl-stand-in-%d-%d", (int)getpid(), ids++);
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int num_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t *config)
{
    if (config->magic != 0xcafebeef)
        return ncclInvalidArgument;
    *comm = comm_new(id.internal, rank, num_ranks, config->blocking != 0);
    return comm_request(*comm, open_comm);
}

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int num_ranks, ncclUniqueId id, int rank)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    return ncclCommInitRankConfig(comm, num_ranks, id, rank, &config);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part,
                           ncclConfig_t *config)
{
    IN_COMM(comm);
    if (config != NULL && (config->blocking != 0) != comm->blocking)
        return ncclInvalidArgument;
    comm->choice = (Choice){ color, key };
    comm->part = part;
    return comm_request(comm, split);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    IN_COMM(comm);
    if (comm->request != NULL && comm->answered) {
        pthread_join(comm->requested, NULL);
        comm->request = NULL;
        if (comm->state == ncclInProgress)
            set_state(comm, ncclSuccess);
    }
    pthread_mutex_lock(&comm->mutex);
    *error = comm->state;
    pthread_mutex_unlock(&comm->mutex);
    return ncclSuccess;
}

static void finalize(struct ncclComm *comm)
{
    comm->finalized = true;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    IN_COMM(comm);
    return comm_request(comm, finalize);
}

static void stop(struct ncclComm *comm)
{
    pthread_mutex_lock(&comm->mutex);
    comm->closing = true;
    pthread_cond_signal(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
    pthread_join(comm->thread, NULL);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    comm_enter(comm);
    if ((!comm->blocking && !comm->finalized) || comm->state == ncclInProgress)
        stand_in_fail("NCCL: a communicator is destroyed before ncclCommFinalize is done");
    if (comm->recorded > 0) // NCCL would wait for the graphs
        stand_in_fail("NCCL: a communicator is destroyed before a graph that holds its calls");
    if (comm->registered > 0)
        stand_in_fail("NCCL: a communicator is destroyed with %ld arrays registered",
                      comm->registered);
    stop(comm);
    if (comm->first != NULL)
        stand_in_fail("NCCL: a communicator is destroyed with calls on their way");
    wire_close(&comm->wire);
    count_comms(-1);
    free(comm);
    return ncclSuccess;
}

/* Ends the waits of all its threads and its work on streams, whose results are then undefined. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm_enter(comm);
    comm->wire.aborted = true;
    if (comm->request != NULL)
        pthread_join(comm->requested, NULL);
    stop(comm);
    LOCKED;
    for (Job *job = comm->first, *next; job != NULL; job = next) {
        next = job->next;
        job->done = true; // from now on the stream may free it
    }
    stand_in_count.nccl_comms--;
    return ncclSuccess; // streams may still read the communicator
}

const char *ncclGetErrorString(ncclResult_t result)
{
    static const char *const texts[] = { "no error",
                                         "unhandled cuda error",
                                         "unhandled system error",
                                         "internal error",
                                         "invalid argument",
                                         "invalid usage",
                                         "remote process exited or there was a network error",
                                         "NCCL operation in progress" };
    return texts[result];
}

const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
