/*
 * The history of a restarted job is printed again at its end: by then the output of the ranks has
 * scrolled the first lines away.
 */
#include "05_fault_tolerance/attempt_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define THICK_RULE "============================================================\n"

void history_add(History *history, int attempt, const Failure *root)
{
    char *failure = root != NULL ? failure_line(root) : NULL, *line = NULL;
    CHECK(asprintf(&line, "attempt %d: %.300s", attempt,
                   failure != NULL ? failure : "nodes have come") >= 0,
          "out of memory");
    free(failure);
    log_info("%s; restarting the group", line);

    char *earlier = history->text;
    CHECK(asprintf(&history->text, "%s  %s\n", earlier != NULL ? earlier : "", line) >= 0,
          "out of memory");
    free(earlier);
    free(line);
}

void history_print(const History *history)
{
    char *text = NULL;
    if (history->text == NULL)
        return;
    CHECK(asprintf(&text, "Earlier attempts:\n%s" THICK_RULE, history->text) >= 0, "out of memory");
    write_text(STDERR_FILENO, text, strlen(text));
    free(text);
}

void history_free(History *history)
{
    free(history->text);
}
