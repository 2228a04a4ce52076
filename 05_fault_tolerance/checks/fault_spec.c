/* Parses "slow:1:20:50@1" into a Fault. */
#include "05_fault_tolerance/checks/fault_spec.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/args.h"
#include "common/base/log.h"

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

/* Reads this mark and a number and moves past them; returns false if it cannot. */
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

void faults_check(const Args *args)
{
    const char *text = args->inject;
    int count = 0;
    for (const char *rest = text; rest != NULL && (count == 0 || *rest != '\0'); count++) {
        Fault fault;
        rest = fault_parse(&fault, rest + (count > 0));
        if (rest == NULL || count == MAX_FAULTS)
            usage_error(
                "%s must be up to %d of KIND:RANK:STEP, KIND one of kill, stop, slow, exit, "
                "corrupt-grad, bitflip; as in kill:1:20,slow:0:5:50 (ms); not \"%.80s\"",
                args_origin(args, "inject"), MAX_FAULTS, text);
    }
}
