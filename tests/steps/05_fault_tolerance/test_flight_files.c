/* Synthetic and damaged flight records, and the verdicts on them. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "common/base/log.h"
#include "common/comm/backend.h"
#include "tests/helpers/unit.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/flight_reader.h"
#include "tools/doctor/source_line.h"

#define SECOND INT64_C(1000000000)

static char dir[] = "/tmp/test_flight_files.XXXXXX";
static pid_t gone; // a process that has ended

static const char *path_of(int rank)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/" FLIGHT_FILE, dir, rank);
    return path;
}

/* Returns the record of one of three ranks, whose process has ended. */
static FlightRecord model(int rank)
{
    FlightRecord record = { .magic = FLIGHT_MAGIC,
                            .bytes = sizeof record,
                            .rank = rank,
                            .world_size = 3,
                            .pid = gone,
                            .state = FLIGHT_RUNNING,
                            .pid_ticks = 1,
                            .created_ns = SECOND,
                            .attempt = 7 };
    gethostname(record.host, sizeof record.host - 1);
    return record;
}

/* Records an all-reduce; times are in seconds (0 if not yet). */
static void call(FlightRecord *record, int op_id, int sequence, int scheduled, int completed,
                 int failed)
{
    record->entry[op_id % FLIGHT_ENTRIES] = (FlightEntry){ .number = (uint64_t)op_id + 1,
                                                           .sequence = (uint64_t)sequence,
                                                           .count = 10,
                                                           .scheduled_ns = scheduled * SECOND,
                                                           .started_ns = scheduled * SECOND,
                                                           .completed_ns = completed * SECOND,
                                                           .failed_ns = failed * SECOND };
}

static void save(const void *bytes, size_t size, int rank)
{
    FILE *file = fopen(path_of(rank), "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, size, file), size);
    fclose(file);
}

static void save_record(const FlightRecord *record)
{
    save(record, sizeof *record, record->rank);
}

static void clear(void)
{
    for (int rank = 0; rank < 4; rank++)
        unlink(path_of(rank));
}

static void expect_verdict(const char *text)
{
    char verdict[DIAGNOSIS_BYTES];
    Attempt attempt;
    WaitTimes times;
    assert_true(attempt_load(&attempt, dir));
    wait_times(&times, &attempt);
    diagnose(&attempt, &times, 100 * SECOND, verdict);
    free(times.rank);
    attempt_free(&attempt);
    if (strstr(verdict, text) == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, verdict);
}

/* The rank was killed when the call was over for it, but not for the others. */
static void test_killed_behind_the_call(void **state)
{
    (void)state;
    clear();
    for (int rank = 0; rank < 3; rank++) {
        FlightRecord record = model(rank);
        call(&record, 0, 0, 10, rank == 1 ? 11 : 0, rank == 1 ? 0 : 12);
        save_record(&record);
    }
    expect_verdict(
        "all_reduce #0 of 10 float32 (sum) at ?+0, ranks 0 and 2 wait for rank 1. Rank 1 ");
    expect_verdict(
        "is gone; its last call, all_reduce #0 of 10 float32 (sum) at ?+0, completed 89.0");
}

/* The rank was killed in the call, and the others have detected it. */
static void test_killed_in_the_call(void **state)
{
    (void)state;
    clear();
    for (int rank = 0; rank < 3; rank++) {
        FlightRecord record = model(rank);
        call(&record, 0, 0, 10, 0, rank == 2 ? 0 : 12);
        save_record(&record);
    }
    expect_verdict("ranks 0 and 1 wait for rank 2. Rank 2 ");
}

static void test_another_machine(void **state)
{
    (void)state;
    clear();
    for (int rank = 0; rank < 3; rank++) {
        FlightRecord record = model(rank);
        snprintf(record.host, sizeof record.host, "far\033away");
        call(&record, 0, 0, 10, rank == 1 ? 11 : 0, 0);
        if (rank != 1)
            call(&record, 0, 0, 10, 11, 0);
        if (rank != 1)
            call(&record, 1, 1, 12, 0, 0);
        save_record(&record);
    }
    expect_verdict("ranks 0 and 2 wait for rank 1. Rank 1 (process ");
    expect_verdict(" on far?away) is elsewhere: run this on its machine, too");
}

static void test_nobody_waits(void **state)
{
    (void)state;
    clear();
    for (int rank = 0; rank < 3; rank++) {
        FlightRecord record = model(rank);
        call(&record, 0, 0, 10, 11, 0);
        save_record(&record);
    }
    expect_verdict("Without a last word, ranks 0 to 2 ended too soon: killed (SIGKILL)");
    FlightRecord record = model(1);
    strcpy(record.error, "cannot write");
    save_record(&record);
    expect_verdict("Between two calls, ranks 0 to 2 ended too soon: the last lines");
    record.attempt = 0; // it never joined because of an invalid command line
    record.created_ns++;
    record.rank = record.world_size = 1;
    save(&record, sizeof record, record.rank = 0);
    expect_verdict("Before the first call, rank 0 ended too soon: the last lines");
}

/* Ranks of an earlier attempt with a larger world are ignored. */
static void test_attempts_are_kept_apart(void **state)
{
    (void)state;
    clear();
    for (int rank = 0; rank < 3; rank++) {
        FlightRecord record = model(rank);
        if (rank < 2) {
            record.attempt = 8;
            record.world_size = 2;
            record.restart_count = 1;
            record.created_ns = 2 * SECOND;
            record.state = FLIGHT_FINISHED;
        }
        save_record(&record);
    }
    expect_verdict("All ranks have finished.");
    FlightRecord record = model(1);
    save_record(&record);
    expect_verdict("Missing: rank 1: no record of this attempt in ");
}

static void expect_refused(const char *text)
{
    char reason[128] = "";
    FlightRecord *record = flight_record_read(path_of(0), reason, sizeof reason);
    assert_null(record);
    assert_non_null(strstr(reason, text));
}

static void test_damaged_files(void **state)
{
    (void)state;
    clear();
    expect_refused("No such file");
    FlightRecord record = model(0);
    for (size_t size = 0; size < sizeof record; size += size < 40 ? 1 : 8191) {
        save(&record, size, 0);
        expect_refused("no flight record of this version");
    }
    const struct {
        void *field;
        size_t size;
        const char *reason;
    } fields[] = {
        { record.magic, 8, "version" },       { &record.bytes, 4, "version" },
        { &record.rank, 4, "damaged" },       { &record.world_size, 4, "damaged" },
        { &record.pid, 4, "damaged" },        { &record.state, 4, "damaged" },
        { &record.created_ns, 8, "damaged" }, { &record.attempt, 8, "damaged" },
    };
    for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
        record = model(0);
        memset(fields[i].field, 0xff, fields[i].size);
        save(&record, sizeof record, 0);
        expect_refused(fields[i].reason);
    }
    unlink(path_of(0));
    assert_int_equal(mkfifo(path_of(0), 0600), 0); // without a writer
    expect_refused("it is no file");
}

/* Invalid entries are left out one by one, and the others stay. */
static void test_damaged_entries(void **state)
{
    (void)state;
    clear();
    FlightRecord record = model(0);
    for (int i = 0; i < 9; i++)
        call(&record, i, i, 10, 11, 0);
    record.entry[1].kind = -1;
    record.entry[2].type = NUM_DTYPES;
    record.entry[3].op = 4;
    record.entry[4].root = 3;
    record.entry[5].number++; // another slot's
    record.entry[6].completed_ns = -1;
    memset(record.entry[7].group, 'x', GROUP_NAME_BYTES); // without an end
    memset(record.program, '/', sizeof record.program);
    save_record(&record);
    char reason[128];
    FlightRecord *got = flight_record_read(path_of(0), reason, sizeof reason);
    assert_non_null(got);
    for (int i = 0; i < 9; i++)
        assert_int_equal(got->entry[i].number, i < 1 || i > 6 ? i + 1 : 0);
    assert_int_equal(strlen(got->entry[7].group), GROUP_NAME_BYTES - 1);
    assert_int_equal(strlen(got->program), sizeof got->program - 1);
    free(got);
}

/* Progress that cannot be is left out, and the rest of the record stays. */
static void test_damaged_progress(void **state)
{
    (void)state;
    const struct {
        uint64_t step, steps, steps_per_epoch, got;
    } cases[] = {
        { 3, 40, 20, 3 },
        { 40, 40, 50, 40 },
        { 3, 40, 0, 0 },
        { 41, 40, 20, 0 },
        { 0, 40, 20, 0 },
        { UINT64_MAX, UINT64_MAX, 1, 0 },
        { 1, FLIGHT_MAX_STEPS, UINT64_MAX, 1 },
        { 1, FLIGHT_MAX_STEPS + 1, 1, 0 },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        FlightRecord record = model(0);
        record.step = cases[i].step;
        record.steps = cases[i].steps;
        record.steps_per_epoch = cases[i].steps_per_epoch;
        save_record(&record);
        char reason[128];
        FlightRecord *got = flight_record_read(path_of(0), reason, sizeof reason);
        assert_non_null(got);
        assert_int_equal(got->step, cases[i].got);
        assert_true((got->step == 0) == (got->steps_per_epoch == 0));
        free(got);
    }
}

/* Files of another rank and files that are not records are named; the rest are read. */
static void test_left_out(void **state)
{
    (void)state;
    clear();
    FlightRecord record = model(1);
    save_record(&record);
    save(&record, sizeof record, 2);
    Attempt attempt;
    assert_true(attempt_load(&attempt, dir));
    assert_string_equal(attempt.refused, "rank2.flight: it is another rank's");
    assert_int_equal(attempt.world_size, 3);
    assert_null(attempt.flight[2].record);
    attempt_free(&attempt);
    clear();
    assert_false(attempt_load(&attempt, dir));
    attempt_free(&attempt);
    assert_false(attempt_load(&attempt, "/nowhere"));
    assert_string_equal(attempt.refused, "/nowhere: No such file or directory");
    attempt_free(&attempt);
}

/* A rank that cannot write its record reports that and continues. */
static void test_no_place_for_a_record(void **state)
{
    (void)state;
    Args args;
    args_defaults(&args, "linear");
    args.checkpoint_dir = "/proc/nowhere";
    FlightRecorder recorder;
    FILE *said = tmpfile();
    const int before = dup(STDERR_FILENO);
    dup2(fileno(said), STDERR_FILENO);
    flight_recorder_init(&recorder, &args, 0, 1);
    dup2(before, STDERR_FILENO);
    close(before);
    char line[512] = "";
    rewind(said);
    assert_non_null(fgets(line, sizeof line, said));
    fclose(said);
    assert_non_null(strstr(line, "warning: /proc/nowhere/flight/rank0.flight: "));
    assert_non_null(strstr(line, ": this rank goes without a flight record\n"));
    assert_null(recorder.record);
    flight_recorder_free(&recorder);
}

int main(void)
{
    SYS_CHECK(mkdtemp(dir) == NULL ? -1 : 0);
    gone = fork();
    if (gone == 0)
        _exit(0);
    waitpid(gone, NULL, 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_killed_behind_the_call),
        cmocka_unit_test(test_killed_in_the_call),
        cmocka_unit_test(test_another_machine),
        cmocka_unit_test(test_nobody_waits),
        cmocka_unit_test(test_attempts_are_kept_apart),
        cmocka_unit_test(test_damaged_files),
        cmocka_unit_test(test_damaged_entries),
        cmocka_unit_test(test_damaged_progress),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_no_place_for_a_record),
    };
    const int failed = cmocka_run_group_tests(tests, NULL, NULL);
    clear();
    rmdir(dir);
    return failed;
}
