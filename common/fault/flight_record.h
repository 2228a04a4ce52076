/*
 * flight_record.h - what a rank has done with the others, in a file that survives its end.
 *
 * PyTorch's Flight Recorder (torch/csrc/distributed/c10d/FlightRecorder.hpp) dumps such a ring when
 * a watchdog fires; ours is mapped to a file all the time, so that it is there after SIGKILL, too,
 * and can be read while the rank is at work. A reader finds untrusted bytes, maybe half written.
 */
#ifndef COMMON_FAULT_FLIGHT_RECORD_H
#define COMMON_FAULT_FLIGHT_RECORD_H

#include <stdatomic.h>

#include "common/dist/backend.h"

#define FLIGHT_FOLDER "flight" // in the folder of the checkpoints; the file of rank 3: ...
#define FLIGHT_FILE "rank%d.flight"
#define FLIGHT_MAGIC "ddpfly1" // and a 0
#define MAX_FLIGHT_RANKS 4096

enum { FLIGHT_ENTRIES = 512, FLIGHT_FRAMES = 12 };

/* A collective, in slot op_id % FLIGHT_ENTRIES. Times are nanoseconds since 1970, 0: not yet. */
typedef struct {
    _Atomic uint64_t number; // op_id + 1; 0: the slot is empty, or being written
    uint64_t sequence, count;
    int64_t scheduled_ns, started_ns, completed_ns, failed_ns;
    int32_t kind, type, op, root; // root: in the group of all ranks
    char group[GROUP_NAME_BYTES];
    uint64_t frame[FLIGHT_FRAMES]; // the calls that led here, innermost first: places in `program`
} FlightEntry;

typedef enum { FLIGHT_JOINING, FLIGHT_RUNNING, FLIGHT_FINISHED } FlightState;

typedef struct {
    char magic[8];
    uint32_t bytes; // of this struct: another layout is another size
    int32_t rank, world_size, restart_count;
    int32_t pid;
    _Atomic int32_t state; // a FlightState
    uint64_t pid_ticks; // when the process started, see process.h
    int64_t created_ns;
    _Atomic int64_t attempt; // the same on all ranks, and newer attempts' are greater; 0: joining
    int64_t program_ns; // when the program was built
    char host[64], program[1024];
    char words[512]; // the rank's last, where it gave up
    FlightEntry entry[FLIGHT_ENTRIES];
} FlightRecord;

#endif
