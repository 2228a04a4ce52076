/*
 * peers.h - communication with the other ranks: messages of bytes, and sums of numbers.
 *
 * A program for one device has no peers and links nothing of common/comm; process_group_init fills
 * in the group's (watch_group.c).
 */
#ifndef EXTRAS_WATCH_PEERS_H
#define EXTRAS_WATCH_PEERS_H

#include <stddef.h>

enum { PLACE_BYTES = 256 };

typedef struct {
    int rank, world_size;
    const char *backend; // "tcp"; NULL without a group
    // Collective over all ranks, or between two. NULL if world_size is 1.
    void (*sum)(double *values, size_t count);
    void (*min)(double *values, size_t count);
    void (*max)(double *values, size_t count);
    void (*send)(const void *data, size_t bytes, int to);
    void (*receive)(void *data, size_t bytes, int from);
    // Returns where each rank is, PLACE_BYTES each; free it. Collective. NULL without a group, or
    // in one that survives a failure, since a rank that joins later would call it alone.
    char *(*places)(void);
} Peers;

extern Peers peers; // world_size is 1 until a group is formed, and again when it is destroyed

/* Returns how many seconds rank 0's clock is ahead of this one's. Collective. */
double peers_clock_offset(void);

/* Gathers each rank's bytes into to[rank] on rank 0; to is NULL on the others. Collective. */
void peers_gather(const void *from, void *to, size_t bytes);

#endif
