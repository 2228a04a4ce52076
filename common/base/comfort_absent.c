/* Stands in for extras/comfort, and for what other extras do for the log and the options. */
#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/options.h"

static void nothing(void)
{
}

const Comfort comfort = { .has_extras = false };
const ProgressBar progress_bar = { .erase = nothing, .redraw = nothing, .finish = nothing };

int write_text(int fd, const char *text, size_t length)
{
    return write_all(fd, text, length) ? 0 : errno;
}

bool log_wants(LogTopic topic)
{
    (void)topic;
    return false;
}

void log_detail(LogTopic topic, const char *format, ...)
{
    (void)topic, (void)format;
}

double parse_rate(const char *text)
{
    (void)text;
    return 0;
}
