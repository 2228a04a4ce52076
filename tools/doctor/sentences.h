/* sentences.h - the sentences of a diagnosis, and the functions that find them; private to
 * diagnosis*.c. */
#ifndef TOOLS_DOCTOR_SENTENCES_H
#define TOOLS_DOCTOR_SENTENCES_H

#include "tools/doctor/attempt.h"

/* The sentences so far. */
typedef struct {
    const Attempt *attempt;
    int64_t now;
    char *text;
    size_t bytes; // length of text
} Sentences;

void put(Sentences *sentences, const char *format, ...) __attribute__((format(printf, 2, 3)));
double seconds_since(const Sentences *sentences, int64_t time);

/* Each adds a sentence about what it finds, and returns true if it found something. */
bool find_mismatch(Sentences *sentences); // ranks that make different calls
bool find_waiting(Sentences *sentences); // ranks that wait, and for which

#endif
