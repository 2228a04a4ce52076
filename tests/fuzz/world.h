/*
 * world.h - the world as code under a fuzzer sees it: made of the input, without time, without end.
 *
 * An error ends the code under test but not the process; a wait is over at once, on a clock that
 * moves by what was waited for; files, peers and environment come from the input. All of it by the
 * linker's --wrap, so that common/ knows nothing of it.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include "tests/fuzz/input.h"

typedef void Body(Input input);

/* Runs body in such a world. Ends the process if body crosses the line: waits without a deadline,
 * or returns and has not freed what it allocated and opened (may_keep: it need not). */
void world_run(Body *body, bool may_keep, const uint8_t *data, size_t size);

/* The path of a file with these bytes; it lives as long as the run. */
const char *world_file(const void *data, size_t size);

/* A folder for files that need a name; what the run writes there, it removes. */
const char *world_folder(void);

/* getenv is to see "NAME=VALUE"; the text must outlive the run. */
void world_set_env(const char *text);

/* A connection on which these bytes come, then its end or nothing more. Takes what is sent. */
int world_connect(Input said);

/* The next connection to be accepted; returns its other end. */
int world_accept_next(void);

/* Whoever connects, or is accepted, from now on says one part of this. */
void world_set_peers(Input peers);

/* Ends the process, as a fault that the fuzzer is to report. */
#define EXPECT(condition) ((condition) ? (void)0 : world_fault(#condition))
void world_fault(const char *what);

#endif
