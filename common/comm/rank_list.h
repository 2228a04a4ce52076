/* rank_list.h - "ranks 0 to 2, 5 and 7": a set of ranks in words. */
#ifndef COMMON_COMM_RANK_LIST_H
#define COMMON_COMM_RANK_LIST_H

#include <stdbool.h>

#define RANK_LIST_BYTES 256

/* The ranks r < world_size with has[r], cut off where the text is full. Returns text. */
char *rank_list(const bool *has, int world_size, char text[RANK_LIST_BYTES]);

int rank_count(const bool *has, int world_size);

#endif
