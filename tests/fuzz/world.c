#include "tests/fuzz/world.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <jansson.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <stdnoreturn.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "common/base/signals.h"
#include "common/save/checkpoint.h"
#include "launcher/launch.h"
#include "tests/fuzz/memory.h"

/* The functions that the end of this file replaces, wherever they are called. */
noreturn void __real_exit(int status);
noreturn void __real__exit(int status);
int __real_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
                 const sigset_t *signals);
int __real_clock_gettime(clockid_t id, struct timespec *now);
char *__real_getenv(const char *name);
int __real_setenv(const char *name, const char *value, int overwrite);
unsigned __real_sleep(unsigned seconds);
int __real_pthread_mutex_lock(pthread_mutex_t *mutex);
int __real_pthread_mutex_unlock(pthread_mutex_t *mutex);
double __real_seconds_awake(void);
double __real_seconds_awake_at_tick(void);
int __real_poll_awake(struct pollfd *fds, nfds_t count, double seconds);
int __real_nanosleep(const struct timespec *time, struct timespec *rest);
int __real_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags);
int __real_net_connect(const char *host, int port, double deadline);
int __real_net_listen(const char *host, int *port);
int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __real_thread_start(pthread_t *thread, void *(*run)(void *), void *argument);
ssize_t __real_getrandom(void *bytes, size_t count, unsigned flags);
pid_t __real_getpid(void);
int __real_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found);
json_t *__real_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error);
json_t *__real_json_load_file(const char *path, size_t flags, json_error_t *error);
uint32_t __real_safetensors_checksum(const Safetensors *file, bool in_order);

/* Descriptors: the process's own below RUN_FD, then the run's, then those of its world. */
enum { RUN_FD = 64, WORLD_FD = 128, MAX_VARIABLES = 64 };

static bool running;
static bool is_foreign[WORLD_FD]; // open before the run: the fuzzer's own
static jmp_buf end_of_run;
static int64_t clock_ns;
static Input peers;
static bool passed; // the run's first check
static int accepted; // what accept4 returns next; 0: nothing
static const char *variables[MAX_VARIABLES];
static int num_variables;

void world_fault(const char *what)
{
    fprintf(stderr, "fault: %s\n", what);
    abort();
}

static void prepare(void)
{
    static char buffer[BUFSIZ];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer); // otherwise the first run would allocate it
    tzset(); // allocates too
    int fd;
    while ((fd = open("/dev/null", O_RDWR | O_CLOEXEC)) < RUN_FD)
        if (fd < 0)
            abort();
    close(fd);
}

/* Moves a descriptor out of the range of the run's own ones, which are counted. */
static int to_world(int fd)
{
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, WORLD_FD);
    close(fd);
    return moved;
}

static void note_descriptors(void)
{
    for (int fd = RUN_FD; fd < WORLD_FD; fd++)
        is_foreign[fd] = fcntl(fd, F_GETFD) >= 0;
}

/* Closes the descriptors that the run has left open. Returns false if there were none. */
static bool close_descriptors(void)
{
    bool left = false;
    for (int fd = RUN_FD; fd < WORLD_FD; fd++)
        if (!is_foreign[fd] && close(fd) == 0)
            left = true;
    close_range(WORLD_FD, WORLD_FD + WORLD_FD, 0);
    return left;
}

void world_passed(void)
{
    passed = true;
}

bool world_run(Body *body, bool may_keep, const uint8_t *data, size_t size)
{
    static bool ready;
    if (!ready)
        prepare();
    ready = true;
    note_descriptors();
    clock_ns = 0;
    num_variables = 0;
    peers = (Input){ 0 };
    accepted = 0;
    passed = false;
    memory_watch();
    running = true;
    bool must_free = false;
    if (setjmp(end_of_run) == 0) {
        body((Input){ data, size, false });
        must_free = !may_keep;
    }
    running = false;
    if (must_free && memory_is_left())
        world_fault("memory is left");
    memory_release();
    if (close_descriptors() && must_free)
        world_fault("a descriptor is left");
    return passed;
}

const char *world_file(const void *data, size_t size)
{
    static char path[64];
    const int fd = to_world(memfd_create("input", MFD_CLOEXEC));
    if (write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return path;
}

static char folder[4096];

/* Removes the folder and what a run has left in it that ended in the middle. */
static void remove_folder(void)
{
    DIR *directory = opendir(folder);
    for (struct dirent *entry; directory != NULL && (entry = readdir(directory)) != NULL;)
        unlinkat(dirfd(directory), entry->d_name, 0); // has no effect on "." and ".."
    if (directory != NULL)
        closedir(directory);
    rmdir(folder);
}

const char *world_folder(void)
{
    if (folder[0] == '\0') {
        const char *temporary = __real_getenv("TMPDIR");
        snprintf(folder, sizeof folder, "%s/fuzz_XXXXXX", temporary != NULL ? temporary : "/tmp");
        if (mkdtemp(folder) == NULL || atexit(remove_folder) != 0)
            abort();
    }
    return folder;
}

void world_set_env(const char *text)
{
    if (num_variables < MAX_VARIABLES)
        variables[num_variables++] = text;
}

int world_connect(Input input)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0 ||
        send(fds[1], input.data, input.size, 0) != (ssize_t)input.size ||
        (!input.stays && shutdown(fds[1], SHUT_WR) < 0))
        abort();
    to_world(fds[1]);
    return fds[0];
}

int world_accept_next(void)
{
    int fds[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) < 0)
        abort();
    accepted = to_world(fds[0]); // not a run's descriptor until accepted
    return to_world(fds[1]);
}

void world_set_peers(Input input)
{
    peers = input;
}

/* What follows takes the place of the functions of these names. */

static noreturn void leave(int status)
{
    EXPECT(status >= 0 && status <= 2);
    longjmp(end_of_run, 1);
}

void __wrap_exit(int status)
{
    running ? leave(status) : __real_exit(status);
}

void __wrap__exit(int status)
{
    running ? leave(status) : __real__exit(status);
}

/* Nothing arrives but what is there already, so every wait lasts until its timeout. */
int __wrap_ppoll(struct pollfd *fds, nfds_t count, const struct timespec *time,
                 const sigset_t *signals)
{
    if (!running)
        return __real_ppoll(fds, count, time, signals);
    const int ready = __real_ppoll(fds, count, &(struct timespec){ 0 }, signals);
    if (ready == 0) {
        EXPECT(time != NULL);
        clock_ns += (int64_t)time->tv_sec * 1000000000 + time->tv_nsec;
    }
    return ready;
}

int __wrap_poll(struct pollfd *fds, nfds_t count, int timeout)
{
    const struct timespec time = { timeout / 1000, timeout % 1000 * 1000000L };
    return __wrap_ppoll(fds, count, timeout < 0 ? NULL : &time, NULL);
}

/* The same as __wrap_ppoll for _FORTIFY_SOURCE, as with Ubuntu's gcc. */
int __wrap___ppoll_chk(struct pollfd *fds, nfds_t count, const struct timespec *time,
                       const sigset_t *signals, size_t fds_bytes)
{
    EXPECT(count <= fds_bytes / sizeof *fds);
    return __wrap_ppoll(fds, count, time, signals);
}

int __wrap___poll_chk(struct pollfd *fds, nfds_t count, int timeout, size_t fds_bytes)
{
    EXPECT(count <= fds_bytes / sizeof *fds);
    return __wrap_poll(fds, count, timeout);
}

/* Reading the clock takes time as well, so that no loop can do only that forever. */
int __wrap_clock_gettime(clockid_t id, struct timespec *now)
{
    if (!running || id != CLOCK_MONOTONIC)
        return __real_clock_gettime(id, now);
    clock_ns += 1000;
    *now = (struct timespec){ 1000 + clock_ns / 1000000000, clock_ns % 1000000000 };
    return 0;
}

/* A run is never stopped, so the deadlines' clock is the same, without state of the run before. */
double __wrap_seconds_awake(void)
{
    return running ? seconds_now() : __real_seconds_awake();
}

double __wrap_seconds_awake_at_tick(void)
{
    return running ? seconds_now() : __real_seconds_awake_at_tick();
}

int __wrap_poll_awake(struct pollfd *fds, nfds_t count, double seconds)
{
    if (!running)
        return __real_poll_awake(fds, count, seconds);
    const double left = fmin(fmax(seconds, 0), 1e9);
    const struct timespec time = { (time_t)left, (long)(1e9 * fmod(left, 1)) };
    return __wrap_ppoll(fds, count, &time, NULL);
}

unsigned __wrap_sleep(unsigned seconds)
{
    if (!running)
        return __real_sleep(seconds);
    clock_ns += (int64_t)seconds * 1000000000;
    return 0;
}

int __wrap_nanosleep(const struct timespec *time, struct timespec *rest)
{
    if (!running)
        return __real_nanosleep(time, rest);
    clock_ns += time->tv_sec * 1000000000 + time->tv_nsec;
    return 0;
}

char *__wrap_getenv(const char *name)
{
    if (!running)
        return __real_getenv(name);
    const size_t length = strlen(name);
    for (int i = 0; i < num_variables; i++)
        if (strncmp(variables[i], name, length) == 0 && variables[i][length] == '=')
            return (char *)variables[i] + length + 1;
    return NULL;
}

int __wrap_setenv(const char *name, const char *value, int overwrite)
{
    return running ? 0 : __real_setenv(name, value, overwrite);
}

int __wrap_net_listen(const char *host, int *port)
{
    if (!running)
        return __real_net_listen(host, port);
    *port = 1;
    return eventfd(peers.size > 0,
                   EFD_CLOEXEC | EFD_NONBLOCK); // readable as long as a peer connects
}

int __wrap_accept4(int fd, struct sockaddr *address, socklen_t *length, int flags)
{
    if (!running)
        return __real_accept4(fd, address, length, flags);
    int next = accepted > 0 ? fcntl(accepted, F_DUPFD_CLOEXEC, 0) : 0;
    if (accepted > 0)
        close(accepted);
    accepted = 0;
    if (next == 0 && peers.size > 0)
        next = world_connect(input_part(&peers));
    if (peers.size == 0)
        eventfd_read(fd, &(eventfd_t){ 0 });
    errno = EAGAIN;
    return next > 0 ? next : -1;
}

int __wrap_net_connect(const char *host, int port, double deadline)
{
    if (!running)
        return __real_net_connect(host, port, deadline);
    if (peers.size > 0)
        return world_connect(input_part(&peers));
    clock_ns += 1000000000;
    errno = ECONNREFUSED;
    return -1;
}

/* Resolves no names, because the C library keeps memory for a lookup. */
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    struct addrinfo numeric = hints != NULL ? *hints : (struct addrinfo){ 0 };
    numeric.ai_flags |= running ? AI_NUMERICHOST | AI_NUMERICSERV : 0;
    return __real_getaddrinfo(host, port, &numeric, found);
}

/* Starts no thread, so that a run is a single thread and deterministic. */
int __wrap_thread_start(pthread_t *thread, void *(*run)(void *), void *argument)
{
    return running ? 0 : __real_thread_start(thread, run, argument);
}

/* Does not lock, because a run that exits inside would leave it locked for the next. */
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return running ? 0 : __real_pthread_mutex_lock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    return running ? 0 : __real_pthread_mutex_unlock(mutex);
}

/* Returns known bytes, so that the input can contain secrets. */
ssize_t __wrap_getrandom(void *bytes, size_t count, unsigned flags)
{
    if (!running)
        return __real_getrandom(bytes, count, flags);
    memset(bytes, 'r', count);
    return (ssize_t)count;
}

pid_t __wrap_getpid(void)
{
    return running ? 0x70696421 : __real_getpid();
}

/* Simulates a machine with three GPUs. */
int __wrap_glob(const char *pattern, int flags, int (*error)(const char *, int), glob_t *found)
{
    if (!running)
        return __real_glob(pattern, flags, error, found);
    *found = (glob_t){ .gl_pathc = 3 };
    return 0;
}

/* Avoids the child in which a build with CUDA counts GPUs, whose exit would end the run here. */
int __wrap_gpus_count(void)
{
    return has_extras ? comfort_gpus_listed() : 0;
}

/* JSON is the first check of most formats. */
json_t *__wrap_json_loadb(const char *text, size_t bytes, size_t flags, json_error_t *error)
{
    json_t *value = __real_json_loadb(text, bytes, flags, error);
    passed |= value != NULL;
    return value;
}

json_t *__wrap_json_load_file(const char *path, size_t flags, json_error_t *error)
{
    json_t *value = __real_json_load_file(path, flags, error);
    passed |= value != NULL;
    return value;
}

uint32_t __wrap_safetensors_checksum(const Safetensors *file, bool in_order)
{
    const uint32_t checksum = __real_safetensors_checksum(file, in_order);
    return running ? 0xdeadbeef : checksum;
}
