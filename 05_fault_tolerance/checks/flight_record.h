/*
 * flight_record.h - a rank's collectives, in a file that outlives its process.
 *
 * PyTorch's Flight Recorder (torch/csrc/distributed/c10d/FlightRecorder.hpp) dumps such a ring when
 * a watchdog fires; ours is always mapped to a file, so that it survives SIGKILL and can be read
 * while the rank runs. A reader must not trust its bytes, which may be half-written.
 */
#ifndef FAULT_TOLERANCE_FLIGHT_RECORD_H
#define FAULT_TOLERANCE_FLIGHT_RECORD_H

#include <stdatomic.h>

#include "common/comm/backend.h"

#define FLIGHT_FOLDER "flight" // in the checkpoint folder; rank 3's file is rank3.flight
#define FLIGHT_FILE "rank%d.flight"
#define FLIGHT_MAGIC "ddpfly1" // and a 0 byte
#define MAX_FLIGHT_RANKS 4096
#define FLIGHT_MAX_STEPS (UINT64_C(1) << 53) // larger numbers are not exact in JSON

enum { FLIGHT_ENTRIES = 512, FLIGHT_FRAMES = 12 };

/* A collective, in slot op_id % FLIGHT_ENTRIES. Times are nanoseconds since 1970, 0: not yet. */
typedef struct {
    _Atomic uint64_t number; // op_id + 1; 0: the slot is empty, or being written
    uint64_t sequence, count;
    int64_t scheduled_ns, started_ns, completed_ns, failed_ns;
    int32_t kind, type, op, root; // root: global rank
    char group[GROUP_NAME_BYTES];
    uint64_t frame[FLIGHT_FRAMES]; // the call stack, innermost first: addresses in `program`
} FlightEntry;

typedef enum { FLIGHT_JOINING, FLIGHT_RUNNING, FLIGHT_FINISHED } FlightState;

typedef struct {
    char magic[8];
    uint32_t bytes; // size of this struct; identifies the layout
    int32_t rank, world_size, restart_count;
    int32_t pid;
    _Atomic int32_t state; // a FlightState
    uint64_t pid_ticks; // when the process started, see process_identity.h
    int64_t created_ns;
    _Atomic int64_t attempt; // the same on all ranks, larger for newer attempts; 0: joining
    int64_t program_ns; // when the program was built
    char host[64], program[1024];
    char error[512]; // the rank's last message, if it gave up
    _Atomic int64_t disk_since_ns; // when its wait for a slow disk began; 0: it does not wait
    char disk[512]; // that disk, and the file being written
    uint64_t steps, steps_per_epoch; // of the whole run; 0: no step is done yet
    _Atomic uint64_t step; // steps done
    _Atomic double loss; // this rank's, at the last logged step
    FlightEntry entry[FLIGHT_ENTRIES];
} FlightRecord;

#endif
