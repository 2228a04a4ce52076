/* The files are written when the group is destroyed, which all ranks do together. */
#include "extras/watch/recording.h"

#include "extras/watch/profile.h"
#include "extras/watch/timeline.h"
#include "extras/watch/trace.h"

static struct {
    bool is_complete; // and not written yet; a rank that gives up never gets there
    int rank;
    FILE *trace, *profile; // on rank 0
    Timeline timeline;
} recording;

bool recording_wanted(void)
{
    return watch_args.trace != NULL || watch_args.profile != NULL;
}

void recording_start(int rank, void *stream)
{
    if (!recording_wanted())
        return;
    recording.rank = rank;
    if (watch_args.trace != NULL)
        recording.trace = timeline_file(watch_args.trace, "--trace", rank);
    if (watch_args.profile != NULL)
        recording.profile = timeline_file(watch_args.profile, "--profile", rank);
    timeline_start(&recording.timeline, stream);
}

void recording_stop(void)
{
    if (!recording_wanted())
        return;
    timeline_stop(&recording.timeline);
    recording.is_complete = true;
    if (peers.world_size == 1)
        recording_write();
}

void recording_write(void)
{
    if (!recording.is_complete)
        return;
    recording.is_complete = false;
    if (peers.world_size > 1)
        timeline_compare_clocks(1);
    if (watch_args.trace != NULL)
        trace_write(recording.trace, watch_args.trace, &recording.timeline, recording.rank);
    if (watch_args.profile != NULL)
        profile_write(recording.profile, watch_args.profile, &recording.timeline, recording.rank);
    timeline_free(&recording.timeline);
}
