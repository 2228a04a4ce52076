/*
 * One rank gets a signal, and all must leave between the same two steps: a rank that continued
 * alone would wait for gradients that no rank sends.
 *
 * Asking the others would cost a message per step. So the request travels with a message that is
 * sent anyway: the float after the gradients is averaged with them. It is 0 on every rank until one
 * writes a 1. A rank that finds it above 0 after a step knows that all others do, too.
 *
 * Until the group has formed there is no rank to ask and nothing to save. So a timer ends the
 * process a few seconds after the signal; ranks that connect within that time still agree.
 */
#include "05_fault_tolerance/stop.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/log.h"

#define GPU_STEPS 4 // steps between reads of GPU memory
#define DOUBLE_SECONDS 0.3 // wrappers that pass on Ctrl-C deliver it twice
#define ALONE_SECONDS 3 // time for the group to form after a signal

static volatile sig_atomic_t requested; // the latest signal; 0 if none
static volatile sig_atomic_t joined; // the group has formed
static volatile sig_atomic_t warned; // SIGCONT has come since the last look

static const char *request_name(void)
{
    return requested == SIGINT    ? "SIGINT"
           : requested == SIGUSR1 ? "SIGUSR1"
           : requested == SIGUSR2 ? "SIGUSR2"
           : requested == SIGHUP  ? "SIGHUP"
                                  : "SIGTERM";
}

/* Does not use log_info, because the interrupted code may hold its lock. */
static void on_alarm(int unused)
{
    (void)unused;
    if (joined)
        return;
    char line[LOG_LABEL_BYTES + 96];
    strcat(log_label(line), request_name());
    strcat(line, ": ends before the group has formed, with nothing to save\n");
    while (write(STDERR_FILENO, line, strlen(line)) < 0 && errno == EINTR)
        continue;
    _exit(EXIT_STOPPED);
}

static void on_signal(int signal_number)
{
    static double first; // time of the first Ctrl-C
    if (!joined && requested == 0)
        alarm(ALONE_SECONDS);
    requested = signal_number;
    if (signal_number != SIGINT)
        return;
    if (first == 0) {
        first = seconds_now();
    } else if (seconds_now() > first + DOUBLE_SECONDS) {
        signal(SIGINT, SIG_DFL); // a second Ctrl-C ends the process
        raise(SIGINT);
        if (getpid() == 1) // which the kernel does not end
            _exit(128 + SIGINT);
    }
}

static void on_warning(int unused)
{
    (void)unused;
    warned = true;
}

bool stop_is_hasty(void)
{
    return getenv("OMPI_COMM_WORLD_RANK") != NULL;
}

bool stop_is_near(void)
{
    const bool is_near = warned;
    warned = false;
    return is_near;
}

void stop_listen(void)
{
    static const int requests[] = { SIGTERM, SIGUSR1, SIGUSR2, SIGINT, SIGHUP };
    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        struct sigaction action;
        SYS_CHECK(sigaction(requests[i], NULL, &action));
        if (action.sa_handler == SIG_IGN)
            continue;
        action = (struct sigaction){ .sa_handler = on_signal, .sa_flags = SA_RESTART };
        SYS_CHECK(sigaction(requests[i], &action, NULL));
    }
    const struct sigaction alarm_action = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
    SYS_CHECK(sigaction(SIGALRM, &alarm_action, NULL));
    const struct sigaction warning = { .sa_handler = on_warning, .sa_flags = SA_RESTART };
    if (stop_is_hasty())
        SYS_CHECK(sigaction(SIGCONT, &warning, NULL));
}

void stop_joined(void)
{
    joined = true;
    alarm(0);
}

void stop_init(StopRequest *stop, const Checkpoint *checkpoint, Reducer *reducer)
{
    *stop = (StopRequest){ .checkpoint = checkpoint,
                           .step = checkpoint->optim->model->step,
                           .request = reducer_spare(reducer) };
}

bool training_done(const Checkpoint *checkpoint)
{
    const Position next = checkpoint_next(checkpoint);
    return next.epoch >= checkpoint->args->epochs || next.step >= checkpoint->args->max_steps;
}

bool stop_agreed(StopRequest *stop)
{
    const Model *model = stop->checkpoint->optim->model;
    Device *device = model->device;
    if ((device->place.on_gpu && model->step % GPU_STEPS != 0) || training_done(stop->checkpoint))
        return false;

    float request = 0;
    if (model->step != stop->step) // else it has not been averaged yet
        device_copy(device, &request, stop->request, sizeof request, COPY_TO_HOST);
    stop->step = model->step;
    stop->agreed = stop->agreed || request > 0;
    if (requested != 0 && !stop->agreed && !stop->announced) {
        log_info("%s: all ranks stop after the next step", request_name());
        request = 1;
        device_copy(device, stop->request, &request, sizeof request, COPY_TO_DEVICE);
        stop->announced = true;
    }
    return stop->agreed;
}
