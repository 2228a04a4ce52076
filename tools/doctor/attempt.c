/*
 * Which records belong together? Those of one attempt have the same number. While the newest rank
 * is still joining, its attempt has no number yet; then all records of joining ranks belong
 * together.
 */
#include "tools/doctor/attempt.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/process_identity.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "tools/doctor/flight_reader.h"

const char *process_name(ProcessState state)
{
    static const char *const names[] = {
        [PROCESS_NO_RECORD] = "no record", [PROCESS_ELSEWHERE] = "elsewhere",
        [PROCESS_RUNNING] = "running",     [PROCESS_STOPPED] = "stopped",
        [PROCESS_GONE] = "gone",           [PROCESS_FINISHED] = "finished",
    };
    return names[state];
}

static void refuse(Attempt *attempt, const char *name, const char *reason)
{
    if (attempt->refused == NULL && asprintf(&attempt->refused, "%s: %s", name, reason) < 0)
        die("out of memory");
}

/* Reads all records in the folder, by rank. */
static void read_folder(Attempt *attempt, DIR *folder, FlightRecord *found[MAX_FLIGHT_RANKS])
{
    const struct dirent *file;
    while ((file = readdir(folder)) != NULL) {
        int rank = -1;
        char name[64], path[PATH_MAX + 64], reason[128] = "";
        if (sscanf(file->d_name, FLIGHT_FILE, &rank) != 1 || rank < 0 || rank >= MAX_FLIGHT_RANKS)
            continue;
        snprintf(name, sizeof name, FLIGHT_FILE, rank);
        if (strcmp(name, file->d_name) != 0) // excludes "rank01.flight"
            continue;
        snprintf(path, sizeof path, "%s/%s", attempt->folder, name);
        found[rank] = flight_record_read(path, reason, sizeof reason);
        if (found[rank] != NULL && found[rank]->rank != rank) {
            free(found[rank]);
            found[rank] = NULL;
            snprintf(reason, sizeof reason, "it is another rank's");
        }
        if (found[rank] == NULL)
            refuse(attempt, name, reason);
    }
}

static ProcessState process_state(const FlightRecord *record)
{
    char host[sizeof record->host] = "", state = '?';
    gethostname(host, sizeof host - 1);
    if (record->state == FLIGHT_FINISHED)
        return PROCESS_FINISHED;
    if (strcmp(host, record->host) != 0)
        return PROCESS_ELSEWHERE;
    const uint64_t ticks = process_start_ticks(record->pid, &state);
    if (ticks == 0 || ticks != record->pid_ticks || strchr("ZXx", state) != NULL)
        return PROCESS_GONE;
    return strchr("Tt", state) != NULL ? PROCESS_STOPPED : PROCESS_RUNNING;
}

static void flight_init(Flight *flight, FlightRecord *record)
{
    *flight = (Flight){ .record = record, .process = process_state(record) };
    for (const FlightEntry *entry = record->entry; entry < record->entry + FLIGHT_ENTRIES;
         entry++) {
        if (entry->number == 0)
            continue;
        if (flight->last == NULL || entry->number > flight->last->number)
            flight->last = entry;
        if (entry->completed_ns == 0 &&
            (flight->open == NULL || entry->number < flight->open->number))
            flight->open = entry;
    }
}

static int compare_parts(const void *a, const void *b)
{
    const Part *x = a, *y = b;
    const int groups = strcmp(x->entry->group, y->entry->group);
    if (groups != 0)
        return groups;
    if (x->entry->sequence != y->entry->sequence)
        return x->entry->sequence < y->entry->sequence ? -1 : 1;
    return x->rank - y->rank;
}

static void sort_parts(Attempt *attempt)
{
    size_t num_records = 0;
    for (int rank = 0; rank < attempt->world_size; rank++)
        num_records += attempt->flight[rank].record != NULL;
    attempt->part = mem_calloc(num_records * FLIGHT_ENTRIES, sizeof(Part));
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightRecord *record = attempt->flight[rank].record;
        for (int i = 0; record != NULL && i < FLIGHT_ENTRIES; i++) {
            const FlightEntry *entry = &record->entry[i];
            if (entry->number > 0 && !collective_is_point_to_point(entry->kind))
                attempt->part[attempt->num_parts++] = (Part){ entry, rank };
        }
    }
    qsort(attempt->part, attempt->num_parts, sizeof(Part), compare_parts);
}

const Part *attempt_next(const Attempt *attempt, const Part *part)
{
    const FlightEntry *first = part->entry;
    const Part *end = attempt->part + attempt->num_parts;
    while (part < end && part->entry->sequence == first->sequence &&
           strcmp(part->entry->group, first->group) == 0)
        part++;
    return part;
}

static bool is_of_attempt(const FlightRecord *record, const FlightRecord *newest)
{
    return record != NULL && record->attempt == newest->attempt &&
           record->restart_count == newest->restart_count &&
           record->world_size == newest->world_size && record->rank < newest->world_size;
}

bool attempt_load(Attempt *attempt, const char *dir)
{
    *attempt = (Attempt){ 0 };
    snprintf(attempt->folder, sizeof attempt->folder, "%s/" FLIGHT_FOLDER, dir);
    DIR *folder = opendir(attempt->folder);
    if (folder == NULL) {
        snprintf(attempt->folder, sizeof attempt->folder, "%s", dir);
        folder = opendir(attempt->folder);
    }
    if (folder == NULL) {
        refuse(attempt, dir, strerror(errno));
        return false;
    }
    FlightRecord *found[MAX_FLIGHT_RANKS] = { NULL }, *newest = NULL;
    read_folder(attempt, folder, found);
    closedir(folder);
    for (int i = 0; i < MAX_FLIGHT_RANKS; i++)
        if (found[i] != NULL && (newest == NULL || found[i]->created_ns > newest->created_ns))
            newest = found[i];
    if (newest == NULL)
        return false;

    attempt->world_size = newest->world_size;
    attempt->restart_count = newest->restart_count;
    attempt->joining = newest->attempt == 0;
    attempt->flight = mem_calloc((size_t)newest->world_size, sizeof(Flight));
    const FlightRecord model = *newest;
    for (int i = 0; i < MAX_FLIGHT_RANKS; i++)
        if (is_of_attempt(found[i], &model))
            flight_init(&attempt->flight[i], found[i]);
        else
            free(found[i]);
    sort_parts(attempt);
    return true;
}

void attempt_free(Attempt *attempt)
{
    for (int rank = 0; rank < attempt->world_size; rank++)
        free(attempt->flight[rank].record);
    free(attempt->flight);
    free(attempt->part);
    free(attempt->refused);
}

const char *entry_state(const FlightEntry *entry, int64_t *since_ns)
{
    static const char *const names[] = { "scheduled", "started", "completed", "failed" };
    const int64_t times[] = { entry->scheduled_ns, entry->started_ns, entry->completed_ns,
                              entry->failed_ns };
    int state = entry->completed_ns > 0 ? 2 : entry->failed_ns > 0 ? 3 : entry->started_ns > 0;
    *since_ns = times[state];
    return names[state];
}
