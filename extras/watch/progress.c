/*
 * The bar is the unfinished last line of the terminal: to print a line, a writer removes it first
 * and redraws it below, holding a lock in between.
 */
#include "extras/watch/progress.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"
#include "common/base/signals.h"
#include "extras/output/terminal.h"

enum { BAR_WIDTH = 30, NOBODY = -1 };
#define WAIT_SECONDS 2.0 // after this time the bar shows which rank is waited for

static pthread_mutex_t terminal = PTHREAD_MUTEX_INITIALIZER;
static char bar[256]; // as drawn on the terminal; empty if none
static double drawn_at;
static struct {
    char text[101]; // the last bar's text
    size_t done, total;
} latest;
static _Atomic double waiting_since; // 0 if this rank does not wait
static atomic_int waiting_for = NOBODY; // NOBODY if unknown

bool progress_on_terminal(void)
{
    static int answer = -1; // cached, since it is asked at every step
    if (answer < 0) {
        struct stat file;
        const bool piped = fstat(STDOUT_FILENO, &file) == 0 && S_ISFIFO(file.st_mode);
        answer = terminal_is(STDERR_FILENO) && !piped;
    }
    return answer;
}

static void draw(const char *text)
{
    // A bar that cannot be drawn is no reason to stop.
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        bar[0] = '\0';
}

bool progress_due(size_t done, size_t total)
{
    return progress_on_terminal() && total > 0 &&
           (done == total || seconds_now() - drawn_at >= 0.1);
}

/* Makes the bar and draws it; `terminal` is locked. */
static void draw_bar(const char *text, size_t done, size_t total)
{
    // The counter is shown whole; the bar gives way first, then the text.
    char count[48];
    snprintf(count, sizeof count, "%zu/%zu", done, total);
    const int room = terminal_columns(STDERR_FILENO) - (int)strlen(count) - (int)strlen(" []  ");
    int text_width = (int)strnlen(text, 100), width = room - text_width;
    width = width < 0 ? 0 : width > BAR_WIDTH ? BAR_WIDTH : width;
    text_width = text_width < room - width ? text_width : room > width ? room - width : 0;

    const int filled = (int)(width * (double)(done < total ? done : total) / (double)total);
    char line[BAR_WIDTH + 1];
    memset(line, ' ', BAR_WIDTH);
    memset(line, '=', (size_t)filled);
    if (filled < width)
        line[filled] = '>';
    line[width] = '\0';

    // Without line wrap (?7l): a bar longer than the terminal is wide could not be erased.
    snprintf(bar, sizeof bar, "\r\033[K\033[?7l%.*s [%s] %s\033[?7h", text_width, text, line,
             count);
    draw(bar);
}

/* Replaces the bar's text in a thread while this rank waits, since the training thread cannot. */
static void *watch_waits(void *unused)
{
    (void)unused;
    for (;;) {
        poll(NULL, 0, 1000);
        pthread_mutex_lock(&terminal);
        const double since = waiting_since, now = seconds_awake();
        const int rank = waiting_for;
        if (bar[0] != '\0' && since > 0 && now - since >= WAIT_SECONDS) {
            char text[128], who[32] = "the others";
            if (rank != NOBODY)
                snprintf(who, sizeof who, "rank %d", rank);
            snprintf(text, sizeof text, "%.*s, waiting %.0f s for %s",
                     (int)strcspn(latest.text, ","), latest.text, now - since, who);
            draw_bar(text, latest.done, latest.total);
        }
        pthread_mutex_unlock(&terminal);
    }
    return NULL;
}

void progress_waits(bool begins)
{
    waiting_for = NOBODY;
    waiting_since = begins ? seconds_awake_at_tick() : 0;
}

void progress_waits_for(int rank)
{
    waiting_for = rank;
}

void progress_update(const char *text, size_t done, size_t total)
{
    static pthread_t watcher;
    static bool watches;
    if (!progress_due(done, total))
        return;
    drawn_at = seconds_now();
    if (!watches)
        watches = thread_start(&watcher, watch_waits, NULL) == 0; // else waits are not shown
    pthread_mutex_lock(&terminal);
    snprintf(latest.text, sizeof latest.text, "%s", text);
    latest.done = done;
    latest.total = total;
    draw_bar(text, done, total);
    pthread_mutex_unlock(&terminal);
}

void progress_bar_finish(void)
{
    pthread_mutex_lock(&terminal);
    if (bar[0] != '\0')
        draw("\r\033[K");
    bar[0] = '\0';
    pthread_mutex_unlock(&terminal);
}

void progress_bar_erase(void)
{
    pthread_mutex_lock(&terminal);
    if (progress_on_terminal()) // the bar drawn there may be another rank's
        draw("\r\033[K");
}

void progress_bar_redraw(void)
{
    if (bar[0] != '\0')
        draw(bar);
    pthread_mutex_unlock(&terminal);
}
