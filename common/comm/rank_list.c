/* Runs of three and more ranks are named by their ends. */
#include "common/comm/rank_list.h"

#include <stdio.h>
#include <string.h>

int rank_count(const bool *has, int world_size)
{
    int count = 0;
    for (int rank = 0; rank < world_size; rank++)
        count += has[rank];
    return count;
}

char *rank_list(const bool *has, int world_size, char text[RANK_LIST_BYTES])
{
    int left = rank_count(has, world_size);
    snprintf(text, RANK_LIST_BYTES, "rank%s", left == 1 ? "" : "s");
    for (int rank = 0, end; rank < world_size; rank = end) {
        end = rank + 1;
        if (!has[rank])
            continue;
        while (end < world_size && has[end])
            end++;
        if (end - rank == 2) // "4, 5" rather than "4 to 5"
            end--;
        left -= end - rank;

        const size_t length = strlen(text);
        const char *separator = length <= strlen("ranks") ? " " : left > 0 ? ", " : " and ";
        char range[32] = "";
        if (end - rank > 2)
            snprintf(range, sizeof range, " to %d", end - 1);
        snprintf(text + length, RANK_LIST_BYTES - length, "%s%d%s", separator, rank, range);
    }
    return text;
}
