/* A line's rate in the notation of tc: bits per second. */
#include <stdlib.h>
#include <string.h>

#include "common/base/options.h"

#define LEAST_RATE 1e5
#define MOST_RATE 1e12

double parse_rate(const char *text)
{
    static const char *const units[] = { "kbit", "mbit", "gbit" };
    static const double bits[] = { 1e3, 1e6, 1e9 };
    char *unit;
    const double number = strtod(text, &unit);
    const bool plain = unit != text && strspn(text, "0123456789.") == (size_t)(unit - text);
    double rate = 0;
    for (int i = 0; plain && i < 3; i++)
        if (strcasecmp(unit, units[i]) == 0)
            rate = number * bits[i];
    return rate >= LEAST_RATE && rate <= MOST_RATE ? rate : 0;
}
