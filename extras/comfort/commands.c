/* Prints what to type on each node of a job: the flags as given, with each node's --node-rank. */
#include <stdio.h>
#include <string.h>

#include "common/base/log.h"
#include "extras/comfort/parts.h"

/* Returns true if the word is this flag, perhaps abbreviated or with its value after a "=". No
 * other flag begins with the first `fewest` letters. */
static bool is_flag(const char *word, const char *name, size_t fewest)
{
    if (strncmp(word, "--", 2) != 0)
        return false;
    const size_t length = strcspn(word + 2, "=");
    return length >= fewest && length <= strlen(name) && name_begins(name, word + 2, length);
}

/* Prints the word quoted for a shell. */
static void print_word(const char *word)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                "_./:=,+@%-";
    if (word[0] != '\0' && word[strspn(word, plain)] == '\0') {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (const char *c = word; *c != '\0'; c++)
        printf("%.*s", *c == '\'' ? 4 : 1, *c == '\'' ? "'\\''" : c);
    printf("'");
}

static void print_command(char **argv, char **program, int node_rank)
{
    printf("%s", argv[0]);
    if (node_rank >= 0)
        printf(" --node-rank %d", node_rank);
    for (char **word = argv + 1; *word != NULL; word++)
        if (word >= program)
            print_word(*word);
        else if (is_flag(*word, "node-rank", strlen("nod")))
            word += strchr(*word, '=') == NULL; // its value is the next word
        else if (!is_flag(*word, "print-commands", strlen("print-comm")))
            print_word(*word);
}

void comfort_print_commands(char **argv, char **program, const char *node_0, int num_nodes)
{
    const bool is_local = strncmp(node_0, "127.", 4) == 0 || strcmp(node_0, "localhost") == 0 ||
                          strcmp(node_0, "::1") == 0;
    if (num_nodes != 1 && is_local)
        usage_error("--print-commands: no other node reaches node 0 as %s; give --master-addr HOST "
                    "(or --rdzv-endpoint) with the name that all of them know",
                    node_0);
    if (num_nodes <= 1) {
        print_command(argv, program, -1);
        printf(num_nodes == 1 ? "\n" : "    # on each node\n");
    }
    for (int node = 0; num_nodes > 1 && node < num_nodes; node++) {
        print_command(argv, program, node);
        printf("    # on %s\n", node == 0 ? node_0 : "another node");
    }
    streams_exit();
}
