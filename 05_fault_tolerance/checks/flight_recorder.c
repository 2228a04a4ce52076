/*
 * The recorder: a few stores to shared memory for each state of a collective.
 *
 * The kernel keeps a mapped page when its process is killed, and writes it to the file. So nothing
 * needs flushing, and only a crash of the machine loses data. A call's origin is recorded as the
 * addresses of its stack; the reader turns those into lines (tools/doctor/source_line.h).
 */
#include "05_fault_tolerance/checks/flight_recorder.h"

#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/process_identity.h"
#include "05_fault_tolerance/snapshot_folder.h"
#include "common/base/folder.h"
#include "common/base/log.h"

#define MICROSECOND 1000

int64_t flight_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void note_call(const FlightRecorder *recorder, FlightEntry *entry, const Collective *c)
{
    void *frame[FLIGHT_FRAMES] = { NULL };
    const int num_frames = backtrace(frame, FLIGHT_FRAMES);
    atomic_store_explicit(&entry->number, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    entry->sequence = c->sequence;
    entry->count = c->count;
    entry->scheduled_ns = flight_now();
    entry->started_ns = entry->completed_ns = entry->failed_ns = 0;
    entry->kind = (int32_t)c->kind;
    entry->type = (int32_t)c->type;
    entry->op = (int32_t)c->op;
    entry->root = process_group_global_rank(c->pg, c->root);
    memcpy(entry->group, c->pg->name, sizeof entry->group);
    for (int i = 0; i < FLIGHT_FRAMES; i++) // - 1: inside the call instruction, not after it
        entry->frame[i] = i < num_frames ? (uint64_t)frame[i] - recorder->load_bias - 1 : 0;
    atomic_store_explicit(&entry->number, c->op_id + 1, memory_order_release);
}

static void on_collective(void *context, const Collective *collective, CollectiveState state)
{
    const FlightRecorder *recorder = context;
    FlightEntry *entry = &recorder->record->entry[collective->op_id % FLIGHT_ENTRIES];
    if (state == COLLECTIVE_SCHEDULED)
        note_call(recorder, entry, collective);
    else if (atomic_load_explicit(&entry->number, memory_order_acquire) != collective->op_id + 1)
        return; // too late: its slot was reused
    else if (state == COLLECTIVE_STARTED)
        entry->started_ns = flight_now();
    else if (state == COLLECTIVE_COMPLETED)
        entry->completed_ns = flight_now();
    else if (state == COLLECTIVE_FAILED)
        entry->failed_ns = flight_now();
}

/* Takes the load bias of the first entry, which is the program itself. */
static int take_load_bias(struct dl_phdr_info *info, size_t bytes, void *bias)
{
    (void)bytes;
    *(uint64_t *)bias = info->dlpi_addr;
    return 1;
}

/* Maps a file of the record's size with all its disk blocks allocated, because a full disk would
 * otherwise kill the rank later, with SIGBUS. Returns NULL and sets errno on failure. */
static FlightRecord *map_file(const char *path)
{
    unlink(path); // an earlier attempt's rank may still be writing to it
    const int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    void *memory = MAP_FAILED;
    const int reason = posix_fallocate(fd, 0, sizeof(FlightRecord));
    if (reason == 0)
        memory = mmap(NULL, sizeof(FlightRecord), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    const int error = reason != 0 ? reason : errno;
    close(fd);
    if (memory != MAP_FAILED)
        return memory;
    unlink(path);
    errno = error;
    return NULL;
}

static void write_header(FlightRecord *record, int rank, int world_size)
{
    record->bytes = sizeof *record;
    record->rank = rank;
    record->world_size = world_size;
    record->restart_count = restart_count();
    record->pid = getpid();
    record->pid_ticks = process_start_ticks(getpid(), NULL);
    record->created_ns = flight_now();
    gethostname(record->host, sizeof record->host - 1);
    struct stat status;
    if (readlink("/proc/self/exe", record->program, sizeof record->program - 1) > 0 &&
        stat(record->program, &status) == 0)
        record->program_ns = status.st_mtim.tv_sec * INT64_C(1000000000) + status.st_mtim.tv_nsec;
    memcpy(record->magic, FLIGHT_MAGIC, sizeof record->magic); // last: makes it valid
}

void flight_recorder_init(FlightRecorder *recorder, const Args *args, int rank, int world_size)
{
    char path[PATH_MAX + 64];
    *recorder = (FlightRecorder){ .observer = { .see = on_collective, .context = recorder } };
    const int length = snprintf(path, PATH_MAX, "%s/" FLIGHT_FOLDER, args->checkpoint_dir);
    const bool has_folder = length < PATH_MAX && folder_try(path);
    snprintf(path + strlen(path), 64, "/" FLIGHT_FILE, rank);
    recorder->record = has_folder ? map_file(path) : NULL;
    if (recorder->record == NULL) {
        log_warning("%s: %s: this rank goes without a flight record", path, strerror(errno));
        return;
    }
    write_header(recorder->record, rank, world_size);
    log_copy_error(recorder->record->error, sizeof recorder->record->error);
    snprintf(recorder->error_suffix, sizeof recorder->error_suffix, "; see tools/ddp_doctor %s",
             args->checkpoint_dir);
    dl_iterate_phdr(take_load_bias, &recorder->load_bias);
    backtrace(&(void *){ NULL }, 1); // the first call loads a library, so make it now
}

void flight_recorder_join(FlightRecorder *recorder, ProcessGroup *pg)
{
    // In whole microseconds, which a double holds exactly until the year 2255.
    const double now = (double)(flight_now() / MICROSECOND);
    const double latest = all_reduce_scalar(pg, now, REDUCE_MAX);
    if (recorder->record == NULL)
        return;
    recorder->record->attempt = (int64_t)latest;
    if (recorder->record->state == FLIGHT_RUNNING) // a survivor, in its next group
        return;
    recorder->record->state = FLIGHT_RUNNING;
    pg->calls.error_suffix = recorder->error_suffix;
    process_group_observe(pg, &recorder->observer);
}

void flight_recorder_disk(FlightRecorder *recorder, const char *disk, const char *file)
{
    FlightRecord *record = recorder->record;
    if (record == NULL)
        return;
    if (disk != NULL)
        snprintf(record->disk, sizeof record->disk, "%s, to write %s", disk, file);
    record->disk_since_ns = disk != NULL ? flight_now() : 0;
}

void flight_recorder_step(FlightRecorder *recorder, const Args *args, const Optimizer *optim)
{
    FlightRecord *record = recorder->record;
    const uint64_t step = optim->model->step, steps = optim->schedule.total_steps;
    if (record == NULL)
        return;
    record->steps = steps < args->max_steps ? steps : args->max_steps;
    record->steps_per_epoch = optim->schedule.steps_per_epoch;
    const bool first = record->step == 0; // perhaps far from the next logged step, after a resume
    if (first || (step - 1) % record->steps_per_epoch % (uint64_t)args->log_interval == 0)
        record->loss = (double)model_loss(optim->model);
    record->step = step;
}

void flight_recorder_free(FlightRecorder *recorder)
{
    if (recorder->record == NULL)
        return;
    recorder->record->state = FLIGHT_FINISHED;
    log_copy_error(NULL, 0);
    munmap(recorder->record, sizeof *recorder->record);
}
