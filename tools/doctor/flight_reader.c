/* Reading a flight record: nothing in it is trusted before it is checked. */
#include "tools/doctor/flight_reader.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"

/* Terminates the text within its bytes, and replaces characters that could control a terminal. */
static void clean_text(char *text, size_t bytes)
{
    text[bytes - 1] = '\0';
    text_disarm(text, "");
}

static bool entry_fits(const FlightEntry *entry, size_t slot, int world_size)
{
    const bool known = entry->kind >= 0 && entry->kind <= RECV && entry->type >= 0 &&
                       entry->type < NUM_DTYPES && entry->op >= 0 && entry->op <= REDUCE_MIN &&
                       entry->root >= 0 && entry->root < world_size;
    const bool timely = entry->scheduled_ns > 0 && entry->started_ns >= 0 &&
                        entry->completed_ns >= 0 && entry->failed_ns >= 0;
    return entry->number > 0 && (entry->number - 1) % FLIGHT_ENTRIES == slot && known && timely;
}

/* So that readers may divide by steps_per_epoch once a step is done. */
static void clear_impossible_progress(FlightRecord *record)
{
    if (record->step > 0 && record->step <= record->steps && record->steps <= FLIGHT_MAX_STEPS &&
        record->steps_per_epoch > 0)
        return;
    record->step = record->steps = record->steps_per_epoch = 0;
}

/* Returns NULL if nothing is wrong with the header. */
static const char *check_header(FlightRecord *record)
{
    if (memcmp(record->magic, FLIGHT_MAGIC, sizeof record->magic) != 0 ||
        record->bytes != sizeof *record)
        return "it is no flight record of this version";
    if (record->world_size < 1 || record->world_size > MAX_FLIGHT_RANKS || record->rank < 0 ||
        record->rank >= record->world_size || record->pid < 1 || record->created_ns < 1 ||
        record->attempt < 0 || record->disk_since_ns < 0 || record->state < FLIGHT_JOINING ||
        record->state > FLIGHT_FINISHED)
        return "it is damaged";
    clean_text(record->host, sizeof record->host);
    clean_text(record->program, sizeof record->program);
    clean_text(record->error, sizeof record->error);
    clean_text(record->disk, sizeof record->disk);
    return NULL;
}

/* Returns NULL if all bytes have been read. */
static const char *read_bytes(int fd, FlightRecord *record)
{
    struct stat status;
    if (fstat(fd, &status) < 0)
        return strerror(errno);
    if (!S_ISREG(status.st_mode))
        return "it is no file";
    if (status.st_size != sizeof *record)
        return "it is no flight record of this version";
    for (size_t done = 0; done < sizeof *record;) {
        const ssize_t n = read(fd, (char *)record + done, sizeof *record - done);
        if (n <= 0 && !(n < 0 && errno == EINTR))
            return n < 0 ? strerror(errno) : "it ends too soon";
        done += n < 0 ? 0 : (size_t)n;
    }
    return NULL;
}

FlightRecord *flight_record_read(const char *path, char *reason, size_t bytes)
{
    FlightRecord *record = mem_calloc(1, sizeof *record);
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); // a pipe must not block us
    const char *fault = fd < 0 ? strerror(errno) : read_bytes(fd, record);
    if (fd >= 0)
        close(fd);
    if (fault == NULL)
        fault = check_header(record);
    if (fault != NULL) {
        snprintf(reason, bytes, "%s", fault);
        free(record);
        return NULL;
    }
    clear_impossible_progress(record);
    for (size_t slot = 0; slot < FLIGHT_ENTRIES; slot++) {
        FlightEntry *entry = &record->entry[slot];
        if (!entry_fits(entry, slot, record->world_size))
            *entry = (FlightEntry){ 0 };
        clean_text(entry->group, sizeof entry->group);
    }
    return record;
}

char *flight_entry_describe(const FlightEntry *entry, char text[DESCRIPTION_BYTES])
{
    ProcessGroup pg = { 0 };
    memcpy(pg.name, entry->group, sizeof pg.name - 1);
    const Collective collective = { .pg = &pg,
                                    .sequence = entry->sequence,
                                    .kind = (CollectiveKind)entry->kind,
                                    .type = (DType)entry->type,
                                    .op = (ReduceOp)entry->op,
                                    .count = entry->count,
                                    .root = entry->root };
    return collective_describe(&collective, text);
}
