/* From "slow:1:20:50@1" to a Fault. */
#include "05_fault_tolerance/fault_spec.h"

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/options.h"

#define SLOW_MILLISECONDS 100
#define MAX_NUMBER 1000000000

static const char *const names[] = {
    [FAULT_KILL] = "kill",
    [FAULT_STOP] = "stop",
    [FAULT_SLOW] = "slow",
    [FAULT_EXIT] = "exit",
    [FAULT_CORRUPT_GRAD] = "corrupt-grad",
    [FAULT_BITFLIP] = "bitflip",
};

/* If text begins with this mark and a number, moves past them. */
static bool take_number(const char **text, char mark, long *number)
{
    char *end = NULL;
    if ((*text)[0] != mark || (*text)[1] < '0' || (*text)[1] > '9')
        return false;
    *number = strtol(*text + 1, &end, 10);
    *text = end;
    return *number <= MAX_NUMBER;
}

const char *fault_parse(Fault *fault, const char *text)
{
    const size_t length = strcspn(text, ":,@");
    int kind = 0;
    while (kind <= FAULT_BITFLIP &&
           (strlen(names[kind]) != length || strncmp(names[kind], text, length) != 0))
        kind++;
    if (kind > FAULT_BITFLIP)
        return NULL;

    long rank = 0, step = 0, milliseconds = SLOW_MILLISECONDS, attempt = 0;
    text += length;
    if (!take_number(&text, ':', &rank) || !take_number(&text, ':', &step) || step < 1)
        return NULL;
    if (kind == FAULT_SLOW && text[0] == ':' && !take_number(&text, ':', &milliseconds))
        return NULL;
    if (text[0] == '@' && !take_number(&text, '@', &attempt))
        return NULL;
    if (text[0] != ',' && text[0] != '\0')
        return NULL;
    *fault = (Fault){ (FaultKind)kind, (int)rank, (uint64_t)step, (int)milliseconds, (int)attempt };
    return text;
}

/* Usage error unless the text is a comma-separated list of faults; `origin` says where it was
 * given:
 * "--inject". */
static void check_faults(const char *text, const char *origin)
{
    int count = 0;
    for (const char *rest = text; count == 0 || *rest != '\0'; count++) {
        Fault fault;
        rest = fault_parse(&fault, rest + (count > 0));
        if (rest == NULL || count == MAX_FAULTS)
            usage_error(
                "%s must be up to %d of KIND:RANK:STEP, KIND one of kill, stop, slow, exit, "
                "corrupt-grad, bitflip; as in kill:1:20,slow:0:5:50 (ms); not \"%.80s\"",
                origin, MAX_FAULTS, text);
    }
}

const OptionGroup fault_options = {
    .heading = "Snapshots, checks and faults",
    .rows =
        (const Option[]){
            { "save-every-steps", "N", "0", STEP_FAULT, OPTION_INT,
              offsetof(Args, save_every_steps), .help = "steps between snapshots; 0: none",
              .high = INT_MAX },
            { "keep", "N", "3", STEP_FAULT, OPTION_INT, offsetof(Args, keep),
              .help = "how many of the newest snapshots to keep", .low = 1, .high = INT_MAX },
            { "check-sync", "N", "0", STEP_FAULT, OPTION_INT, offsetof(Args, check_sync),
              .help = "steps between comparisons of all replicas; 0: none", .high = INT_MAX },
            { "inject", "SPEC", "none", STEP_FAULT, OPTION_OPTIONAL, offsetof(Args, inject),
              .help = "kill|stop|exit|slow|corrupt-grad|bitflip:RANK:STEP,...",
              .check = check_faults },
            { 0 },
        },
};
