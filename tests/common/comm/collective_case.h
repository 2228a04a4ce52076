/* collective_case.h - a collective call of a test, its arrays and their expected contents. */
#ifndef TESTS_COMMON_COMM_COLLECTIVE_CASE_H
#define TESTS_COMMON_COMM_COLLECTIVE_CASE_H

#include <stdnoreturn.h>

#include "common/comm/process_group.h"

#define LARGE 33001 // too long for tcp's short messages even in bytes, and not a round number

/* A call that every rank makes, with its description for messages. */
typedef struct {
    ProcessGroup *pg;
    const char *name; // the call's name
    DType type;
    ReduceOp op;
    size_t count; // the call's count
    int root; // root or peer
    bool async;
    int salt; // makes inputs differ from case to case
} Case;

/* Memory for the cases' arrays: host memory, unless a test sets this before the first case. */
typedef struct {
    void *(*new)(const void *initial, size_t bytes);
    void (*read)(void *to, const void *array, size_t bytes);
    void (*free)(void *array);
} CaseMemory;
extern const CaseMemory *case_memory; // NULL for host memory

/* Dies with a line that names the case and the element. */
noreturn void case_fail(const Case *c, size_t i, double got, double expected);

/* Returns an array of `shares` times count elements of this rank's input, and a guard behind them,
 * which array_free checks. */
void *array_new(const Case *c, size_t shares);
void array_free(const Case *c, void *array, size_t shares);

/* Writes or reads element i of any type; put rounds to the type's nearest value. */
void element_put(void *array, DType type, size_t i, double value);
double element_get(const void *array, DType type, size_t i);

/* Compares numel elements of an array from `from` on with rank's input from `at` on. */
void expect_input(const Case *c, const void *array, size_t from, size_t numel, int rank, size_t at);

/* Compares an array of count elements with the reduction of all ranks' input from `at` on. */
void expect_reduced(const Case *c, const void *array, size_t at);

#endif
