/* tcp_lobby.h - connections that have not identified themselves yet, all read at once. */
#ifndef COMMON_COMM_TCP_TCP_LOBBY_H
#define COMMON_COMM_TCP_TCP_LOBBY_H

#include <stddef.h>

#define LOBBY_PLACES 64
#define LOBBY_HELLO_BYTES 32 // sent first by every caller

typedef struct {
    int fd;
    double since; // on the clock of seconds_now()
    size_t bytes; // of the hello received so far
    unsigned char hello[LOBBY_HELLO_BYTES];
} Caller;

/* All zero but listen_fd is an empty one. */
typedef struct {
    int listen_fd;
    int num_callers;
    Caller caller[LOBBY_PLACES]; // oldest first
    int num_turned_away;
} Lobby;

/* Waits for the next caller with a complete hello. Returns its descriptor, which is ours to close;
 * -1 and errno after the deadline. A connection without a complete hello after a second is
 * closed; if all places are taken, the oldest is: a rank sends its hello at once, so a crowd does
 * not keep it out. */
int lobby_next(Lobby *lobby, unsigned char hello[LOBBY_HELLO_BYTES], double deadline);

/* Closes the connection of a stranger, and logs it (the first few). */
void lobby_turn_away(Lobby *lobby, int fd);

/* Closes all connections left. Does not close listen_fd. */
void lobby_close(Lobby *lobby);

#endif
