/*
 * A launcher's external input: another node's failure report, the store where it meets the other
 * nodes, the list of GPUs, a worker's error file; and for elastic groups, a node's entry and the
 * assignment it is given.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/comfort.h"
#include "launcher/launch.h"
#include "launcher/node_assignment.h"
#include "tests/fuzz/targets.h"

/* Checks that a parsed report can be forwarded and printed, and is parsed again. */
static void read_report(Input input)
{
    Failure failure, again;
    if (!failure_decode(&failure, (const char *)input.data, input.size))
        return;
    char *text = failure_encode(&failure);
    EXPECT(failure_decode(&again, text, strlen(text)));
    EXPECT(again.status == failure.status && again.rank == failure.rank);
    free(text);

    static Flags flags;
    char *command[] = { "train", NULL };
    flags.program = command[0];
    flags.command = command;
    report_print(&failure, &(Workers){ .logs = &(Logs){ .flags = &flags } }, 0);
}

static void meet(Input input)
{
    static Flags flags;
    const int node_rank = input_byte(&input) % 3;
    flags = (Flags){ .nproc_per_node = 2,
                     .min_nodes = 3,
                     .max_nodes = 3,
                     .node_rank = node_rank,
                     .master_addr = "hostile",
                     .master_port = 29500,
                     .run_id = "none",
                     .role = "default",
                     .join_timeout = 20 };
    world_set_peers(input);
    Store store;
    const Ranks ranks = rendezvous(&store, &flags);
    world_passed();
    EXPECT(ranks.first_rank >= 0 && ranks.first_rank < ranks.world_size);
    store_free(&store);
}

static void count_gpus(Input input)
{
    static char text[1024];
    if (input_line(&input, text, sizeof text) != NULL)
        world_set_env(text);
    EXPECT(!has_extras || comfort_gpus_listed() >= 0);
    world_passed();
}

static void read_error_file(Input input)
{
    static Flags flags;
    static Logs logs;
    logs.flags = &flags;
    strcpy(logs.attempt, world_folder());
    char folder[PATH_MAX], path[PATH_MAX];
    logs_path(&logs, 0, "", folder);
    logs_path(&logs, 0, "error.json", path);
    mkdir(folder, 0700);
    FILE *file = fopen(path, "wb");
    EXPECT(file != NULL && fwrite(input.data, 1, input.size, file) == input.size);
    fclose(file);

    Failure failure;
    failure_of_worker(&failure, &(Worker){ .status = 1 }, 0, 0, &logs);
    EXPECT(strlen(failure.message) < sizeof failure.message);
    unlink(path);
    rmdir(folder);
}

static void read_node(Input input)
{
    Node nodes[2] = { { .role = "default", .num_ranks = 2 } }, again;
    if (!node_decode(&nodes[1], (const char *)input.data, input.size))
        return;
    const Ranks ranks = nodes_share_ranks(nodes, 2, 1);
    EXPECT(ranks.first_rank == 2 && ranks.world_size == 2 + nodes[1].num_ranks);
    EXPECT(ranks.first_role_rank + nodes[1].num_ranks == ranks.role_world_size);
    const Flags flags = { .role = nodes[1].role, .nproc_per_node = nodes[1].num_ranks };
    char *text = node_encode(&flags, nodes[1].number);
    EXPECT(node_decode(&again, text, strlen(text)));
    EXPECT(memcmp(&again, &nodes[1], sizeof again) == 0);
    free(text);
}

static void read_assignment(Input input)
{
    Assignment assignment, again;
    if (!assignment_decode(&assignment, (const char *)input.data, input.size))
        return;
    EXPECT(assignment.is_over ||
           (assignment.node_rank > 0 && assignment.node_rank < assignment.num_nodes));
    EXPECT(assignment.is_over || assignment.ranks.first_rank < assignment.ranks.world_size);
    char *text = assignment_encode(&assignment);
    EXPECT(assignment_decode(&again, text, strlen(text)));
    EXPECT(memcmp(&again.ranks, &assignment.ranks, sizeof assignment.ranks) == 0);
    EXPECT(again.status == assignment.status && strcmp(again.reason, assignment.reason) == 0);
    free(text);
}

void fuzz_launch(Input input)
{
    static Body *const kinds[] = { read_report,     meet,      count_gpus,
                                   read_error_file, read_node, read_assignment };
    kinds[input_byte(&input) % (sizeof kinds / sizeof kinds[0])](input);
}
