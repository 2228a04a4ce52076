/*
 * The form is a Python dictionary, pickled: {"version": "2.10", "pg_config": {...}, "entries":
 * [...]}, with the names of torch/csrc/distributed/c10d/FlightRecorder.hpp. Of the pickle's opcodes
 * (Python's pickletools lists them) a few suffice, all of protocol 0 and 1: a mark, then what is
 * between it and the opcode that makes a dictionary, list or tuple of it.
 */
#include "tools/doctor/torch_form.h"

#include <endian.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/folder.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/doctor/source_line.h"

enum { MARK = '(', DICTIONARY = 'd', LIST = 'l', TUPLE = 't', NONE = 'N', STOP = '.' };

static void put_text(FILE *file, const char *text)
{
    const uint32_t length = (uint32_t)strlen(text), little = htole32(length);
    putc('X', file); // BINUNICODE
    fwrite(&little, sizeof little, 1, file);
    fwrite(text, 1, length, file);
}

static void put_number(FILE *file, int64_t number)
{
    fprintf(file, "I%" PRId64 "\n", number);
}

static void put_flag(FILE *file, bool flag)
{
    fprintf(file, "I0%d\n", flag);
}

static void put_named(FILE *file, const char *name, int64_t number)
{
    put_text(file, name);
    put_number(file, number);
}

/* Writes a time of an entry, None if it has not come yet. */
static void put_time(FILE *file, const char *name, int64_t nanoseconds)
{
    put_text(file, name);
    if (nanoseconds > 0)
        put_number(file, nanoseconds);
    else
        putc(NONE, file);
}

/* Writes the sizes of one array, [[numel]], and its type, ["Float"]. */
static void put_array(FILE *file, const char *sizes, const char *types, uint64_t numel, int type)
{
    static const char *const names[NUM_DTYPES] = {
        [FLOAT32] = "Float", [BFLOAT16] = "BFloat16", [FLOAT64] = "Double",
        [INT32] = "Int",     [INT64] = "Long",        [UINT8] = "Byte",
    };
    put_text(file, sizes);
    fputc(MARK, file);
    fputc(MARK, file);
    put_number(file, (int64_t)numel);
    fputc(LIST, file);
    fputc(LIST, file);
    put_text(file, types);
    fputc(MARK, file);
    put_text(file, names[type]);
    fputc(LIST, file);
}

/* Returns whether a rank made a call on that group; all ranks are in the one of all. */
static bool is_member(const Attempt *attempt, int rank, const char *group)
{
    const FlightRecord *record = attempt->flight[rank].record;
    bool found = group[0] == '\0';
    for (size_t slot = 0; record != NULL && !found && slot < FLIGHT_ENTRIES; slot++)
        found = record->entry[slot].number > 0 && strcmp(record->entry[slot].group, group) == 0;
    return found;
}

static int group_size(const Attempt *attempt, const char *group)
{
    int size = 0;
    for (int rank = 0; rank < attempt->world_size; rank++)
        size += is_member(attempt, rank, group);
    return size;
}

static const char *name_of(const char *group)
{
    return group[0] == '\0' ? "0" : group;
}

static const char *description_of(const char *group)
{
    return group[0] == '\0' ? "default_pg" : group;
}

/* Writes {"0": {"name": "0", "desc": "default_pg", "ranks": "[0, 1]"}, ...}. */
static void put_groups(FILE *file, const Attempt *attempt, const FlightRecord *record)
{
    char *ranks = mem_calloc((size_t)attempt->world_size, 8);
    fputc(MARK, file);
    for (int slot = -1; slot < FLIGHT_ENTRIES; slot++) { // -1: the group of all ranks
        const char *group = slot < 0 ? "" : record->entry[slot].group;
        bool is_new = slot < 0 || (record->entry[slot].number > 0 && group[0] != '\0');
        for (int before = 0; is_new && before < slot; before++)
            is_new = record->entry[before].number == 0 ||
                     strcmp(record->entry[before].group, group) != 0;
        if (!is_new)
            continue;
        char *end = ranks;
        for (int rank = 0; rank < attempt->world_size; rank++)
            if (is_member(attempt, rank, group))
                end += sprintf(end, "%s%d", end == ranks ? "[" : ", ", rank);
        strcpy(end, "]");
        put_text(file, name_of(group));
        fputc(MARK, file);
        put_text(file, "name");
        put_text(file, name_of(group));
        put_text(file, "desc");
        put_text(file, description_of(group));
        put_text(file, "ranks");
        put_text(file, ranks);
        fputc(DICTIONARY, file);
    }
    fputc(DICTIONARY, file);
    free(ranks);
}

/* Writes where an open call was made; for the others, looking it up would take too long. */
static void put_frames(FILE *file, const FlightRecord *record, const FlightEntry *entry)
{
    char line[SOURCE_LINE_BYTES];
    put_text(file, "frames");
    fputc(MARK, file);
    if (entry->completed_ns == 0) {
        fputc(MARK, file);
        put_text(file, "name");
        put_text(file, source_line(record, entry, line));
        put_text(file, "filename");
        put_text(file, record->program);
        put_named(file, "line", 0);
        fputc(DICTIONARY, file);
    }
    fputc(LIST, file);
}

static void put_entry(FILE *file, const Attempt *attempt, const FlightRecord *record,
                      const FlightEntry *entry)
{
    const CollectiveKind kind = (CollectiveKind)entry->kind;
    const uint64_t count = kind == BARRIER ? 0 : entry->count;
    const uint64_t all = count * (uint64_t)group_size(attempt, entry->group);
    const bool is_root = entry->root == record->rank;
    char name[64];
    int64_t since;
    const char *state = entry_state(entry, &since);
    snprintf(name, sizeof name, "nccl:%s", collective_name(kind));

    fputc(MARK, file);
    put_named(file, "record_id", (int64_t)entry->number - 1);
    put_named(file, "op_id", (int64_t)entry->number - 1);
    put_named(file, "pg_id", 0);
    put_named(file, "collective_seq_id", (int64_t)entry->sequence);
    put_named(file, "p2p_seq_id", 0);
    put_text(file, "process_group");
    fputc(MARK, file);
    put_text(file, name_of(entry->group));
    put_text(file, description_of(entry->group));
    fputc(TUPLE, file);
    put_text(file, "profiling_name");
    put_text(file, name);
    put_array(file, "input_sizes", "input_dtypes",
              kind == REDUCE_SCATTER || (kind == SCATTER && is_root) ? all : count, entry->type);
    put_array(file, "output_sizes", "output_dtypes",
              kind == ALL_GATHER || (kind == GATHER && is_root) ? all : count, entry->type);
    put_text(file, "state"); // theirs has no "failed"
    put_text(file, strcmp(state, "failed") == 0 ? "started" : state);
    put_named(file, "time_created_ns", entry->scheduled_ns);
    put_time(file, "time_discovered_started_ns", entry->started_ns);
    put_time(file, "time_discovered_completed_ns", entry->completed_ns);
    put_text(file, "retired");
    put_flag(file, entry->completed_ns > 0);
    put_text(file, "is_p2p");
    put_flag(file, false);
    put_frames(file, record, entry);
    fputc(DICTIONARY, file);
}

/* Writes the entries in the order of the calls. */
static void put_entries(FILE *file, const Attempt *attempt, const Flight *flight)
{
    const FlightRecord *record = flight->record;
    const uint64_t last = flight->last != NULL ? flight->last->number : 0;
    fputc(MARK, file);
    for (uint64_t i = FLIGHT_ENTRIES; i-- > 0;) {
        if (last <= i)
            continue;
        const FlightEntry *entry = &record->entry[(last - i - 1) % FLIGHT_ENTRIES];
        if (entry->number == last - i && !collective_is_point_to_point((CollectiveKind)entry->kind))
            put_entry(file, attempt, record, entry);
    }
    fputc(LIST, file);
}

int torch_form_write(const Attempt *attempt, const char *folder)
{
    int num_written = 0;
    folder_create(folder, "--torch");
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const Flight *flight = &attempt->flight[rank];
        char path[PATH_MAX];
        if (flight->record == NULL)
            continue;
        CHECK(snprintf(path, sizeof path, "%s/rank_%d", folder, rank) < PATH_MAX,
              "the path is too long: %s", folder);
        FILE *file = fopen(path, "wb");
        CHECK(file != NULL, "cannot write %s: %s", path, strerror(errno));
        fputc(MARK, file);
        put_text(file, "version");
        put_text(file, "2.10");
        put_text(file, "pg_config");
        put_groups(file, attempt, flight->record);
        put_text(file, "entries");
        put_entries(file, attempt, flight);
        fputc(DICTIONARY, file);
        fputc(STOP, file);
        CHECK(!ferror(file) && fclose(file) == 0, "cannot write %s: %s", path, strerror(errno));
        num_written++;
    }
    return num_written;
}
