/* flight_recorder.h - writes this rank's flight record while it trains. */
#ifndef COMMON_FAULT_FLIGHT_RECORDER_H
#define COMMON_FAULT_FLIGHT_RECORDER_H

#include <limits.h>

#include "common/dist/observer.h"
#include "common/fault/flight_record.h"

typedef struct {
    FlightRecord *record; // shared with the file; NULL: there is none
    uint64_t load_bias; // from places in the program's file to addresses
    Observer observer;
    char advice[PATH_MAX + 32]; // where to read what was recorded
} FlightRecorder;

int64_t flight_now(void); // the clock of all times in a record

/* Puts an empty record at args->checkpoint_dir/flight/rankR.flight: whoever has none has not come
 * so far. Where that cannot be, it warns and records nothing. Local. */
void flight_recorder_init(FlightRecorder *recorder, const Args *args, int rank, int world_size);

/* From now on every call on the group and its parts is recorded, and messages about calls that fail
 * name the tool that reads the records. The group must not outlive the recorder. Collective. */
void flight_recorder_join(FlightRecorder *recorder, ProcessGroup *pg);

/* To be called at the end of a run that has succeeded, after process_group_destroy. Local. */
void flight_recorder_free(FlightRecorder *recorder);

#endif
