/* rank_list.h - "ranks 0 to 2, 5 and 7": the ranks a sentence is about. */
#ifndef COMMON_BASE_RANK_LIST_H
#define COMMON_BASE_RANK_LIST_H

#include <stdbool.h>

#define RANK_LIST_BYTES 256

/* The ranks r < world_size with has[r], as far as the bytes reach. Returns text. */
char *rank_list(const bool *has, int world_size, char text[RANK_LIST_BYTES]);

int rank_count(const bool *has, int world_size);

#endif
