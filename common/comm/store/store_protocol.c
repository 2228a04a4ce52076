/*
 * The operations and the shape of their arguments, as one table, and the function that uses it to
 * find where a request ends. Once a request is known to be whole and within the limits, executing
 * it needs no further length checks.
 */
#include "common/comm/store/store_protocol.h"

#include <string.h>

static const struct {
    const char *name;
    const char *arguments; // u: u32, i: i64, k: key, v: value; n: a count, of what follows it
} operations[STORE_NUM_OPERATIONS] = {
    [STORE_VALIDATE] = { "VALIDATE", "u" },
    [STORE_SET] = { "SET", "kv" },
    [STORE_COMPARE_SET] = { "COMPARE_SET", "kvv" },
    [STORE_GET] = { "GET", "k" },
    [STORE_ADD] = { "ADD", "ki" },
    [STORE_CHECK] = { "CHECK", "nk" },
    [STORE_WAIT] = { "WAIT", "nk" },
    [STORE_GETNUMKEYS] = { "GETNUMKEYS", "" },
    [STORE_DELETE_KEY] = { "DELETE_KEY", "k" },
    [STORE_APPEND] = { "APPEND", "kv" },
    [STORE_MULTI_GET] = { "MULTI_GET", "nk" },
    [STORE_MULTI_SET] = { "MULTI_SET", "nkv" },
    [STORE_CANCEL_WAIT] = { "CANCEL_WAIT", "" },
    [STORE_PING] = { "PING", "u" },
    [STORE_QUEUE_PUSH] = { "QUEUE_PUSH", "kv" },
    [STORE_QUEUE_POP] = { "QUEUE_POP", "k" },
    [STORE_QUEUE_LEN] = { "QUEUE_LEN", "k" },
    [STORE_LIST_KEYS] = { "LIST_KEYS", "" },
    [STORE_BARRIER] = { "BARRIER", "ki" },
};

const char *store_operation_name(StoreOperation operation)
{
    return operations[operation].name;
}

/* After a count: what follows is repeated that often, perhaps never. */
static void start_repeating(RequestMeasure *measure, uint64_t times)
{
    measure->repeat = measure->argument;
    measure->repeats = times;
    measure->argument = "";
}

RequestState request_measure(RequestMeasure *measure, const uint8_t *data, size_t count)
{
    if (measure->bytes == 0) {
        if (count == 0)
            return REQUEST_PARTIAL;
        if (data[0] >= STORE_NUM_OPERATIONS)
            return REQUEST_NONSENSE;
        measure->bytes = 1;
        measure->argument = operations[data[0]].arguments;
    }
    for (;;) {
        if (*measure->argument == '\0') {
            if (measure->repeats == 0)
                return REQUEST_WHOLE;
            measure->repeats--;
            measure->argument = measure->repeat;
        }
        const char argument = *measure->argument;
        const size_t left = count - measure->bytes;
        size_t size = argument == 'u' ? sizeof(uint32_t) : sizeof(uint64_t);
        if (left < size)
            return REQUEST_PARTIAL;

        uint64_t number = 0;
        memcpy(&number, data + measure->bytes, size);
        if ((argument == 'k' && number > STORE_MAX_KEY) ||
            (argument == 'v' && number > STORE_MAX_VALUE) ||
            (argument == 'n' && number > STORE_MAX_KEYS))
            return REQUEST_NONSENSE;
        if (argument == 'k' || argument == 'v')
            size += number;
        if (measure->bytes + size > STORE_MAX_BUFFER)
            return REQUEST_NONSENSE;
        if (left < size)
            return REQUEST_PARTIAL;

        measure->bytes += size;
        measure->argument++;
        if (argument == 'n')
            start_repeating(measure, number);
    }
}
