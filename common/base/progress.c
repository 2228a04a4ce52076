#include "common/base/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

enum { BAR_WIDTH = 30 };

static char bar[256]; // what stands on the terminal; empty: nothing
static double drawn_at;

static bool on_terminal(void)
{
    static int answer = -1; // asked once: it is asked at every step
    if (answer < 0) {
        const char *term = getenv("TERM");
        answer = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    }
    return answer;
}

static void draw(const char *text)
{
    // A bar that cannot be drawn is no reason to stop.
    if (write(STDERR_FILENO, text, strlen(text)) < 0)
        bar[0] = '\0';
}

void progress_update(const char *text, size_t done, size_t total)
{
    const double now = seconds_now();
    if (!on_terminal() || total == 0 || (done < total && now - drawn_at < 0.1))
        return;
    drawn_at = now;

    const int filled = (int)(BAR_WIDTH * (double)(done < total ? done : total) / (double)total);
    char line[BAR_WIDTH + 1];
    memset(line, ' ', BAR_WIDTH);
    memset(line, '=', (size_t)filled);
    if (filled < BAR_WIDTH)
        line[filled] = '>';
    line[BAR_WIDTH] = '\0';
    snprintf(bar, sizeof bar, "\r\033[K%s [%s] %zu/%zu", text, line, done, total);
    draw(bar);
}

void progress_finish(void)
{
    progress_erase();
    bar[0] = '\0';
}

void progress_erase(void)
{
    if (bar[0] != '\0')
        draw("\r\033[K");
}

void progress_redraw(void)
{
    if (bar[0] != '\0')
        draw(bar);
}
