/*
 * A communicator is a wire and a thread, which does what it is asked for in order: it finds the
 * other ranks, carries out calls, and splits.
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

static struct ncclComm *comm_new(const char *name, int rank, int num_ranks);

static void carry_out_split(struct ncclComm *comm)
{
    Choice all[WIRE_MAX_RANKS];
    WireCall gather = { .kind = WIRE_ALL_GATHER,
                        .type = ncclUint8,
                        .count = sizeof(Choice),
                        .in = (const char *)&comm->choice,
                        .out = (char *)all };
    if (!wire_carry_out(&comm->wire, &gather, 1))
        return;
    int rank = 0, num_ranks = 0;
    for (int i = 0; i < comm->num_ranks; i++) {
        const bool before =
            all[i].key < comm->choice.key || (all[i].key == comm->choice.key && i < comm->rank);
        num_ranks += all[i].color == comm->choice.color;
        rank += all[i].color == comm->choice.color && before;
    }
    char name[NAME_BYTES];
    snprintf(name, sizeof name, "%.40s-%d-%d", comm->name, comm->num_splits, comm->choice.color);
    *comm->part = comm->choice.color == NCCL_SPLIT_NOCOLOR ? NULL : comm_new(name, rank, num_ranks);
    comm->part = NULL;
    set_state(comm, ncclSuccess);
}

static void carry_out_job(struct ncclComm *comm, Job *job)
{
    if (++comm->num_jobs == comm->fails_at)
        set_state(comm, ncclRemoteError);
    if (comm->fails_at > 0 && comm->num_jobs >= comm->fails_at)
        return;
    for (int i = 0; i < job->num_calls; i++)
        job->calls[i].moved = 0;
    if (wire_carry_out(&comm->wire, job->calls, job->num_calls))
        job->done = true;
}

static void *serve(void *argument)
{
    struct ncclComm *comm = argument;
    if (wire_open(&comm->wire, comm->name, comm->rank, comm->num_ranks))
        set_state(comm, ncclSuccess);
    pthread_mutex_lock(&comm->mutex);
    for (;;) {
        while (comm->first == NULL && comm->part == NULL && !comm->closing)
            pthread_cond_wait(&comm->changed, &comm->mutex);
        if (comm->closing)
            break;
        Job *job = comm->first;
        if (job != NULL)
            comm->first = job->next;
        if (comm->first == NULL)
            comm->last = &comm->first;
        pthread_mutex_unlock(&comm->mutex);
        if (job != NULL)
            carry_out_job(comm, job);
        else
            carry_out_split(comm);
        pthread_mutex_lock(&comm->mutex);
    }
    pthread_mutex_unlock(&comm->mutex);
    return NULL;
}

static struct ncclComm *comm_new(const char *name, int rank, int num_ranks)
{
    struct ncclComm *comm = calloc(1, sizeof *comm);
    const char *fails_at = getenv("NCCL_STAND_IN_ERROR");
    snprintf(comm->name, sizeof comm->name, "%s", name);
    comm->rank = rank;
    comm->num_ranks = num_ranks;
    comm->fails_at = fails_at != NULL ? atol(fails_at) : 0;
    comm->state = ncclInProgress;
    comm->last = &comm->first;
    pthread_mutex_init(&comm->mutex, NULL);
    pthread_cond_init(&comm->changed, NULL);
    if (pthread_create(&comm->thread, NULL, serve, comm) != 0)
        stand_in_fail("NCCL: no thread");
    return comm;
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
    if (config->magic != 0xcafebeef || config->blocking != 0)
        return ncclInvalidArgument;
    *comm = comm_new(id.internal, rank, num_ranks);
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *part,
                           ncclConfig_t *config)
{
    if (config->magic != 0xcafebeef || config->blocking != 0)
        return ncclInvalidArgument;
    pthread_mutex_lock(&comm->mutex);
    comm->num_splits++;
    comm->choice = (Choice){ color, key };
    comm->part = part;
    comm->state = ncclInProgress;
    pthread_cond_signal(&comm->changed);
    pthread_mutex_unlock(&comm->mutex);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
    LOCKED;
    pthread_mutex_lock(&comm->mutex);
    Job *job = NULL;
    const bool asked = comm->starting != NULL || comm->finalized;
    if (asked && comm->state == ncclInProgress && ++comm->polls == POLLS_TO_QUEUE) {
        job = comm->starting;
        comm->calls += job != NULL;
        comm->starting = NULL;
        comm->state = ncclSuccess;
    }
    *error = comm->state;
    pthread_mutex_unlock(&comm->mutex);
    if (job != NULL)
        job_push(job);
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&comm->mutex);
    comm->finalized = true; // nothing may be on its way
    comm->polls = 0;
    comm->state = ncclInProgress;
    pthread_mutex_unlock(&comm->mutex);
    return ncclInProgress;
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
    if (!comm->finalized || comm->state == ncclInProgress)
        stand_in_fail("NCCL: a communicator is destroyed before ncclCommFinalize is done");
    stop(comm);
    if (comm->first != NULL)
        stand_in_fail("NCCL: a communicator is destroyed with calls on their way");
    wire_close(&comm->wire);
    free(comm);
    return ncclSuccess;
}

/* Its memory stays, since calls are still in the streams. */
ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    comm->wire.cut = true;
    stop(comm);
    fprintf(stderr, "NCCL stand-in: aborted\n"); // for tests to read
    return ncclSuccess;
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
