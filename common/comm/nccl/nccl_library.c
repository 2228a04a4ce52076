/* The NCCL functions that this room calls; the library is opened with the first group. */
#include <nccl.h>

#include "common/base/library.h"

#define LIBRARY "libnccl.so.2"
#define NEEDED_BY "--backend nccl"
#define NCCL(name, parameters, arguments) \
    LIBRARY_FUNCTION(ncclResult_t, name, parameters, arguments)

NCCL(ncclGetUniqueId, (ncclUniqueId * id), (id))
NCCL(ncclCommInitRankConfig,
     (ncclComm_t * comm, int ranks, ncclUniqueId id, int rank, ncclConfig_t *config),
     (comm, ranks, id, rank, config))
NCCL(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t *part, ncclConfig_t *config),
     (comm, color, key, part, config))
NCCL(ncclCommFinalize, (ncclComm_t comm), (comm))
NCCL(ncclCommDestroy, (ncclComm_t comm), (comm))
NCCL(ncclCommAbort, (ncclComm_t comm), (comm))
NCCL(ncclCommGetAsyncError, (ncclComm_t comm, ncclResult_t *error), (comm, error))
LIBRARY_FUNCTION(const char *, ncclGetErrorString, (ncclResult_t result), (result))
LIBRARY_FUNCTION(const char *, ncclGetLastError, (ncclComm_t comm), (comm))

NCCL(ncclAllReduce,
     (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
      cudaStream_t stream),
     (in, out, count, type, op, comm, stream))
NCCL(ncclBroadcast,
     (const void *in, void *out, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
      cudaStream_t stream),
     (in, out, count, type, root, comm, stream))
NCCL(ncclReduce,
     (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, int root,
      ncclComm_t comm, cudaStream_t stream),
     (in, out, count, type, op, root, comm, stream))
NCCL(ncclAllGather,
     (const void *in, void *out, size_t count, ncclDataType_t type, ncclComm_t comm,
      cudaStream_t stream),
     (in, out, count, type, comm, stream))
NCCL(ncclReduceScatter,
     (const void *in, void *out, size_t count, ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
      cudaStream_t stream),
     (in, out, count, type, op, comm, stream))
NCCL(ncclSend,
     (const void *in, size_t count, ncclDataType_t type, int to, ncclComm_t comm,
      cudaStream_t stream),
     (in, count, type, to, comm, stream))
NCCL(ncclRecv,
     (void *out, size_t count, ncclDataType_t type, int from, ncclComm_t comm, cudaStream_t stream),
     (out, count, type, from, comm, stream))
NCCL(ncclGroupStart, (), ())
NCCL(ncclGroupEnd, (), ())
