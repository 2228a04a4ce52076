/* Flight records of two ranks (header, calls, header, calls; then of each its header's end, for
 * which a part is too short), and the diagnosis of the run. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/memory.h"
#include "tests/fuzz/targets.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/torch_form.h"

enum { NUM_RANKS = 2 };

static void copy(void *to, size_t bytes, Input from)
{
    memcpy(to, from.data, from.size < bytes ? from.size : bytes);
}

/* Writes a record of the input; its size is correct, so that the fuzzer need not guess it. */
static void write_record(const char *path, Input header, Input calls, Input end)
{
    FlightRecord *record = mem_calloc(1, sizeof *record);
    const size_t from = offsetof(FlightRecord, disk_since_ns);
    copy(record, from, header);
    copy((char *)record + from, offsetof(FlightRecord, entry) - from, end);
    copy(record->entry, sizeof record->entry, calls);
    if (record->bytes == 0)
        record->bytes = sizeof *record;
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(record, sizeof *record - header.stays, 1, file) == 1);
    EXPECT(fclose(file) == 0);
    free(record);
}

/* Writes the records for PyTorch's analyser: a dictionary for each rank that has one. */
static void write_for_torch(const Attempt *attempt)
{
    char path[128];
    EXPECT(torch_form_write(attempt, world_folder()) >= 1);
    for (int rank = 0; rank < NUM_RANKS && rank < attempt->world_size; rank++) {
        snprintf(path, sizeof path, "%s/rank_%d", world_folder(), rank);
        EXPECT((unlink(path) == 0) == (attempt->flight[rank].record != NULL));
    }
}

void fuzz_flight(Input input)
{
    char path[NUM_RANKS][128], text[DIAGNOSIS_BYTES];
    Input header[NUM_RANKS], calls[NUM_RANKS];
    for (int rank = 0; rank < NUM_RANKS; rank++) {
        header[rank] = input_part(&input);
        calls[rank] = input_part(&input);
    }
    for (int rank = 0; rank < NUM_RANKS; rank++) {
        snprintf(path[rank], sizeof *path, "%s/" FLIGHT_FILE, world_folder(), rank);
        write_record(path[rank], header[rank], calls[rank], input_part(&input));
    }
    Attempt attempt;
    if (attempt_load(&attempt, world_folder())) {
        world_passed();
        WaitTimes times;
        wait_times(&times, &attempt);
        diagnose(&attempt, &times, 1000, text);
        for (int rank = 0; rank < attempt.world_size; rank++) {
            const FlightRecord *record = attempt.flight[rank].record;
            EXPECT(record == NULL || record->step <= record->steps);
            EXPECT(record == NULL || record->step == 0 || record->steps_per_epoch > 0);
        }
        EXPECT(strlen(text) > 0 && strlen(text) < sizeof text);
        free(times.rank);
        write_for_torch(&attempt);
    }
    attempt_free(&attempt);
    for (int rank = 0; rank < NUM_RANKS; rank++)
        unlink(path[rank]);
}
