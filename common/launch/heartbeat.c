/*
 * It waits in the store for the job's end, and its exit status tells the launcher. Every interval
 * it counts its node's key up; node 0's also checks that the others' still rise. If the store is
 * gone the process dies: then node 0 is lost. A stopped launcher (SIGSTOP) has no heartbeat: it
 * would not react to anything.
 */
#include "common/launch/heartbeat.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/base/process.h"

#define MIN_PATIENCE 5.0 // seconds: a busy machine may answer late

typedef struct {
    int64_t count;
    int missed; // checks since it last rose
} Heard;

const char *node_key(char key[KEY_BYTES], const char *format, int node)
{
    snprintf(key, KEY_BYTES, format, node);
    return key;
}

bool heartbeat_connect(Store *store, const Flags *flags, double seconds)
{
    if (!store_connect(store, flags->master_addr, flags->master_port, seconds))
        return false;
    snprintf(store->prefix, sizeof store->prefix, "%s/", flags->run_id);
    return true;
}

double heartbeat_patience(const Flags *flags)
{
    return fmax(MIN_PATIENCE, flags->heartbeat_limit * flags->heartbeat_interval);
}

void heartbeat_publish_failure(Store *store, const Failure *failure)
{
    char key[KEY_BYTES], end[1];
    char *text = failure_encode(failure);
    store_set(store, node_key(key, KEY_FAILURE, failure->node), text, strlen(text));
    store_compare_set(store, KEY_END, "", END_FAILED, end, sizeof end);
    free(text);
}

static void publish_loss(Store *store, int node, const char *how)
{
    Failure failure;
    failure_of_launcher(&failure, node, EXIT_FAILURE, "node %d %s", node, how);
    heartbeat_publish_failure(store, &failure);
}

/* Node 0 checks the other nodes. It removes the key of a dead one, so that nobody waits for it. A
 * torchrun has no such key and does not report its failure, but without one it stays until the job
 * is over. */
static void look_after(Store *store, const Flags *flags, Heard *heard)
{
    for (int node = 1; node < flags->max_nodes; node++) {
        char key[KEY_BYTES], text[64] = "";
        store_compare_set(store, node_key(key, KEY_HEARTBEAT, node), "absent", "absent", text,
                          sizeof text - 1); // only reads
        const bool has_none = strcmp(text, "absent") == 0; // not here yet, or a torchrun
        const bool hung_up = store_check(store, node_key(key, KEY_GONE, node));
        if (has_none && hung_up)
            publish_loss(store, node, "has hung up before the job was over");
        if (has_none)
            continue;
        const int64_t count = strtoll(text, NULL, 10);
        heard[node].missed = count == heard[node].count ? heard[node].missed + 1 : 0;
        heard[node].count = count;
        if (!hung_up && heard[node].missed < flags->heartbeat_limit)
            continue;

        store_delete(store, node_key(key, KEY_HEARTBEAT, node));
        snprintf(text, sizeof text, "has not been heard of for %g s",
                 flags->heartbeat_limit * flags->heartbeat_interval);
        publish_loss(store, node, hung_up ? LOST_HUNG_UP : text);
    }
}

static noreturn void beat(const Flags *flags, pid_t launcher)
{
    Store store;
    CHECK(heartbeat_connect(&store, flags, heartbeat_patience(flags)),
          "the store at %s:%d is out of reach: %s", flags->master_addr, flags->master_port,
          store_connect_reason(errno));
    Heard *heard = mem_calloc((size_t)flags->max_nodes, sizeof *heard);
    char key[KEY_BYTES];
    node_key(key, KEY_HEARTBEAT, flags->node_rank);
    do {
        char state = '?';
        process_start_ticks(launcher, &state);
        if (state != 'T')
            store_add(&store, key, 1);
        if (flags->node_rank == 0)
            look_after(&store, flags, heard);
    } while (!store_try_wait(&store, KEY_END, flags->heartbeat_interval));
    _exit(EXIT_SUCCESS);
}

pid_t heartbeat_start(const Flags *flags)
{
    const pid_t launcher = getpid();
    const pid_t heartbeat = fork();
    SYS_CHECK(heartbeat);
    if (heartbeat == 0) {
        setsid(); // Ctrl-C is for the launcher only
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == launcher)
            beat(flags, launcher);
        _exit(EXIT_FAILURE);
    }
    return heartbeat;
}

HeartbeatNews heartbeat_news(pid_t heartbeat)
{
    siginfo_t end = { 0 };
    waitid(P_PID, (id_t)heartbeat, &end, WEXITED | WNOHANG | WNOWAIT); // heartbeat_stop reaps it
    if (end.si_pid == 0)
        return HEARTBEAT_ALIVE;
    return end.si_code == CLD_EXITED && end.si_status == EXIT_SUCCESS ? HEARTBEAT_JOB_OVER
                                                                      : HEARTBEAT_HOST_LOST;
}

void heartbeat_stop(pid_t heartbeat)
{
    kill(heartbeat, SIGKILL);
    waitpid(heartbeat, NULL, 0);
}
