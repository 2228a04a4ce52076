/* verdict.h - the sentences of a diagnosis, and who finds them; private to diagnosis*.c. */
#ifndef TOOLS_DOCTOR_VERDICT_H
#define TOOLS_DOCTOR_VERDICT_H

#include "tools/doctor/diagnosis.h"

/* The sentences so far. */
typedef struct {
    const Attempt *attempt;
    int64_t now;
    char *text; // DIAGNOSIS_BYTES
} Verdict;

void say(Verdict *verdict, const char *format, ...) __attribute__((format(printf, 2, 3)));
double seconds_since(const Verdict *verdict, int64_t time);

/* Each says what it finds, if anything, and whether it did. */
bool find_mismatch(Verdict *verdict); // ranks that call something else
bool find_waiting(Verdict *verdict); // ranks that wait, and for whom

#endif
