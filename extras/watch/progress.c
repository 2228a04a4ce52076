/*
 * The bar is the unfinished last line of the terminal: whoever writes a line removes it first and
 * redraws it below, holding a lock in between.
 */
#include "extras/watch/progress.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/log.h"

enum { BAR_WIDTH = 30 };

static pthread_mutex_t terminal = PTHREAD_MUTEX_INITIALIZER;
static char bar[256]; // as drawn on the terminal; empty: none
static double drawn_at;

/* Lines that go through a pipe (`| grep Test`) reach the terminal at a time of their own: they
 * would end up in the middle of a bar. */
static bool on_terminal(void)
{
    static int answer = -1; // cached, since it is asked at every step
    if (answer < 0) {
        const char *term = getenv("TERM");
        struct stat file;
        const bool piped = fstat(STDOUT_FILENO, &file) == 0 && S_ISFIFO(file.st_mode);
        answer = isatty(STDERR_FILENO) && !piped && term != NULL && strcmp(term, "dumb") != 0;
    }
    return answer;
}

static void draw(const char *text)
{
    // A bar that cannot be drawn is no reason to stop.
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        bar[0] = '\0';
}

/* How wide the terminal is now: its user may have changed that. */
static int columns(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool progress_due(size_t done, size_t total)
{
    return on_terminal() && total > 0 && (done == total || seconds_now() - drawn_at >= 0.1);
}

void progress_update(const char *text, size_t done, size_t total)
{
    if (!progress_due(done, total))
        return;
    drawn_at = seconds_now();

    // The counter is shown whole; the bar gives way first, then the text.
    char count[48];
    snprintf(count, sizeof count, "%zu/%zu", done, total);
    const int room = columns() - (int)strlen(count) - (int)strlen(" []  ");
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

    pthread_mutex_lock(&terminal);
    // Without line wrap (?7l): a bar longer than the terminal is wide could not be erased.
    snprintf(bar, sizeof bar, "\r\033[K\033[?7l%.*s [%s] %s\033[?7h", text_width, text, line,
             count);
    draw(bar);
    pthread_mutex_unlock(&terminal);
}

static void finish(void)
{
    pthread_mutex_lock(&terminal);
    if (bar[0] != '\0')
        draw("\r\033[K");
    bar[0] = '\0';
    pthread_mutex_unlock(&terminal);
}

static void erase(void)
{
    pthread_mutex_lock(&terminal);
    if (on_terminal()) // the bar on it may be another rank's
        draw("\r\033[K");
}

static void redraw(void)
{
    if (bar[0] != '\0')
        draw(bar);
    pthread_mutex_unlock(&terminal);
}

const ProgressBar progress_bar = { .erase = erase, .redraw = redraw, .finish = finish };
