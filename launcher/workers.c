/* A child that ends sends SIGCHLD; that signal, like requests to end, is blocked and fetched with
 * sigtimedwait. So there is one place to sleep, no polling, and no code in signal handlers.
 *
 * Processes that a worker leaves behind become our children (PR_SET_CHILD_SUBREAPER): its process
 * group is empty when waitpid finds no more children in it. Until then its number is not reused.
 * Where that call is unknown (qemu-user), we ask whether the group's number is in use. */
#include "launcher/launch.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/folder.h"

#define KILL_SECONDS 10.0 // SIGKILL takes effect at once, unless a device driver hangs
#define DOUBLE_SECONDS 0.3 // wrappers that pass on Ctrl-C deliver it twice

static void *shared_memory(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED, "out of memory");
    return memory;
}

Logs *logs_init(const Flags *flags)
{
    rank_output_check(flags);
    Logs *logs = shared_memory(sizeof *logs);
    logs->flags = flags;
    return logs;
}

void logs_free(Logs *logs)
{
    if (logs->folder[0] != '\0' && logs->flags->log_dir == NULL)
        log_info("logs are in %s", logs->folder);
    munmap(logs, sizeof *logs);
}

void logs_path(const Logs *logs, int local_rank, const char *name, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%d/%.16s", logs->attempt, local_rank, name);
}

/* mkdtemp writes the name into the shared memory before it creates the folder, so the watcher knows
 * it in time. The path is absolute, since a rank may leave the folder it was started in. */
static void make_folder(Logs *logs)
{
    const Flags *flags = logs->flags;
    const char *parent = flags->log_dir != NULL ? flags->log_dir : getenv("TMPDIR");
    if (parent == NULL || parent[0] == '\0')
        parent = "/tmp";
    if (flags->log_dir != NULL)
        folder_create(parent, "--log-dir");
    char root[PATH_MAX];
    // Eight letters, as torchrun has it; mkdtemp makes six.
    const int length = snprintf(logs->folder, sizeof logs->folder, "%s/%s_%02xXXXXXX",
                                realpath(parent, root) != NULL ? root : parent, flags->run_id,
                                (unsigned)getpid() & 0xff);
    CHECK(length < (int)sizeof logs->folder, "--log-dir: the path %s... is too long", logs->folder);
    CHECK(mkdtemp(logs->folder) != NULL,
          "cannot create the folder %s: %s: name another place with --log-dir", logs->folder,
          strerror(errno));
}

/* Returns whether a report has shown all of it: our ranks write one line. PyTorch's also write a
 * traceback, which stays. */
static bool is_in_report(const char *path)
{
    static const char ours[] = "{\"message\": \"";
    char begin[sizeof ours] = "";
    const int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const ssize_t bytes = read(fd, begin, sizeof begin - 1);
    close(fd);
    return bytes >= 0 && memcmp(begin, ours, (size_t)bytes) == 0; // or as much as was written
}

/* Removes this attempt's empty folders and, without --log-dir, error files that a report has shown:
 * rmdir refuses to remove others. Only plain system calls, see start_watcher. */
static void remove_empty(Logs *logs)
{
    for (int i = 0; i < logs->flags->nproc_per_node && logs->attempt[0] != '\0'; i++) {
        char path[PATH_MAX];
        logs_path(logs, i, "error.json", path);
        if (logs->flags->log_dir == NULL && is_in_report(path))
            unlink(path);
        logs_path(logs, i, "", path);
        rmdir(path);
    }
    rmdir(logs->attempt);
    if (rmdir(logs->folder) == 0)
        logs->folder[0] = '\0';
}

void logs_open(Logs *logs, int first_rank, int restart_count)
{
    if (logs->folder[0] == '\0')
        make_folder(logs);
    snprintf(logs->attempt, sizeof logs->attempt, "%s/attempt_%d", logs->folder, restart_count);
    for (int i = 0; i < logs->flags->nproc_per_node; i++) {
        char folder[PATH_MAX];
        logs_path(logs, i, "", folder);
        folder_create(folder, "--log-dir");
    }
    rank_output_open(logs, first_rank);
}

void logs_close(Logs *logs)
{
    rank_output_close(logs);
    remove_empty(logs);
}

/* Starts a child that outlives us and kills what our children have started; the kernel kills only
 * our children with us. It has none of our threads, so plain system calls only, here, too. */
static pid_t start_watcher(const Workers *workers)
{
    const pid_t launcher = getpid(), watcher = fork();
    SYS_CHECK(watcher);
    if (watcher > 0)
        return watcher;
    setsid(); // Ctrl-C is for the launcher
    prctl(PR_SET_PDEATHSIG, SIGCHLD);
    while (getppid() == launcher)
        sigwaitinfo(&workers->signals, NULL); // only the launcher's death matters
    for (int i = 0; i < workers->num_workers; i++)
        if (workers->worker[i].has_group)
            kill(-workers->worker[i].pid, SIGKILL);
    remove_empty(workers->logs);
    _exit(EXIT_SUCCESS);
}

void workers_init(Workers *workers, Logs *logs, const sigset_t *chosen)
{
    const int num_workers = logs->flags->nproc_per_node;
    *workers =
        (Workers){ .logs = logs, .num_workers = num_workers, .passes_all_on = chosen != NULL };
    workers->worker = shared_memory((size_t)num_workers * sizeof *workers->worker);

    const int usual[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGXCPU };
    sigemptyset(&workers->signals);
    for (size_t i = 0; i < sizeof usual / sizeof usual[0]; i++)
        sigaddset(&workers->signals, usual[i]);
    if (chosen != NULL)
        workers->signals = *chosen;
    for (int signal = 1; signal < NSIG; signal++) {
        struct sigaction action;
        if (sigaction(signal, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
            sigdelset(&workers->signals, signal); // as under nohup or a shell's "&"
    }
    sigaddset(&workers->signals, SIGCHLD);

    sigset_t blocked = workers->signals;
    sigaddset(&blocked, SIGPIPE); // a console that is gone must not end the job
    SYS_CHECK(sigprocmask(SIG_BLOCK, &blocked, &workers->old_mask));
    workers->adopts = prctl(PR_SET_CHILD_SUBREAPER, 1) == 0;
    workers->watcher = start_watcher(workers);
}

void workers_free(Workers *workers)
{
    kill(workers->watcher, SIGKILL);
    waitpid(workers->watcher, NULL, 0);
    // timeout(1) and other wrappers send each signal twice, and the second may arrive only now. It
    // is ignored: it would kill this process, whose status must be that of the ranks. Of SIGINT
    // only a pending one is dropped: the user may press Ctrl-C again during a wait for other nodes.
    if (workers->request != 0)
        signal(workers->request, SIG_IGN);
    if (workers->request == SIGINT)
        signal(SIGINT, SIG_DFL);
    sigprocmask(SIG_SETMASK, &workers->old_mask, NULL);
    munmap(workers->worker, (size_t)workers->num_workers * sizeof *workers->worker);
}

/* Does the child's part of workers_start. After fork in a threaded process, locks may be held
 * forever, so only plain system calls follow. */
static noreturn void run_command(const Workers *workers, Worker *worker, pid_t launcher,
                                 char **command, const int *output, int error_fd)
{
    setsid();
    *worker = (Worker){ .pid = getpid(), .has_group = true }; // the launcher may be killed now
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != launcher) // it died before PDEATHSIG was set
        _exit(EXIT_FAILURE);
    const int no_input = worker == workers->worker ? -1 : open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (no_input >= 0)
        dup2(no_input, STDIN_FILENO);
    for (int i = 0; i < 2 && output != NULL; i++)
        if (output[i] >= 0)
            dup2(output[i], STDOUT_FILENO + i);
    sigprocmask(SIG_SETMASK, &workers->old_mask, NULL);
    if (numa_bind((int)(worker - workers->worker)))
        execvp(command[0], command);
    const int error = errno;
    _exit(write(error_fd, &error, sizeof error) < 0 ? EXIT_FAILURE : 127);
}

bool workers_start(Workers *workers, int local_rank, char **command)
{
    const Logs *logs = workers->logs;
    int *output = logs->output != NULL ? logs->output[local_rank] : NULL;
    Worker *worker = &workers->worker[local_rank];
    const pid_t launcher = getpid();
    int error_fd[2]; // closed by a successful exec, else carries errno
    const bool has_pipe = pipe2(error_fd, O_CLOEXEC) == 0;
    const pid_t pid = has_pipe ? fork() : -1;
    if (pid == 0)
        run_command(workers, worker, launcher, command, output, error_fd[1]);

    int error = pid < 0 ? errno : 0;
    for (int i = 0; i < 2 && output != NULL; i++) {
        if (output[i] >= 0)
            close(output[i]);
        output[i] = -1;
    }
    if (has_pipe) {
        close(error_fd[1]);
        if (pid > 0 && read(error_fd[0], &error, sizeof error) > 0)
            waitpid(pid, NULL, 0);
        close(error_fd[0]);
    }
    if (error == 0)
        *worker = (Worker){ .pid = pid, .running = true, .has_group = true };
    else
        *worker = (Worker){ .error = error,
                            .status = error == ENOENT ? 127 : 126,
                            .ended = seconds_awake() };
    workers->num_running += worker->running;
    return worker->running;
}

/* Records all workers that have ended, and whether their process groups have. Returns true if some
 * group is left. */
static bool reap(Workers *workers)
{
    bool any_left = false;
    for (int i = 0; i < workers->num_workers; i++) {
        Worker *worker = &workers->worker[i];
        pid_t pid = 1;
        while (worker->has_group && pid > 0) {
            int wait_status = 0;
            pid = waitpid(-worker->pid, &wait_status, WNOHANG);
            worker->has_group = // else ECHILD
                pid >= 0 || (!workers->adopts && kill(-worker->pid, 0) == 0);
            if (pid != worker->pid)
                continue;
            worker->running = false;
            worker->signal = WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) : 0;
            worker->status = worker->signal != 0 ? 128 + worker->signal : WEXITSTATUS(wait_status);
            worker->ended = seconds_awake();
            workers->num_running--;
        }
        any_left |= worker->has_group;
    }
    return any_left;
}

int workers_wait(Workers *workers, double seconds)
{
    int signal;
    double left, look; // often enough for seconds_awake
    const double end = seconds_awake() + seconds;
    do {
        left = fmax(end - seconds_awake(), 0);
        look = fmin(left, AWAKE_LOOK_SECONDS);
        signal = sigtimedwait(&workers->signals, NULL,
                              &(struct timespec){ .tv_nsec = (long)(1e9 * look) });
    } while (signal < 0 && errno == EAGAIN && left > look);
    reap(workers);
    if (signal <= 0 || signal == SIGCHLD)
        return 0;
    return workers->request = signal;
}

bool workers_all_ended_with(const Workers *workers, int status)
{
    for (int i = 0; i < workers->num_workers; i++)
        if (workers->worker[i].running || workers->worker[i].status != status)
            return false;
    return true;
}

const Worker *workers_failed(const Workers *workers, double timeout)
{
    const Worker *failed = NULL, *stopped = NULL;
    for (int i = 0; i < workers->num_workers; i++) {
        const Worker *worker = &workers->worker[i];
        if (worker->running || worker->status == 0)
            continue;
        if (worker->status == EXIT_STOPPED)
            stopped = worker;
        else if (failed == NULL || (failed->signal == 0 && worker->signal != 0))
            failed = worker; // of two at once, the killed one is no consequence of the other
    }
    if (failed != NULL || stopped == NULL || workers_all_ended_with(workers, EXIT_STOPPED))
        return failed;
    const bool is_alone = workers->num_running == 0 || seconds_awake() > stopped->ended + timeout;
    return is_alone ? stopped : NULL;
}

static void send_signal(Workers *workers, int signal)
{
    for (int i = 0; i < workers->num_workers; i++) {
        Worker *worker = &workers->worker[i];
        if (!worker->has_group)
            continue;
        worker->was_signalled |= worker->running;
        kill(-worker->pid, signal); // fails if all have just ended
        kill(-worker->pid, SIGCONT); // a stopped process would not handle it
    }
}

void workers_end(Workers *workers, int signal, double seconds)
{
    // Programs use these for purposes of their own.
    if (!workers->passes_all_on && (signal == SIGUSR2 || signal == SIGALRM || signal == SIGXCPU))
        signal = SIGTERM;
    workers_wait(workers, 0); // reaps, and notes a request that is pending
    send_signal(workers, signal);
    const double begun = seconds_awake();
    double deadline = begun + seconds;
    const double look = workers->adopts ? INFINITY : 0.1; // only our children's ends wake us
    while (reap(workers)) {
        const double left = fmax(deadline - seconds_awake(), 0);
        const int request = workers_wait(workers, fmin(left, look));
        const bool is_repeated = request == SIGINT && seconds_awake() > begun + DOUBLE_SECONDS;
        if (signal == SIGKILL && seconds_awake() > deadline) {
            log_warning("some processes outlive SIGKILL: is a device or file system stuck?");
            return;
        }
        if (signal != SIGKILL && (is_repeated || seconds_awake() > deadline)) {
            signal = SIGKILL;
            send_signal(workers, signal);
            deadline = seconds_awake() + KILL_SECONDS;
        }
    }
}
