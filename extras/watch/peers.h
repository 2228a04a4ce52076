/*
 * peers.h - the other ranks, as watching needs them: messages of bytes, and sums of numbers.
 *
 * A program for one device has none and links nothing of common/comm; process_group_init fills in
 * the group's (watch_group.c).
 */
#ifndef EXTRAS_WATCH_PEERS_H
#define EXTRAS_WATCH_PEERS_H

#include <stddef.h>

typedef struct {
    int rank, world_size;
    const char *backend; // "tcp"; NULL where there is no group
    // Collective over all ranks, or between two. NULL where world_size is 1.
    void (*sum)(double *values, size_t count);
    void (*min)(double *values, size_t count);
    void (*max)(double *values, size_t count);
    void (*send)(const void *data, size_t bytes, int to);
    void (*receive)(void *data, size_t bytes, int from);
} Peers;

extern Peers peers; // world_size is 1 until a group is formed, and again when it is destroyed

/* How many seconds rank 0's clock is ahead of this one's. Collective. */
double peers_clock_offset(void);

/* Rank 0 gets each rank's bytes into to[rank]; to is NULL on the others. Collective. */
void peers_gather(const void *from, void *to, size_t bytes);

#endif
