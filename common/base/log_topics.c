/* The two variables are read once, at the first call. */
#include "common/base/log_topics.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/log.h"

static const char *const names[NUM_LOG_TOPICS] = { "distributed", "bucket", "store", "sampler" };
static unsigned wanted; // a bit for each topic
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned topics_of(const char *word, size_t length)
{
    if (length == strlen("all") && strncmp(word, "all", length) == 0)
        return (1u << NUM_LOG_TOPICS) - 1;
    for (int topic = 0; topic < NUM_LOG_TOPICS; topic++)
        if (strlen(names[topic]) == length && strncmp(names[topic], word, length) == 0)
            return 1u << topic;
    return 0;
}

static void read_variable(const char *name, bool is_ours)
{
    const char *word = getenv(name);
    while (word != NULL && *word != '\0') {
        if (!is_ours && *word == '+') // PyTorch's more; "-distributed" is less
            word++;
        const size_t length = strcspn(word, ",");
        const unsigned topics = topics_of(word, length);
        if (is_ours)
            wanted |= topics;
        else
            wanted |= topics & 1u << LOG_DISTRIBUTED;
        if (is_ours && topics == 0 && length > 0 && log_speaks_for_job())
            log_warning("DDP_LOG=%.*s: there are distributed, bucket, store, sampler and all",
                        (int)length, word);
        word += length + (word[length] == ',');
    }
}

static void read_variables(void)
{
    read_variable("DDP_LOG", true);
    read_variable("TORCH_LOGS", false);
}

bool log_wants(LogTopic topic)
{
    pthread_once(&once, read_variables);
    return (wanted & 1u << topic) != 0;
}

void log_detail(LogTopic topic, const char *format, ...)
{
    if (!log_wants(topic))
        return;
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);

    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    log_info("%02d:%02d:%02d.%06ld %s: %s", day.tm_hour, day.tm_min, day.tm_sec, now.tv_nsec / 1000,
             names[topic], text);
}
