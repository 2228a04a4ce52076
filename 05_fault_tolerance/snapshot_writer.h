/* snapshot_writer.h - a thread that writes a copy of the run, and what to do while it is slow. */
#ifndef FAULT_TOLERANCE_SNAPSHOT_WRITER_H
#define FAULT_TOLERANCE_SNAPSHOT_WRITER_H

#include <pthread.h>

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "05_fault_tolerance/snapshot_folder.h"
#include "common/comm/process_group.h"

typedef struct {
    const Checkpoint *checkpoint; // what is copied
    ProcessGroup *pg;
    FlightRecorder *recorder;
    char disk[DISK_BYTES]; // the folder's
    pthread_t thread;
    bool running; // the rest describes the file that it writes, or the last one
    double since; // when it began, on the clock of seconds_awake()
    _Atomic double seconds; // until the latest was written
    bool is_snapshot; // counts towards --keep
    bool is_required; // the process ends if it fails
    bool is_reported; // reported as slow
    CheckpointCopy copy; // the thread's, while it runs
} SnapshotWriter;

/* Pointers are borrowed. The folder exists. All functions are local, and for rank 0. */
void snapshot_writer_init(SnapshotWriter *writer, const Checkpoint *checkpoint, ProcessGroup *pg,
                          FlightRecorder *recorder);

/* Copies the state, and starts to write the copy: a checkpoint of that name, or a snapshot (NULL).
 * Once a snapshot is on disk, the oldest is removed (--keep). A file that cannot be written causes
 * a warning. The writer must be free. */
void snapshot_writer_start(SnapshotWriter *writer, const char *name);

/* Returns whether it is free to start. Waits for the file being written, until two seconds after
 * its start; then logs, once for each file, that the disk is slow. */
bool snapshot_writer_is_free(SnapshotWriter *writer);

/* Waits until the file is on disk. If that takes long, logs that the disk is slow and notes it in
 * the flight record. Meanwhile it sends keep-alive messages to the other ranks
 * (process_group_keep_alive). Dies after an hour. */
void snapshot_writer_wait(SnapshotWriter *writer);

/* Waits, writes a file, and waits until it is on disk. Dies if it cannot be written. */
void snapshot_writer_save(SnapshotWriter *writer, const char *name);

#endif
