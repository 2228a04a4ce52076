/*
 * Every rank writes its events as text, on rank 0's clock; rank 0 concatenates them. Times are in
 * microseconds since rank 0 began to record.
 */
#include "extras/watch/trace.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/memory.h"

enum { LANE_TRAINING, LANE_COLLECTIVES, LANE_GPU, NUM_LANES };

typedef struct {
    FILE *text;
    const Timeline *timeline;
    double zero; // rank 0's begin
    int rank;
} Writer;

static double microseconds(const Writer *writer, double time)
{
    return 1e6 * (timeline_aligned(time) - writer->zero);
}

/* A slice on a lane, up to its arguments. Of a parameter's name only the layer's is shown. */
static void begin_slice(const Writer *writer, int lane, const char *name, const char *category,
                        double begin, double end)
{
    fprintf(writer->text,
            ",\n{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,\"name\":\"%.*s\",\"cat\":\"%s\",\"ts\":%.3f,"
            "\"dur\":%.3f",
            writer->rank, lane, (int)strcspn(name, "."), name, category,
            microseconds(writer, begin), microseconds(writer, end) - microseconds(writer, begin));
}

static void write_arrow(const Writer *writer, size_t id, const CallRecord *call)
{
    fprintf(writer->text,
            ",\n{\"ph\":\"s\",\"id\":\"%d.%zu\",\"pid\":%d,\"tid\":%d,"
            "\"name\":\"queued\",\"cat\":\"communication\",\"ts\":%.3f}",
            writer->rank, id, writer->rank, LANE_TRAINING, microseconds(writer, call->queued));
    fprintf(writer->text,
            ",\n{\"ph\":\"f\",\"bp\":\"e\",\"id\":\"%d.%zu\",\"pid\":%d,\"tid\":%d,"
            "\"name\":\"queued\",\"cat\":\"communication\",\"ts\":%.3f}",
            writer->rank, id, writer->rank, LANE_COLLECTIVES, microseconds(writer, call->started));
}

static void write_names(const Writer *writer)
{
    const Timeline *timeline = writer->timeline;
    bool nccl = false;
    for (size_t i = 0; i < timeline->num_calls; i++)
        nccl |= timeline->call[i].gpu_begin > 0;
    const char *const lanes[] = { "training", nccl ? "NCCL" : "collectives", "GPU compute" };
    for (int lane = 0; lane < (timeline->on_gpu ? NUM_LANES : LANE_GPU); lane++)
        fprintf(writer->text,
                "%s{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":"
                "\"%s\"}}",
                lane == 0 && writer->rank == 0 ? "" : ",\n", writer->rank, lane, lanes[lane]);
    fprintf(
        writer->text,
        ",\n{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":\"rank %d\"}}",
        writer->rank, writer->rank);
}

static void write_spans(const Writer *writer, int lane, const Span *spans, size_t num_spans)
{
    for (size_t i = 0; i < num_spans; i++) { // spans is NULL where there are none
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
    for (size_t i = 0; i < timeline->num_calls; i++) {
        const CallRecord *call = &timeline->call[i];
        if (call->started == 0 || call->done == 0)
            continue; // still in progress when recording ended
        begin_slice(writer, LANE_COLLECTIVES, call->name, "communication", call->started,
                    call->done);
        fprintf(writer->text,
                ",\"args\":{\"count\":%zu,\"type\":\"%s\",\"bytes\":%zu,\"queued_us\":%.3f}}",
                call->count, dtype_name(call->type), call->count * dtype_size(call->type),
                1e6 * (call->started - call->queued));
        write_arrow(writer, i, call);
    }
}

/* Rank 0 asks one rank after the other, and holds one rank's events at a time. */
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
        peers.sum(&writer.zero, 1); // all learn rank 0's
    if (rank > 0) {
        if (peers.world_size > 1)
            send_events(&writer);
        return;
    }
    fputs("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n", file);
    write_events(&writer);
    receive_events(file);
    fputs("\n]}\n", file);
    timeline_file_close(file, path);
    if (timeline->num_lost > 0)
        log_warning("%s holds the beginning only: the last %zu events were too many; --max-steps "
                    "makes a shorter run",
                    path, timeline->num_lost);
}
