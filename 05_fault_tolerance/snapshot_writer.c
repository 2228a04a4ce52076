/*
 * Each file has its own thread, and only one runs at a time: when it has ended, the copy may be
 * overwritten. So a disk that is slower than the training cannot fill the memory with copies.
 *
 * A rank that waits for the disk keeps the others waiting. Their timeouts are meant for lost ranks,
 * so it sends them keep-alive messages.
 */
#include "05_fault_tolerance/snapshot_writer.h"

#include <poll.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/signals.h"

#define POLL_MS 1
#define SLOW_SECONDS 2.0 // a disk that takes longer for a file is called slow
#define LOST_SECONDS 3600.0 // a disk that takes longer ends the job

void snapshot_writer_init(SnapshotWriter *writer, const Checkpoint *checkpoint, ProcessGroup *pg,
                          FlightRecorder *recorder)
{
    *writer = (SnapshotWriter){ .checkpoint = checkpoint, .pg = pg, .recorder = recorder };
    snapshot_folder_disk(checkpoint->args->checkpoint_dir, writer->disk); // may not answer later
}

/* Runs in the thread. If a file that is not required cannot be written, only this file is lost, and
 * the previous one is still there. */
static void *write_copy(void *argument)
{
    SnapshotWriter *writer = argument;
    const uint64_t step = writer->copy.step;
    const char *error = writer->copy.file.error;
    const bool is_free = snapshot_folder_set_aside(writer->checkpoint, &writer->copy);
    const bool is_written = is_free && checkpoint_commit(&writer->copy);
    writer->seconds = seconds_awake() - writer->since;
    CHECK(is_written || !writer->is_required,
          "%s: make room, or name another folder with --checkpoint-dir", error);
    if (!is_written)
        log_warning("%s: training goes on without it, make room", error);
    else if (writer->is_snapshot)
        snapshot_folder_prune(writer->checkpoint, step, writer->checkpoint->args->keep);
    return NULL;
}

static void start_thread(SnapshotWriter *writer, const char *name, bool is_required)
{
    const Checkpoint *checkpoint = writer->checkpoint;
    writer->is_snapshot = name == NULL;
    if (writer->is_snapshot)
        snapshot_copy(checkpoint, &writer->copy);
    else
        checkpoint_copy(checkpoint, name, checkpoint_next(checkpoint), &writer->copy);
    writer->is_required = is_required;
    writer->is_reported = false;
    writer->since = seconds_awake();
    const int error = thread_start(&writer->thread, write_copy, writer);
    CHECK(error == 0, "cannot start a thread that writes snapshots: %s", strerror(error));
    writer->running = true;
}

void snapshot_writer_start(SnapshotWriter *writer, const char *name)
{
    const char *folder = writer->checkpoint->args->checkpoint_dir;
    if (folder_try(folder))
        start_thread(writer, name, false);
    else
        log_warning("cannot create the folder %s: %s: training goes on without this checkpoint",
                    folder, strerror(errno));
}

/* Waits until the file is on disk, or until this many seconds after its start. Returns false if it
 * is still being written. */
static bool wait_for_thread(SnapshotWriter *writer, double seconds)
{
    while (writer->running && pthread_tryjoin_np(writer->thread, NULL) == EBUSY) {
        if (seconds_awake() - writer->since >= seconds)
            return false;
        process_group_keep_alive(writer->pg);
        poll(NULL, 0, POLL_MS);
    }
    writer->running = false;
    return true;
}

static void report_slow_disk(SnapshotWriter *writer, const char *consequence)
{
    if (!writer->is_reported)
        log_warning("%s is not on disk after %.1f s: %s is slow: %s", writer->copy.file.path,
                    seconds_awake() - writer->since, writer->disk, consequence);
    writer->is_reported = true;
}

bool snapshot_writer_is_free(SnapshotWriter *writer)
{
    if (wait_for_thread(writer, SLOW_SECONDS))
        return true;
    report_slow_disk(writer, "snapshots are skipped until it is there");
    return false;
}

void snapshot_writer_wait(SnapshotWriter *writer)
{
    if (wait_for_thread(writer, SLOW_SECONDS))
        return;
    report_slow_disk(writer, "the ranks wait for it");
    flight_recorder_disk(writer->recorder, writer->disk, writer->copy.file.path);
    CHECK(wait_for_thread(writer, LOST_SECONDS), "%s is not on disk after %g s: is %s lost?",
          writer->copy.file.path, LOST_SECONDS, writer->disk);
    flight_recorder_disk(writer->recorder, NULL, NULL);
}

void snapshot_writer_save(SnapshotWriter *writer, const char *name)
{
    snapshot_writer_wait(writer);
    folder_create(writer->checkpoint->args->checkpoint_dir, "--checkpoint-dir");
    start_thread(writer, name, true);
    snapshot_writer_wait(writer);
}
