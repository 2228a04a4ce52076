/*
 * Details of what happens inside, on request: DDP_LOG=distributed,bucket,store,sampler.
 *
 *   distributed   where ranks meet, which have joined, the backend, what each collective waits for
 *   bucket        the reducer's plan, when each bucket leaves and how long it is waited for
 *   store         the store's server and clients
 *   sampler       the rows of each epoch
 *
 * "all" means all of them. PyTorch's variable TORCH_LOGS turns on the first if it contains
 * "distributed"; its other words are for PyTorch alone. The variables are read once, at the first
 * call.
 */
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "common/base/log.h"

static const char *const topic_names[NUM_LOG_TOPICS] = { "distributed", "bucket", "store",
                                                         "sampler" };
static unsigned wanted; // one bit per topic
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* Adds the topics in a variable's list of words, if they are among `known`. */
static void read_variable(const char *name, unsigned known, bool warn)
{
    char *words = strdup(getenv(name) != NULL ? getenv(name) : ""), *rest = words;
    for (char *word; (word = strsep(&rest, ",")) != NULL;) {
        word += word[0] == '+' && !warn; // PyTorch's "+" asks for more, "-" for less
        unsigned topics = strcmp(word, "all") == 0 ? known : 0;
        for (int topic = 0; topic < NUM_LOG_TOPICS; topic++)
            if (strcmp(word, topic_names[topic]) == 0)
                topics |= known & 1u << topic;
        wanted |= topics;
        if (warn && topics == 0 && word[0] != '\0' && log_prints_for_job())
            log_warning("DDP_LOG=%s: there are distributed, bucket, store, sampler and all", word);
    }
    free(words);
}

static void read_variables(void)
{
    read_variable("DDP_LOG", (1u << NUM_LOG_TOPICS) - 1, true);
    read_variable("TORCH_LOGS", 1u << LOG_DISTRIBUTED, false);
}

bool log_enabled(LogTopic topic)
{
    pthread_once(&once, read_variables);
    return (wanted & 1u << topic) != 0;
}

void log_detail(LogTopic topic, const char *format, ...)
{
    if (!log_enabled(topic))
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
             topic_names[topic], text);
}
