/*
 * Every rank writes its events as text, on rank 0's clock; rank 0 concatenates them. Times are in
 * microseconds since rank 0 began to record.
 */
#include "extras/watch/trace.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"

enum { LANE_TRAINING, LANE_COLLECTIVES, LANE_GPU, NUM_LANES };

typedef struct {
    FILE *text;
    const Timeline *timeline;
    double zero; // when rank 0 began recording
    int rank;
} Writer;

static double microseconds(const Writer *writer, double time)
{
    return 1e6 * (timeline_aligned(time) - writer->zero);
}

/* Starts an event. Ranks and lanes count from 1, because Perfetto takes process 0 and thread 0 for
 * the idle ones. */
static void begin_event(const Writer *writer, char phase, int lane, const char *name)
{
    fprintf(writer->text, ",\n{\"ph\":\"%c\",\"pid\":%d,\"tid\":%d,\"name\":\"%.*s\"", phase,
            writer->rank + 1, lane + 1, (int)strcspn(name, "."), name);
}

/* Writes a slice on a lane, up to its arguments. Only the layer of a parameter's name is shown. */
static void begin_slice(const Writer *writer, int lane, const char *name, const char *category,
                        double begin, double end)
{
    begin_event(writer, 'X', lane, name);
    fprintf(writer->text, ",\"cat\":\"%s\",\"ts\":%.3f,\"dur\":%.3f", category,
            microseconds(writer, begin), microseconds(writer, end) - microseconds(writer, begin));
}

/* Returns the latest span that had begun by then, or NULL; skips evaluations, which contain other
 * spans. *index: where to start, the place found for an earlier time. */
static const Span *span_before(const Timeline *timeline, double time, size_t *index)
{
    const Span *latest = NULL;
    for (size_t i = *index; i < timeline->num_spans; i++) {
        if (timeline->span[i].kind == SPAN_EVALUATION)
            continue;
        if (timeline->span[i].begin > time)
            break;
        latest = &timeline->span[i];
        *index = i;
    }
    return latest;
}

/* Draws an arrow from the span in which a collective was queued, or the end of the one before, to
 * where it began. Perfetto drops an arrow whose id is not a number, or unless both ends lie in
 * slices, which are open until before they end. */
static void write_arrow(const Writer *writer, size_t index, const CallRecord *call,
                        const Span *span)
{
    const double margin = 0.002; // two units of the last digit written
    const double number = (double)index * peers.world_size + writer->rank + 1; // unique over ranks
    const double begin = microseconds(writer, call->started);
    if (span == NULL || microseconds(writer, call->done) - begin < margin ||
        microseconds(writer, span->end) - microseconds(writer, span->begin) < margin)
        return;
    const double queued =
        fmin(microseconds(writer, call->queued), microseconds(writer, span->end) - margin);
    begin_event(writer, 's', LANE_TRAINING, "queued");
    fprintf(writer->text, ",\"id\":%.0f,\"cat\":\"communication\",\"ts\":%.3f}", number, queued);
    begin_event(writer, 'f', LANE_COLLECTIVES, "queued");
    fprintf(writer->text, ",\"id\":%.0f,\"bp\":\"e\",\"cat\":\"communication\",\"ts\":%.3f}",
            number, begin);
}

static void write_names(const Writer *writer)
{
    const Timeline *timeline = writer->timeline;
    bool nccl = false;
    for (size_t i = 0; i < timeline->num_calls; i++)
        nccl |= timeline->call[i].gpu_begin > 0;
    const char *const lanes[] = { "training", nccl ? "NCCL" : "collectives", "GPU compute" };
    // The first event has no comma before it.
    fprintf(
        writer->text,
        "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":1,\"name\":\"process_name\",\"args\":{\"name\":\"rank "
        "%d\"}}",
        writer->rank == 0 ? "" : ",\n", writer->rank + 1, writer->rank);
    begin_event(writer, 'M', LANE_TRAINING, "process_sort_index");
    fprintf(writer->text, ",\"args\":{\"sort_index\":%d}}", writer->rank);
    for (int lane = 0; lane < (timeline->on_gpu ? NUM_LANES : LANE_GPU); lane++) {
        begin_event(writer, 'M', lane, "thread_name");
        fprintf(writer->text, ",\"args\":{\"name\":\"%s\"}}", lanes[lane]);
        begin_event(writer, 'M', lane, "thread_sort_index");
        fprintf(writer->text, ",\"args\":{\"sort_index\":%d}}", lane);
    }
}

static void write_spans(const Writer *writer, int lane, const Span *spans, size_t num_spans)
{
    for (size_t i = 0; i < num_spans; i++) { // spans is NULL if num_spans is 0
        const Span *span = &spans[i];
        begin_slice(writer, lane, span->name, span_kind_name(span->kind), span->begin, span->end);
        fputs("}", writer->text);
    }
}

static void write_events(const Writer *writer)
{
    const Timeline *timeline = writer->timeline;
    write_names(writer);
    write_spans(writer, LANE_TRAINING, timeline->span, timeline->num_spans);
    write_spans(writer, LANE_GPU, timeline->gpu_span, timeline->num_gpu_spans);
    for (size_t i = 0, index = 0; i < timeline->num_calls; i++) {
        const CallRecord *call = &timeline->call[i];
        const Span *span = span_before(timeline, call->queued, &index);
        if (call->started == 0 || call->done == 0)
            continue; // still in progress when recording ended
        begin_slice(writer, LANE_COLLECTIVES, call->name, "communication", call->started,
                    call->done);
        fprintf(writer->text,
                ",\"args\":{\"count\":%zu,\"type\":\"%s\",\"bytes\":%zu,\"queued_us\":%.3f}}",
                call->count, dtype_name(call->type), call->count * dtype_size(call->type),
                1e6 * (call->started - call->queued));
        write_arrow(writer, i, call, span);
    }
}

/* Receives from one rank after the other, and holds one rank's events at a time. */
static void receive_events(FILE *file)
{
    for (int rank = 1; rank < peers.world_size; rank++) {
        size_t length = 0;
        peers.receive(&length, sizeof length, rank);
        char *text = mem_calloc(length, 1);
        peers.receive(text, length, rank);
        fwrite(text, 1, length, file);
        free(text);
    }
}

static void send_events(Writer *writer)
{
    char *text = NULL;
    size_t length = 0;
    writer->text = open_memstream(&text, &length);
    CHECK(writer->text != NULL, "out of memory for a trace");
    write_events(writer);
    CHECK(fclose(writer->text) == 0, "out of memory for a trace");
    peers.send(&length, sizeof length, 0);
    peers.send(text, length, 0);
    free(text);
}

void trace_write(FILE *file, const char *path, Timeline *timeline, int rank)
{
    Writer writer = { .text = file, .timeline = timeline, .rank = rank };
    writer.zero = rank == 0 ? timeline->begin : 0;
    if (peers.world_size > 1)
        peers.sum(&writer.zero, 1); // all ranks get rank 0's value
    if (rank > 0) {
        if (peers.world_size > 1)
            send_events(&writer);
        return;
    }
    fputs("{\"displayTimeUnit\":\"ms\",", file);
    if (peers.backend != NULL) // as in PyTorch's traces
        fprintf(file, "\"distributedInfo\":{\"backend\":\"%s\",\"rank\":0,\"world_size\":%d},",
                peers.backend, peers.world_size);
    fputs("\"traceEvents\":[\n", file);
    write_events(&writer);
    receive_events(file);
    fputs("\n]}\n", file);
    timeline_file_close(file, path);
    if (timeline->num_lost > 0)
        log_warning("%s holds the beginning only: the last %zu events were too many; --max-steps "
                    "makes a shorter run",
                    path, timeline->num_lost);
}
