/* counts.h - what the stand-in of CUDA was called for, for tests: so much since the process began.
 */
#ifndef TESTS_CUDA_STAND_IN_COUNTS_H
#define TESTS_CUDA_STAND_IN_COUNTS_H

typedef struct {
    long allocations; // of device and pinned memory
    long launches; // done, also in graphs: kernels, memsets, products by cuBLAS and cuDNN
    long events_made;
    long timed_records; // of events that hold a time
    long waits; // of the host, for an event, a stream or the device
    long spins; // those of them for which a thread keeps its core busy
    long nccl_comms; // communicators, less those destroyed
    long nccl_calls, nccl_calls_registered; // all; on arrays that are registered
    long nccl_threads; // that NCCL started for a call each
    unsigned contexts; // bit i: this process has one on GPU i
} StandInCounts;

StandInCounts stand_in_counts(void);

#endif
