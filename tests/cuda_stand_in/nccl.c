/*
 * NCCL between processes of one machine, on the simulated GPUs of the stand-in, for tests.
 *
 * A call is two pieces of work on its stream: one passes the numbers from device memory to the
 * communicator's thread, the other waits until that has the result. So, as in NCCL, a call waits
 * for the other ranks only when the stream reaches it, and a dead rank makes it wait forever. Calls
 * on host memory, and means of integers, which NCCL rounds in its own way, are refused, and so are
 * two threads in one communicator at the same time.
 */
#include <stdlib.h>
#include <string.h>

#include "nccl_comm.h"

static _Thread_local struct {
    int depth;
    Job *job;
} group;

/* ---- work of a stream ---- */

static void run_begin(void *arguments)
{
    Job *job = *(Job **)arguments;
    struct ncclComm *comm = job->comm;
    job->done = false;
    job->next = NULL;
    for (int i = 0; i < job->num_calls; i++)
        if (job->in_bytes[i] > 0)
            memcpy((char *)job->calls[i].in, job->in[i], job->in_bytes[i]);
    pthread_mutex_lock(&comm->mutex);
    if (comm->closing) { // aborted
        job->done = true;
    } else {
        *comm->last = job;
        comm->last = &job->next;
        pthread_cond_signal(&comm->changed);
    }
    pthread_mutex_unlock(&comm->mutex);
}

static bool end_ready(void *arguments)
{
    const Job *job = *(Job **)arguments;
    return job->done;
}

static void run_end(void *arguments)
{
    Job *job = *(Job **)arguments;
    for (int i = 0; i < job->num_calls; i++)
        if (job->out_bytes[i] > 0)
            memcpy(job->out[i], job->calls[i].out, job->out_bytes[i]);
    for (int i = 0; i < job->num_calls && !job->recorded; i++) {
        free((char *)job->calls[i].in);
        free(job->calls[i].out);
    }
    if (!job->recorded)
        free(job);
}

static void drop(void *arguments)
{
    Job *job = *(Job **)arguments;
    job->comm->recorded--;
}

/* Must be called under the lock. */
void job_push(Job *job)
{
    job->recorded = stand_in_stream_captures(job->stream);
    job->comm->recorded += job->recorded;
    const Work begin = {
        .name = "NCCL", .run = run_begin, .drop = drop, .arguments = &job, .bytes = sizeof job
    };
    const Work end = {
        .name = "NCCL", .run = run_end, .ready = end_ready, .arguments = &job, .bytes = sizeof job
    };
    stand_in_push(job->stream, &begin);
    stand_in_push(job->stream, &end);
}

/* ---- calls ---- */

/* Connects the ranks in their first call, which waits until all ranks have come here. */
static void connect_ranks(struct ncclComm *comm)
{
    char from = 0, to[WIRE_MAX_RANKS];
    WireCall meet = {
        .kind = WIRE_ALL_GATHER, .type = ncclUint8, .count = 1, .in = &from, .out = to
    };
    if (!comm->connected)
        wire_carry_out(&comm->wire, &meet, 1);
    comm->connected = true;
}

static void queue(struct ncclComm *comm)
{
    const WireKind kind = comm->job->calls[0].kind;
    if (kind != WIRE_SEND && kind != WIRE_RECV)
        connect_ranks(comm);
    LOCKED;
    const bool captured = stand_in_stream_captures(comm->job->stream);
    if (comm->calls < CALLS_TO_CONNECT && captured)
        stand_in_fail("NCCL: a call is captured that has not been made before");
    comm->calls += !captured;
    job_push(comm->job);
}

static ncclResult_t submit(Job *job)
{
    job->comm->job = job;
    return comm_request(job->comm, queue);
}

static void check_arrays(const Job *job, int i)
{
    LOCKED;
    const int device = stand_in_stream_device(job->stream);
    stand_in_check_range("NCCL", device, job->in[i], job->in_bytes[i]);
    stand_in_check_range("NCCL", device, job->out[i], job->out_bytes[i]);
}

static ncclResult_t add(WireCall call, const void *in, size_t in_shares, void *out,
                        size_t out_shares, ncclComm_t comm, cudaStream_t stream)
{
    IN_COMM(comm);
    const size_t bytes = call.count * wire_element_bytes(call.type);
    const bool is_integer =
        call.type != ncclFloat32 && call.type != ncclFloat64 && call.type != ncclBfloat16;
    const bool grouped = call.kind == WIRE_SEND || call.kind == WIRE_RECV;
    if (bytes == 0 || (call.op == ncclAvg && is_integer) || (group.depth > 0 && !grouped) ||
        call.root < 0 || call.root >= comm->num_ranks)
        return ncclInvalidArgument;
    if (comm->state != ncclSuccess) // still busy, or failed
        return comm->state == ncclInProgress ? ncclInvalidUsage : comm->state;
    if (group.job == NULL)
        group.job = calloc(1, sizeof *group.job);
    Job *job = group.job;
    const int i = job->num_calls++;
    if (i == MAX_GROUPED)
        stand_in_fail("NCCL: more than %d calls in a group", MAX_GROUPED);
    job->comm = comm;
    job->stream = stream;
    job->in[i] = in;
    job->out[i] = out;
    job->in_bytes[i] = bytes * in_shares;
    job->out_bytes[i] = bytes * out_shares;
    check_arrays(job, i);
    stand_in_count.nccl_calls_registered += comm_has_registered(comm, in, job->in_bytes[i]) &&
                                            comm_has_registered(comm, out, job->out_bytes[i]);
    stand_in_count.nccl_calls++;
    call.window = call.kind == WIRE_ALL_REDUCE ? comm_place_in_window(comm, in) : 0;
    call.in = malloc(job->in_bytes[i] + 1);
    call.out = malloc(job->out_bytes[i] + 1);
    job->calls[i] = call;
    if (group.depth > 0)
        return ncclSuccess;
    group.job = NULL;
    return submit(job);
}

ncclResult_t ncclGroupStart(void)
{
    group.depth++;
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
    Job *job = group.job;
    if (--group.depth > 0 || job == NULL)
        return ncclSuccess;
    group.job = NULL;
    IN_COMM(job->comm);
    return submit(job);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_ALL_REDUCE, .type = type, .op = op, .count = count };
    return add(call, in, 1, out, 1, comm, stream);
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count, ncclDataType_t type, int root,
                           ncclComm_t comm, cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_BROADCAST, .type = type, .root = root, .count = count };
    return add(call, in, comm->rank == root, out, 1, comm, stream);
}

ncclResult_t ncclReduce(const void *in, void *out, size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
    const WireCall call = {
        .kind = WIRE_REDUCE, .type = type, .op = op, .root = root, .count = count
    };
    return add(call, in, 1, out, comm->rank == root, comm, stream);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_ALL_GATHER, .type = type, .count = count };
    return add(call, in, 1, out, (size_t)comm->num_ranks, comm, stream);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count, ncclDataType_t type,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_REDUCE_SCATTER, .type = type, .op = op, .count = count };
    return add(call, in, (size_t)comm->num_ranks, out, 1, comm, stream);
}

ncclResult_t ncclSend(const void *in, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_SEND, .type = type, .root = peer, .count = count };
    return add(call, in, 1, NULL, 0, comm, stream);
}

ncclResult_t ncclRecv(void *out, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream)
{
    const WireCall call = { .kind = WIRE_RECV, .type = type, .root = peer, .count = count };
    return add(call, NULL, 0, out, 1, comm, stream);
}
