/* Reports and verdicts in the store. A request's timeout is the time a rank may be silent: if rank
 * 0 serves the store, a silent store means a silent rank 0. */
#include "common/comm/nccl/rank_watch.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define PERIOD_SECONDS 1.0
#define WAIT_LIMIT_SECONDS 5.0
#define SILENCE_SECONDS 10.0 // a busy machine may not schedule a thread for seconds

static void publish_report(RankWatch *watch, RankReport report)
{
    char key[STORE_KEY_BYTES];
    report.number = ++watch->num_reports;
    report.serves_store = watch->pg->store->server != NULL;
    store_set(&watch->store, process_group_key(watch->pg, "report of rank", watch->pg->rank, key),
              &report, sizeof report);
}

void rank_watch_init(RankWatch *watch, const ProcessGroup *pg)
{
    const double timeout = pg->timeout;
    *watch = (RankWatch){ .pg = pg,
                          .period = fmin(PERIOD_SECONDS, timeout / 20),
                          .wait_limit = fmin(WAIT_LIMIT_SECONDS, timeout / 4),
                          .silence = fmin(SILENCE_SECONDS, timeout / 4) };
    watch->reports = mem_calloc((size_t)pg->world_size, sizeof *watch->reports);
    watch->since = mem_calloc((size_t)pg->world_size, sizeof *watch->since);
    CHECK(store_connect(&watch->store, pg->store->host, pg->store->port, timeout),
          "no second connection to the store at %s:%d: %s", pg->store->host, pg->store->port,
          store_connect_reason(errno));
    memcpy(watch->store.prefix, pg->store->prefix, sizeof watch->store.prefix);
    publish_report(watch, (RankReport){ 0 });
    const double deadline = seconds_awake() + timeout;
    for (int rank = 0; rank < pg->world_size; rank++) {
        char key[STORE_KEY_BYTES];
        process_group_key(pg, "report of rank", rank, key);
        CHECK(store_try_wait(&watch->store, key, fmax(0, deadline - seconds_awake())),
              "rank %d is gone: it left no report within %g s", rank, timeout);
    }
    rank_watch_poll(watch); // learns which rank serves the store
    watch->polling = false;
}

void rank_watch_free(RankWatch *watch)
{
    store_free(&watch->store);
    free(watch->reports);
    free(watch->since);
}

int rank_watch_poll(RankWatch *watch)
{
    const int n = watch->pg->world_size;
    int silent = -1;
    for (int rank = 0; rank < n; rank++) {
        RankReport *seen = &watch->reports[rank], report = { 0 };
        char key[STORE_KEY_BYTES];
        store_get(&watch->store, process_group_key(watch->pg, "report of rank", rank, key), &report,
                  sizeof report);
        report.busy[sizeof report.busy - 1] = '\0';
        const double now = seconds_awake();
        if (!watch->polling || report.number != seen->number)
            watch->since[rank] = now;
        if (report.keeps_alive && watch->since[rank] == now)
            watch->kept_alive_at = now;
        *seen = report;
        const double seconds = now - watch->since[rank];
        if (rank != watch->pg->rank && seconds > watch->silence &&
            (silent < 0 || seconds > now - watch->since[silent]))
            silent = rank;
    }
    watch->polling = true;
    return silent;
}

char *rank_watch_blame(const RankWatch *watch, const Collective *call, const char *what,
                       char line[BLAME_BYTES])
{
    const bool for_two = call != NULL && collective_is_point_to_point(call->kind);
    const double seconds = watch->pg->timeout;
    snprintf(line, BLAME_BYTES,
             "%s did not end within %g s, though no rank is missing: NCCL_DEBUG=INFO shows what "
             "connects them",
             what, seconds);
    for (int rank = 0; call != NULL && rank < watch->pg->world_size; rank++) {
        const RankReport *report = &watch->reports[rank];
        if (rank == watch->pg->rank || (for_two && rank != call->root))
            continue;
        if (for_two ? report->busy[0] == '\0' : report->num_calls <= call->sequence) {
            snprintf(line, BLAME_BYTES, "rank %d is missing in %s after %g s: it %s%s", rank, what,
                     seconds, report->busy[0] != '\0' ? "is in " : "does not make this call",
                     report->busy);
            return line;
        }
        if (report->busy[0] != '\0' && strcmp(report->busy, what) != 0)
            snprintf(line, BLAME_BYTES, "%s did not end within %g s: rank %d is in %s", what,
                     seconds, rank, report->busy);
    }
    return line;
}

/* Dies with the verdict in the store: "3 LINE", if 3 ranks are left to read it. A rank that was
 * stopped, and is missing according to it, rewords the line. */
static noreturn void end_group(RankWatch *watch, const char *verdict)
{
    char *line, own[32];
    const long present = strtol(verdict, &line, 10);
    process_group_leave(watch->pg, &watch->store, (int)present);
    line += *line == ' ';
    const int length = snprintf(own, sizeof own, "rank %d is ", watch->pg->rank);
    if (strncmp(line, own, (size_t)length) == 0)
        die("the others gave up waiting for this rank, which was %s", line + length);
    die("%s%s", line, watch->pg->calls.error_suffix);
}

void rank_watch_end(RankWatch *watch, const char *line)
{
    char key[STORE_KEY_BYTES], ours[BLAME_BYTES + 16], first[BLAME_BYTES + 16] = "";
    int present = watch->pg->world_size;
    for (int rank = 0; rank < watch->pg->world_size && watch->polling; rank++)
        present -= seconds_awake() - watch->since[rank] > watch->silence;
    snprintf(ours, sizeof ours, "%d %s", present, line);
    store_compare_set(&watch->store, process_group_key(watch->pg, "verdict", 0, key), "", ours,
                      first, sizeof first - 1);
    end_group(watch, first);
}

void rank_watch_publish(RankWatch *watch, const RankReport *report)
{
    char key[STORE_KEY_BYTES], verdict[BLAME_BYTES + 16] = "";
    if (!store_try_ping(&watch->store, watch->silence)) { // usually rank 0's, else the launcher's
        const char *how =
            errno == ETIMEDOUT ? "does not answer any more" : "has closed its connection";
        if (watch->reports[0].serves_store)
            die("rank 0 is gone: the store that it serves %s", how);
        die("the store at %s:%d %s: has the launcher ended?", watch->store.host, watch->store.port,
            how);
    }
    publish_report(watch, *report);
    if (!store_check(&watch->store, process_group_key(watch->pg, "verdict", 0, key)))
        return;
    store_get(&watch->store, key, verdict, sizeof verdict - 1);
    end_group(watch, verdict);
}
