/* page.h - what the page does for a rank that runs in it (docs/moving/rank.js). */
#ifndef EXTRAS_BROWSER_PAGE_H
#define EXTRAS_BROWSER_PAGE_H

#include <stdbool.h>
#include <stddef.h>

#define PAGE(name) __attribute__((import_module("page"), import_name(#name)))

int page_rank(void) PAGE(rank);

/* Returns whether the reader has struck out this line, a number of struck.h. */
bool page_struck(int line) PAGE(struck);

/* Sends a message of the collective that is described. Does not block. */
void page_send(int to, const char *call, const void *data, size_t bytes) PAGE(send);

/* Waits for a message; the whole rank stands still meanwhile. Writes the sender's description of
 * its call, or if it is gone why the group ends: "" if this rank is the first to find out. */
typedef enum { PAGE_OK, PAGE_OTHER_SIZE, PAGE_GONE } PageReceived;
PageReceived page_receive(int from, char *call, size_t call_bytes, void *data, size_t bytes)
    PAGE(receive);

/* Shows a step of this rank: the steps so far, its loss, and a hash of its weights. */
void page_step(int step, double loss, const void *weights, size_t bytes) PAGE(step);

#endif
