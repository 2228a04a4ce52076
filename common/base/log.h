/* log.h - prints results, messages and details, and ends a process that has failed. */
#ifndef COMMON_BASE_LOG_H
#define COMMON_BASE_LOG_H

#include <errno.h>
#include <stdbool.h>
#include <stdnoreturn.h>
#include <string.h>

/* Makes later messages start with "[rank 1/4] "; before, they start with the program's name. */
void log_set_rank(int rank, int world_size);

/* Writes the prefix of messages to label and returns it. Safe in a signal handler. */
#define LOG_LABEL_BYTES 160
char *log_label(char label[LOG_LABEL_BYTES]);

/* Prints a result: one line to standard output, in one write, so that the lines of several ranks
 * never mix. Dies if standard output cannot be written: results must not be lost silently. */
void log_print(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a message about the run: one line to standard error, with the rank in front. */
void log_info(const char *format, ...) __attribute__((format(printf, 1, 2)));
void log_warning(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Makes text safe for a terminal: half characters and controls (C1 too), but `keep`, become "?". */
void text_disarm(char *text, const char *keep);

/* Writes complete lines in one write; on a terminal above the progress bar, in colours and with
 * words kept whole (extras/output/terminal.c). Returns 0 or an errno. */
int write_text(int fd, const char *text, size_t length);

/* Ends this process with status 1: a rank that cannot go on reports why in one line and leaves the
 * rest to its launcher, whose TORCHELASTIC_ERROR_FILE also gets the line. Uses _exit, because no
 * exit handler may wait for a thread that waits for a dead peer. May be called from any thread. */
noreturn void die(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Does what die() does, but returns; the caller exits with status 1. Prints the message on request,
 * and records it for the report of the launcher: JSON, as PyTorch's @record writes it, in
 * $TORCHELASTIC_ERROR_FILE. Only the first message is kept. Control characters in it become "?". If
 * restart is false, ddprun does not restart the job, which would only fail again. */
void log_last_error(char *message, bool print, bool restart);

/* Returns any text as a JSON string (jansson's json_t). JSON is UTF-8, but a file name may be any
 * bytes: if it is not UTF-8, each byte beyond ASCII becomes "?". NULL if out of memory. */
struct json_t *json_text(const char *text);

/* Also copies the first error message into this buffer, cut to `bytes`; NULL stops that. */
void log_copy_error(char *buffer, size_t bytes);

/* Exit statuses besides the usual 0 and 1. */
#define EXIT_USAGE 2 // the command line is invalid
#define EXIT_STOPPED 75 // stopped on request; start it again to continue

/* Ends this process with status 2: the command line (or its configuration file) asks for something
 * impossible. The line gives the remedy; log_prints_for_node decides which rank prints it. */
noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Return whether this process reports what several ranks detect: it is rank 0, or has no rank. For
 * errors in the command line: it is local rank 0, or rank 0 if no local rank is set. */
bool log_prints_for_job(void);
bool log_prints_for_node(void);

/* Details of what happens inside, on request, by topic: DDP_LOG=bucket,store (extras/watch). */
typedef enum { LOG_DISTRIBUTED, LOG_BUCKET, LOG_STORE, LOG_SAMPLER, NUM_LOG_TOPICS } LogTopic;

/* Returns whether the environment asks for this topic; later calls only read a variable. */
bool log_enabled(LogTopic topic);

/* Writes one line to standard error if log_enabled it, with the time of day to the microsecond:
 * "[rank 1/4] 16:03:30.123456 bucket: ...". May be called from any thread. */
void log_detail(LogTopic topic, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Opens closed standard streams, because files would get their descriptors and output; call it
 * first. Writes to closed streams fail from here on, and so does a write beyond the limit of ulimit
 * -f, instead of raising a signal. SIGCHLD is no longer ignored if our parent ignored it, because
 * wait() would lose the children's exit statuses. SIGINT and SIGTERM end PID 1, too. */
void streams_guard(void);

/* Writes all of it, and waits if another process has made the descriptor non-blocking. Returns
 * false and sets errno on failure. */
bool write_all(int fd, const void *bytes, size_t count);

/* Ends this process after the last printf: with status 0, or 1 and a line if output was lost. */
noreturn void streams_exit(void);

double seconds_now(void); // on a monotonic clock; its zero is arbitrary

/* Removes the progress bar that extras/watch draws on the last line of standard error, for good. */
void progress_bar_finish(void);

#define CANNOT_PRINT "cannot write to standard output: %s; send it elsewhere" // format, a string

/* CHECK(condition, format, ...) ends this process with the message unless the condition holds. */
#define CHECK(condition, ...) \
    do { \
        if (!(condition)) \
            die(__VA_ARGS__); \
    } while (0)

/* SYS_CHECK(call) does so for a system call: negative is failure, errno the reason. */
#define SYS_CHECK(call) \
    do { \
        if ((call) < 0) \
            die("%s:%d: %s: %s", __FILE__, __LINE__, #call, strerror(errno)); \
    } while (0)

#endif
