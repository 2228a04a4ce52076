/* meeting.h - where a rank calls others of its group and answers their calls. */
#ifndef EXTRAS_ON_DEMAND_MEETING_H
#define EXTRAS_ON_DEMAND_MEETING_H

#include "common/comm/tcp/tcp_mesh.h"

/* Used by one thread only, except for meeting_call and meeting_interrupt. */
typedef struct Meeting Meeting;

Meeting *meeting_begin(Mesh *mesh, const ProcessGroup *pg); // listens, and publishes the address
void meeting_end(Meeting *meeting);
const char *meeting_address(const Meeting *meeting);

/* Opens a channel to a peer, whose address is in this store. Returns its descriptor, or -1 and
 * errno: ECONNREFUSED if no process listens there, ETIMEDOUT if it does not let us in. */
int meeting_call(const Meeting *meeting, Store *store, int peer, int channel, double deadline);

/* Passes callers of this group on to on_accept, for `seconds` or until something happens, and turns
 * others away. Returns false and errno if no connection can be accepted. */
typedef void OnAccept(Mesh *mesh, int peer, int channel, int fd);
bool meeting_answer(Meeting *meeting, double seconds, OnAccept *on_accept);
void meeting_interrupt(Meeting *meeting); // permanently: meeting_answer then returns false

#endif
