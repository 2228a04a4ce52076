/* Appends to the sentences of a diagnosis. */
#include "tools/doctor/sentences.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void put(Sentences *sentences, const char *format, ...)
{
    const size_t length = strlen(sentences->text);
    va_list args;
    va_start(args, format);
    vsnprintf(sentences->text + length, sentences->bytes - length, format, args);
    va_end(args);
}

double seconds_since(const Sentences *sentences, int64_t time)
{
    return sentences->now > time ? 1e-9 * (double)(sentences->now - time) : 0;
}
