/* flight_recorder.h - writes this rank's flight record while it trains. */
#ifndef FAULT_TOLERANCE_FLIGHT_RECORDER_H
#define FAULT_TOLERANCE_FLIGHT_RECORDER_H

#include <limits.h>

#include "05_fault_tolerance/checks/flight_record.h"
#include "common/comm/backend.h"
#include "common/nn/optim.h"

typedef struct {
    FlightRecord *record; // shared with the file; NULL if there is none
    uint64_t load_bias; // run-time address minus address in the program's file
    Observer observer;
    char error_suffix[PATH_MAX + 32]; // how to read the record
} FlightRecorder;

int64_t flight_now(void); // the clock of all times in a record

/* Creates an empty record, args->checkpoint_dir/flight/rankR.flight: a rank without one did not get
 * this far. On failure warns and records nothing. Local. */
void flight_recorder_init(FlightRecorder *recorder, const Args *args, int rank, int world_size);

/* Records every call on the group and its subgroups from now on; messages about failed calls then
 * name the tool that reads the records. The recorder must outlive the group. Collective. */
void flight_recorder_join(FlightRecorder *recorder, ProcessGroup *pg);

/* Notes in the record that this rank waits for this disk to write this file; with disk NULL, that
 * it no longer waits. Local. */
void flight_recorder_disk(FlightRecorder *recorder, const char *disk, const char *file);

/* Notes how far the training is, after each step. The loss is that of the last logged step, because
 * only there does the host wait for it anyway, or else of this process's first. Local. */
void flight_recorder_step(FlightRecorder *recorder, const Args *args, const Optimizer *optim);

/* Ends the record; call it at the end of a successful run, after process_group_destroy. Local. */
void flight_recorder_free(FlightRecorder *recorder);

#endif
