/* One row of the table of distances between all beginnings of the two is enough at a time. */
#include "common/base/spelling.h"

#include <string.h>

static bool same_letter(char name, char typed)
{
    return name == (typed == '_' ? '-' : typed);
}

static bool name_begins(const char *name, const char *typed, size_t length)
{
    size_t i = 0;
    while (i < length && name[i] != '\0' && same_letter(name[i], typed[i]))
        i++;
    return i == length;
}

bool name_is(const char *name, const char *typed, size_t length)
{
    return name_begins(name, typed, length) && name[length] == '\0';
}

static size_t edit_distance(const char *name, const char *typed, size_t length)
{
    size_t row[64]; // row[j]: distance from the letters typed so far to the first j of the name
    const size_t n = strnlen(name, 63);
    if (length > 0 && name_begins(name, typed, length))
        return 0;
    if (length > 64)
        length = 64; // longer than any name: the beginning will do
    for (size_t j = 0; j <= n; j++)
        row[j] = j;

    for (size_t i = 0; i < length; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 1; j <= n; j++) {
            const size_t replaced = diagonal + !same_letter(name[j - 1], typed[i]);
            const size_t inserted = (row[j - 1] < row[j] ? row[j - 1] : row[j]) + 1;
            diagonal = row[j];
            row[j] = replaced < inserted ? replaced : inserted;
        }
    }
    return row[n];
}

Nearest nearest_to(const char *typed, size_t length)
{
    return (Nearest){ .typed = typed, .length = length, .distance = length / 2 + 1 };
}

void nearest_try(Nearest *nearest, const char *name)
{
    const size_t distance = edit_distance(name, nearest->typed, nearest->length);
    if (distance < nearest->distance) {
        nearest->distance = distance;
        nearest->name = name;
    }
}
