/* Suggests the name with the smallest Levenshtein distance (1965) to what was typed. */
#include "common/base/names.h"

#include <string.h>

enum { NAME_BYTES = 64 }; // longer than any name

/* Levenshtein distance, keeping one row of the table. If what was typed begins the name, the
 * distance is 0. */
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

const char *name_nearest(const char *typed, size_t length, const char *const names[])
{
    const char *nearest = NULL;
    const size_t compared = length < NAME_BYTES ? length : NAME_BYTES;
    size_t least = length / 2 + 1;
    for (; *names != NULL; names++) {
        const size_t distance = edit_distance(*names, typed, compared);
        if (distance < least) {
            least = distance;
            nearest = *names;
        }
    }
    return nearest;
}
