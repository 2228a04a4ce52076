/*
 * log_topics.h - what happens inside, on request: DDP_LOG=distributed,bucket,store,sampler.
 *
 *   distributed   who meets where, who is there, which backend, what each collective waits for
 *   bucket        the reducer's plan, when each bucket leaves and how long it is waited for
 *   store         the store's server and clients
 *   sampler       the rows of each epoch
 *
 * "all" means all of them. PyTorch's variable TORCH_LOGS turns on the first if it contains
 * "distributed"; its other words are for PyTorch alone.
 */
#ifndef COMMON_BASE_LOG_TOPICS_H
#define COMMON_BASE_LOG_TOPICS_H

#include <stdbool.h>

typedef enum { LOG_DISTRIBUTED, LOG_BUCKET, LOG_STORE, LOG_SAMPLER, NUM_LOG_TOPICS } LogTopic;

/* Did the environment ask for it? After the first call this only reads a word. */
bool log_wants(LogTopic topic);

/* If so, one line to standard error: "[rank 1/4] 16:03:30.123456 bucket: ...", the time of day to
 * the microsecond. May be called from any thread. */
void log_detail(LogTopic topic, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
