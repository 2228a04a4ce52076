/*
 * ddp_doctor - why does it hang, why is it slow? Reads every rank's record of its calls.
 *
 *     tools/ddp_doctor checkpoints
 *     tools/ddp_doctor --torch OUT checkpoints
 *
 * Names and states are those of PyTorch's Flight Recorder. It may run while the ranks work, and
 * after they have died; it changes nothing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "05_fault_tolerance/checks/flight_recorder.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "tools/doctor/diagnosis.h"
#include "tools/doctor/flight_reader.h"
#include "tools/doctor/source_line.h"
#include "tools/doctor/torch_form.h"

static const char help[] =
    "usage: tools/ddp_doctor [--torch OUT] [DIR]\n"
    "Says which ranks of a step-05 run wait, in which call and for whom; which one is missing, is\n"
    "slow, makes another call, or waits for a slow disk. The run may hang, be dead or go on. DIR\n"
    "is its --checkpoint-dir (checkpoints); every rank keeps a record of its last 512 collectives\n"
    "in DIR/flight, which remains after SIGKILL.\n"
    "\n"
    "  RANK        in the job\n"
    "  PID         its process, on this machine or the one named\n"
    "  PROCESS     running, stopped, gone (ended too soon), finished, elsewhere (another machine)\n"
    "  COLLECTIVE  the call that is open, else the latest: #SEQUENCE of COUNT TYPE\n"
    "  STATE       scheduled: its turn has not come; started; completed; failed: the rank gave up\n"
    "  SINCE       how long ago that was\n"
    "  WAITS       share of its time spent waiting for others, in the calls recorded; the rank\n"
    "              that the others wait for has the lowest\n"
    "  CALLED AT   the line of the step's program, and in brackets the line of common/ below it;\n"
    "              PROGRAM+OFFSET if addr2line cannot tell, or the program was rebuilt\n"
    "\n"
    "  --torch OUT  only writes the records as PyTorch's Flight Recorder would have: OUT/rank_0,\n"
    "               ..., for \"torchfrtrace OUT\"; hosts, errors, send and recv have no place "
    "there\n"
    "\n"
    "Exit status: 0 nothing is wrong, 1 something is or there are no records, 2 usage.\n";

/* Formats a duration: "12.3 s", "5 min", "3 h". */
static const char *duration(int64_t nanoseconds, char text[32])
{
    const double seconds = nanoseconds > 0 ? 1e-9 * (double)nanoseconds : 0;
    if (seconds < 100)
        snprintf(text, 32, "%.1f s", seconds);
    else if (seconds < 6000)
        snprintf(text, 32, "%.0f min", seconds / 60);
    else
        snprintf(text, 32, "%.0f h", seconds / 3600);
    return text;
}

/* Returns the call of a rank that is open, else its latest, or NULL. */
static const FlightEntry *call_of(const Flight *flight)
{
    return flight->open != NULL ? flight->open : flight->last;
}

static void print_rank(const Attempt *attempt, const WaitTimes *times, int rank, int64_t now,
                       int width)
{
    const Flight *flight = &attempt->flight[rank];
    char pid[16] = "-", waits[16] = "-", since_text[32];
    if (flight->record != NULL)
        snprintf(pid, sizeof pid, "%d", flight->record->pid);
    if (times->rank != NULL && flight->record != NULL)
        snprintf(waits, sizeof waits, "%.0f %%", 100 * times->rank[rank].waits);
    printf("%4d  %7s  %-9s  ", rank, pid, process_name(flight->process));

    const FlightEntry *entry = call_of(flight);
    if (entry == NULL) {
        const int64_t since = flight->record != NULL ? flight->record->created_ns : now;
        printf("%-*s  %-9s  %7s\n", width, "-", flight->record == NULL ? "-" : "joining",
               flight->record == NULL ? "-" : duration(now - since, since_text));
        return;
    }
    char call[DESCRIPTION_BYTES], line[SOURCE_LINE_BYTES];
    int64_t since;
    const char *state = entry_state(entry, &since);
    printf("%-*s  %-9s  %7s  %5s  %s\n", width, flight_entry_describe(entry, call), state,
           duration(now - since, since_text), waits, source_line(flight->record, entry, line));
}

static void print_table(const Attempt *attempt, const WaitTimes *times, int64_t now)
{
    char call[DESCRIPTION_BYTES];
    size_t width = strlen("COLLECTIVE");
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightEntry *entry = call_of(&attempt->flight[rank]);
        const size_t length = entry != NULL ? strlen(flight_entry_describe(entry, call)) : 0;
        width = length > width ? length : width;
    }
    printf("RANK      PID  PROCESS    %-*s  STATE        SINCE  WAITS  CALLED AT\n", (int)width,
           "COLLECTIVE");
    for (int rank = 0; rank < attempt->world_size; rank++)
        print_rank(attempt, times, rank, now, (int)width);
}

/* Prints the last messages of ranks that gave up; killed ranks left none. */
static void print_errors(const Attempt *attempt)
{
    const char *before = "\n";
    for (int rank = 0; rank < attempt->world_size; rank++) {
        const FlightRecord *record = attempt->flight[rank].record;
        if (record == NULL || record->error[0] == '\0')
            continue;
        printf("%sRank %d gave up: %s\n", before, rank, record->error);
        before = "";
    }
}

int main(int argc, char **argv)
{
    const char *torch_folder = NULL;
    if (argc > 2 && strcmp(argv[1], "--torch") == 0) {
        torch_folder = argv[2];
        argv[2] = argv[0];
        argv += 2;
        argc -= 2;
    }
    words_check(argc, argv, 1, help);
    const char *dir = argc > 1 ? argv[1] : "checkpoints";

    Attempt attempt;
    if (!attempt_load(&attempt, dir))
        die("no flight record in %s%s%s: name the --checkpoint-dir of a run of step 05",
            attempt.folder, attempt.refused != NULL ? "; " : "",
            attempt.refused != NULL ? attempt.refused : "");
    if (torch_folder != NULL) {
        printf("%s: %d of %d ranks\n", torch_folder, torch_form_write(&attempt, torch_folder),
               attempt.world_size);
        attempt_free(&attempt);
        streams_exit();
    }
    WaitTimes times;
    wait_times(&times, &attempt);
    const int64_t now = flight_now();
    char verdict[DIAGNOSIS_BYTES];
    const bool well = diagnose(&attempt, &times, now, verdict);

    print_table(&attempt, &times, now);
    print_errors(&attempt);
    printf("\nAttempt %d, %d ranks: %s\n", attempt.restart_count, attempt.world_size, verdict);
    if (attempt.refused != NULL)
        log_warning("left out: %s", attempt.refused);
    free(times.rank);
    attempt_free(&attempt);
    if (well)
        streams_exit();
    CHECK(fflush(stdout) == 0 && !ferror(stdout), CANNOT_PRINT, strerror(errno));
    return EXIT_FAILURE;
}
