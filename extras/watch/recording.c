/* The files are written when the group is destroyed, which all ranks do together. */
#include "extras/watch/recording.h"

#include "extras/watch/profile.h"
#include "extras/watch/timeline.h"
#include "extras/watch/trace.h"

static struct {
    const Args *args; // NULL if nothing is recorded
    bool is_complete; // recorded but not yet written; never true on a rank that gives up
    int rank;
    FILE *trace, *profile; // open on rank 0
    Timeline timeline;
} recording;

bool recording_enabled(const Args *args)
{
    return args->trace != NULL || args->profile != NULL;
}

void recording_start(const Args *args, int rank, void *stream)
{
    if (!recording_enabled(args))
        return;
    recording.args = args;
    recording.rank = rank;
    if (args->trace != NULL)
        recording.trace = timeline_file(args->trace, "--trace", rank);
    if (args->profile != NULL)
        recording.profile = timeline_file(args->profile, "--profile", rank);
    timeline_start(&recording.timeline, stream);
}

void recording_stop(void)
{
    if (recording.args == NULL)
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
    if (recording.args->trace != NULL)
        trace_write(recording.trace, recording.args->trace, &recording.timeline, recording.rank);
    if (recording.args->profile != NULL)
        profile_write(recording.profile, recording.args->profile, &recording.timeline,
                      recording.rank);
    timeline_free(&recording.timeline);
}
