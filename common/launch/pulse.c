/*
 * Whoever asks a store waits for its answer, and a store that is gone ends the process that asks.
 * The launcher can afford neither, so a child does it: it sleeps in the store until the job's end
 * is known there, and brings it through a pipe. Between two sleeps it counts its node's key up;
 * node 0's looks whether all others' still rise. The pipe's end without a word means that node 0 is
 * gone.
 */
#include "common/launch/pulse.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/memory.h"

#define TIMEOUT 30.0 // seconds without an answer of the store: node 0 is gone

typedef struct {
    int64_t count;
    int missed; // looks since it last rose
} Heard;

bool pulse_connect(Store *store, const Flags *flags, double seconds)
{
    if (!store_connect(store, flags->master_addr, flags->master_port, seconds))
        return false;
    snprintf(store->prefix, sizeof store->prefix, "%s/", flags->run_id);
    return true;
}

void pulse_publish_failure(Store *store, const Failure *failure)
{
    char key[64], end[1];
    snprintf(key, sizeof key, KEY_FAILURE, failure->node);
    char *text = failure_encode(failure);
    store_set(store, key, text, strlen(text));
    store_compare_set(store, KEY_END, "", END_FAILED, end, sizeof end);
    free(text);
}

/* Node 0's looks after the others. It removes the key of the dead, so that nobody waits for them.
 */
static void look_after(Store *store, const Flags *flags, Heard *heard)
{
    for (int node = 1; node < flags->max_nodes; node++) {
        char key[64], text[32] = "";
        snprintf(key, sizeof key, KEY_PULSE, node);
        store_compare_set(store, key, "absent", "absent", text, sizeof text - 1); // only reads
        if (strcmp(text, "absent") == 0) // not here yet, or one of torchrun's
            continue;
        const int64_t count = strtoll(text, NULL, 10);
        heard[node].missed = count == heard[node].count ? heard[node].missed + 1 : 0;
        heard[node].count = count;
        if (heard[node].missed < flags->pulse_limit)
            continue;

        Failure failure;
        failure_of_launcher(&failure, node, EXIT_FAILURE, "node %d has not been heard of for %g s",
                            node, flags->pulse_limit * flags->pulse_interval);
        store_delete(store, key);
        pulse_publish_failure(store, &failure);
    }
}

static noreturn void beat(const Flags *flags, int news_fd)
{
    Store store;
    CHECK(pulse_connect(&store, flags, TIMEOUT), "the store at %s:%d is out of reach: %s",
          flags->master_addr, flags->master_port, strerror(errno));
    Heard *heard = mem_calloc((size_t)flags->max_nodes, sizeof *heard);
    char key[64], end[32];
    snprintf(key, sizeof key, KEY_PULSE, flags->node_rank);
    do {
        store_add(&store, key, 1);
        if (flags->node_rank == 0)
            look_after(&store, flags, heard);
    } while (!store_try_wait(&store, KEY_END, flags->pulse_interval));
    const size_t length = store_get(&store, KEY_END, end, sizeof end);
    const ssize_t written = write(news_fd, end, length < sizeof end ? length : sizeof end);
    _exit(written > 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

void pulse_start(Pulse *pulse, const Flags *flags)
{
    const pid_t launcher = getpid();
    int fds[2];
    SYS_CHECK(pipe2(fds, O_CLOEXEC));
    SYS_CHECK(pulse->pid = fork());
    if (pulse->pid == 0) {
        setsid(); // Ctrl-C is for the launcher
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() == launcher)
            beat(flags, fds[1]);
        _exit(EXIT_FAILURE);
    }
    close(fds[1]);
    pulse->news_fd = fds[0];
    SYS_CHECK(fcntl(pulse->news_fd, F_SETFL, O_NONBLOCK));
}

PulseNews pulse_news(const Pulse *pulse, char *end, size_t bytes)
{
    const ssize_t n = read(pulse->news_fd, end, bytes - 1);
    if (n < 0 && errno == EAGAIN)
        return PULSE_BEATS;
    end[n > 0 ? n : 0] = '\0';
    return n > 0 ? PULSE_END : PULSE_LOST;
}

void pulse_stop(Pulse *pulse)
{
    kill(pulse->pid, SIGKILL);
    waitpid(pulse->pid, NULL, 0);
    close(pulse->news_fd);
}
