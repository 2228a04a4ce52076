/* counts.h - for tests: counts of the stand-in's calls since the process began. */
#ifndef TESTS_CUDA_STAND_IN_COUNTS_H
#define TESTS_CUDA_STAND_IN_COUNTS_H

typedef struct {
    long allocations; // allocations of device and pinned memory
    long launches; // kernels, memsets, products by cuBLAS and cuDNN done, also in graphs
    long events_made;
    long timed_records; // records of events with timing
    long waits; // host waits for an event, a stream or the device
    long spins; // busy waits among them
    long nccl_comms; // communicators, less those destroyed
    long nccl_calls, nccl_calls_registered; // all calls; those on registered arrays
    long nccl_threads; // threads that NCCL started for single calls
    unsigned contexts; // bit i is set if this process has a context on GPU i
} StandInCounts;

StandInCounts stand_in_counts(void);

#endif
