/* Suggests the name with the smallest Levenshtein distance (1965) to what was typed. */
#include <stdio.h>
#include <string.h>

#include "extras/comfort/parts.h"

enum { NAME_BYTES = 64 }; // longer than any name

/* Computes the Levenshtein distance, keeping one row of the table. It is 0 if what was typed begins
 * the name. */
static size_t edit_distance(const char *name, const char *typed, size_t length)
{
    size_t row[NAME_BYTES]; // row[j]: from the letters typed so far to the first j of the name
    const size_t n = strnlen(name, NAME_BYTES - 1);
    if (length > 0 && name_begins(name, typed, length))
        return 0;
    for (size_t j = 0; j <= n; j++)
        row[j] = j;
    for (size_t i = 0; i < length; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            const size_t replaced = diagonal + !name_begins(&name[j - 1], &typed[i], 1);
            const size_t inserted = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            diagonal = row[j];
            row[j] = replaced < inserted ? replaced : inserted;
        }
    }
    return row[n];
}

const char *comfort_nearest(const Option *options, int step, const char *typed, size_t length)
{
    const char *nearest = NULL;
    const size_t compared = length < NAME_BYTES ? length : NAME_BYTES;
    size_t least = length / 2 + 1; // names at a larger distance were not meant
    for (const Option *option = options; option->name != NULL; option++) {
        const bool is_listed = option_is_listed(option, (Step)step);
        const size_t distance = is_listed ? edit_distance(option->name, typed, compared) : least;
        if (distance < least) {
            least = distance;
            nearest = option->name;
        }
    }
    return nearest;
}

const char *comfort_guess(const Option *options, int step, const char *typed, size_t length)
{
    static char text[96];
    const char *nearest = comfort_nearest(options, step, typed, length);
    if (nearest == NULL)
        return "";
    snprintf(text, sizeof text, " did you mean --%s?", nearest);
    return text;
}
