/*
 * world.h - the simulated environment of code under a fuzzer, made of the input.
 *
 * An error ends the code under test but not the process; a wait is over at once, on a clock that
 * advances by the time waited for; files, peers and environment come from the input. All of it uses
 * the linker's --wrap, so that common/ is unchanged.
 */
#ifndef TESTS_FUZZ_WORLD_H
#define TESTS_FUZZ_WORLD_H

#include "tests/fuzz/input.h"

typedef void Body(Input input);

/* Runs body in this environment. Ends the process if body waits without a deadline, or returns
 * without freeing and closing everything (with may_keep it need not). Returns whether body has got
 * past its first check. */
bool world_run(Body *body, bool may_keep, const uint8_t *data, size_t size);

/* Notes that the input has got past the first check of the code under test: a fuzzer whose inputs
 * seldom do so tests little else. */
void world_passed(void);

/* Returns the path of a file with these bytes, which exists until the end of the run. */
const char *world_file(const void *data, size_t size);

/* Returns a folder for files that need a name; the run must remove what it writes there. */
const char *world_folder(void);

/* Makes getenv return "NAME=VALUE"; the text must outlive the run. */
void world_set_env(const char *text);

/* Returns a connection that receives these bytes, then its end or nothing; it accepts all sends. */
int world_connect(Input input);

/* Makes the next connection to be accepted; returns its other end. */
int world_accept_next(void);

/* Makes every later peer, connected or accepted, send one part of this. */
void world_set_peers(Input peers);

/* Ends the process unless condition holds, so that the fuzzer reports it. */
#define EXPECT(condition) ((condition) ? (void)0 : world_fault(#condition))
void world_fault(const char *what);

#endif
