/* page.h - what the page does for a rank that runs in it (docs/moving/rank.js). */
#ifndef EXTRAS_BROWSER_PAGE_H
#define EXTRAS_BROWSER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

int page_rank(void);

/* Returns whether the reader has struck out this line, a number of struck.h. */
bool page_struck(int line);

/* Sends a message of the collective that is described. Does not block. */
void page_send(int to, const char *call, const void *data, size_t bytes);

/* Waits for a message; the whole rank stands still meanwhile. Writes the sender's description of
 * its call, or if it is gone why the group ends: "" if this rank is the first to find out. */
typedef enum { PAGE_OK, PAGE_OTHER_SIZE, PAGE_GONE } PageReceived;
PageReceived page_receive(int from, char *call, size_t call_bytes, void *data, size_t bytes);

/* Shows a step of this rank: the steps so far, its loss, and a hash of its weights. */
void page_step(int step, double loss, const void *weights, size_t bytes);

#endif
