/* unit.h - what every C test includes: cmocka, and the headers that it needs before its own. */
#ifndef TESTS_HELPERS_UNIT_H
#define TESTS_HELPERS_UNIT_H

// clang-format off
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
// clang-format on

/* For a forked child: undoes cmocka's handlers, with which a child that crashes would go on with
 * the next test, and end with status 1. */
static inline void unit_leave(void)
{
    static const int signals[] = { SIGFPE, SIGILL, SIGSEGV, SIGBUS, SIGSYS };
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++)
        signal(signals[i], SIG_DFL);
}

#endif
