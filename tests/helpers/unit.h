/* unit.h - what every C test includes: cmocka, and the headers that it needs before its own. */
#ifndef TESTS_HELPERS_UNIT_H
#define TESTS_HELPERS_UNIT_H

// clang-format off
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
// clang-format on

#endif
