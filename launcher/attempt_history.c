/* The history of a restarted job is printed again at its end: by then the output of the ranks has
 * scrolled the first lines away. */
#include "launcher/attempt_history.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/log.h"

#define THICK_RULE "============================================================\n"

static void print_attempt(FILE *out, int attempt, const Failure *root)
{
    char end[END_BYTES];
    fprintf(out, "attempt %d: ", attempt);
    if (root == NULL)
        fprintf(out, "nodes have come");
    else if (root->rank < 0)
        fprintf(out, "%s", root->message);
    else
        fprintf(out, "rank %d on node %d (%s): %s%s%.200s", root->rank, root->node, root->host,
                end_text(root->status, root->signal, end), root->message[0] != '\0' ? ": " : "",
                root->message);
}

void history_add(History *history, int attempt, const Failure *root, const Workers *workers,
                 int first_rank)
{
    char *line = NULL;
    size_t length = 0;
    FILE *out = open_memstream(&line, &length);
    CHECK(out != NULL, "out of memory");
    print_attempt(out, attempt, root);
    fclose(out);
    if (root == NULL || !fault_block_print(root, workers, first_rank, attempt))
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
