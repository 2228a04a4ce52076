/*
 * meeting - how long ranks take that only meet: they join the store, form a group and leave it.
 *
 *     build/bench/meeting 1000
 *
 * Forks the ranks, so no program is loaded. A line "ranks seconds", from the first fork until the
 * last rank has formed the group, and until all have ended.
 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/args.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/comm/process_group.h"
#include "common/comm/store/net.h"

static noreturn void meet(const Args *args, int port, int rank, int world_size, int formed)
{
    ProcessGroup pg;
    log_set_rank(rank, world_size);
    process_group_init(&pg, args, "127.0.0.1", port, rank, world_size, (MemoryLocation){ 0 });
    SYS_CHECK(write(formed, "", 1));
    process_group_destroy(&pg);
    exit(EXIT_SUCCESS);
}

int main(int argc, char **argv)
{
    words_check(argc, argv, 1,
                "Usage: build/bench/meeting RANKS\n\nHow long ranks take that only meet.\n");
    const int world_size = argc > 1 ? atoi(argv[1]) : 0;
    CHECK(argc == 2 && world_size > 0, "usage: %s RANKS", argv[0]);
    Args args;
    args_defaults(&args, "linear");
    args.backend = BACKEND_TCP;
    const int port = net_free_port();
    int formed[2];
    SYS_CHECK(pipe(formed));
    const double begin = seconds_now();
    for (int rank = 0; rank < world_size; rank++) {
        const pid_t pid = fork();
        SYS_CHECK(pid);
        if (pid == 0)
            meet(&args, port, rank, world_size, formed[1]);
    }
    close(formed[1]);
    char byte;
    int num_formed = 0, num_failed = 0, status;
    while (num_formed < world_size && read(formed[0], &byte, 1) == 1)
        num_formed++;
    const double met = seconds_now() - begin;
    while (wait(&status) > 0)
        num_failed += status != 0;
    CHECK(num_formed == world_size && num_failed == 0, "%d ranks failed", num_failed);
    log_print("%d ranks: formed a group after %.2f s, ended after %.2f s", world_size, met,
              seconds_now() - begin);
    return EXIT_SUCCESS;
}
