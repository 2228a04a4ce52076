/* tcp_lobby.h - who has called and not said yet who he is: all are listened to at once. */
#ifndef COMMON_DIST_TCP_LOBBY_H
#define COMMON_DIST_TCP_LOBBY_H

#include <stddef.h>
#include <stdint.h>

#define LOBBY_PLACES 64
#define LOBBY_HELLO_BYTES 32 // of every caller, before anything else

typedef struct {
    int fd;
    double since; // on the clock of seconds_now()
    size_t bytes; // of the hello that have come
    unsigned char hello[LOBBY_HELLO_BYTES];
} Caller;

/* All zero but listen_fd is an empty one. */
typedef struct {
    int listen_fd;
    int num_callers;
    Caller caller[LOBBY_PLACES]; // the one who has waited longest comes first
    int num_turned_away;
} Lobby;

/* Waits for the next caller whose hello is whole. Returns his descriptor, which is ours now; -1 and
 * errno after the deadline. Who says too little for a second is turned away; and where all places
 * are taken, who has waited longest: a rank says hello at once, so a crowd does not keep it out. */
int lobby_next(Lobby *lobby, unsigned char hello[LOBBY_HELLO_BYTES], double deadline);

/* Hangs up on somebody who is none of us, and says so (of the first few). */
void lobby_turn_away(Lobby *lobby, int fd);

/* Hangs up on all that are left. Does not close listen_fd. */
void lobby_close(Lobby *lobby);

#endif
