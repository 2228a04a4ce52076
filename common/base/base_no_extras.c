/* Stands in for extras/comfort, extras/output and extras/watch in the log, the options and the
 * host. */
#include <errno.h>
#include <limits.h>

#include "common/base/comfort.h"
#include "common/base/log.h"
#include "common/base/options.h"

const bool has_extras = false;

void comfort_read_config(struct Settings *settings)
{
    (void)settings;
}

const char *comfort_guess(const Option *options, int step, const char *typed, size_t length)
{
    (void)options, (void)step, (void)typed, (void)length;
    return "";
}

const char *comfort_meaning(const Option *option, const char *text, const char *origin)
{
    (void)option, (void)origin;
    return text;
}

void comfort_announce(const struct Args *args, int world_size, const char *device)
{
    (void)args, (void)world_size, (void)device;
}

int comfort_core_quota(void)
{
    return INT_MAX;
}

void progress_bar_finish(void)
{
}

int write_text(int fd, const char *text, size_t length)
{
    return write_all(fd, text, length) ? 0 : errno;
}

bool log_enabled(LogTopic topic)
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
