/* Do the ranks make the same calls? Calls with the same sequence number in a group must match. */
#include <stdlib.h>
#include <string.h>

#include "common/base/memory.h"
#include "common/comm/backend.h"
#include "tools/doctor/flight_reader.h"
#include "tools/doctor/sentences.h"
#include "tools/doctor/source_line.h"

/* Counts the parts that make this call. */
static int count_same(const Part *part, const Part *end, const char *call)
{
    int count = 0;
    char text[DESCRIPTION_BYTES];
    for (; part < end; part++)
        count += strcmp(flight_entry_describe(part->entry, text), call) == 0;
    return count;
}

/* Writes "rank 1 calls broadcast #3 of 10 int32 from rank 0 at train.c:95", with all ranks that
 * make this call. */
static void describe_call(Sentences *sentences, const Part *part, const Part *end, const char *call)
{
    bool *has = mem_calloc((size_t)sentences->attempt->world_size, sizeof *has);
    char text[DESCRIPTION_BYTES], list[RANK_LIST_BYTES], line[SOURCE_LINE_BYTES];
    const Part *first = NULL;
    for (; part < end; part++)
        if (strcmp(flight_entry_describe(part->entry, text), call) == 0) {
            has[part->rank] = true;
            first = first == NULL ? part : first;
        }
    rank_list(has, sentences->attempt->world_size, list);
    source_line(sentences->attempt->flight[first->rank].record, first->entry, line);
    put(sentences, "%s call%s %s at %s", list, list[4] == 's' ? "" : "s", call, line);
    free(has);
}

bool find_mismatch(Sentences *sentences)
{
    const Attempt *attempt = sentences->attempt;
    const Part *end = attempt->part + attempt->num_parts, *next;
    for (const Part *part = attempt->part; part < end; part = next) {
        next = attempt_next(attempt, part);
        char usual[DESCRIPTION_BYTES], other[DESCRIPTION_BYTES];
        flight_entry_describe(part->entry, usual);
        const int same = count_same(part, next, usual);
        if (same == next - part)
            continue;
        const Part *odd = part;
        while (strcmp(flight_entry_describe(odd->entry, other), usual) == 0)
            odd++;
        const bool first_is_usual = 2 * same >= next - part;
        put(sentences, "The ranks' calls differ: ");
        describe_call(sentences, part, next, first_is_usual ? other : usual);
        put(sentences, ", ");
        describe_call(sentences, part, next, first_is_usual ? usual : other);
        put(sentences, ". From there on nothing fits: the ranks must make the same calls.");
        return true;
    }
    return false;
}
