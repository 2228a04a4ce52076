/* Stands in for extras/output and extras/comfort in the launcher. */
#include "common/base/comfort.h"
#include "launcher/launch.h"

void rank_output_check(const Flags *flags)
{
    (void)flags;
}

void rank_output_open(Logs *logs, int first_rank)
{
    (void)logs, (void)first_rank;
}

void rank_output_close(Logs *logs)
{
    (void)logs;
}

bool numa_bind(int local_rank)
{
    (void)local_rank;
    return true;
}

/* report_print prints a line instead. */
void rank_report(const Failure *root, const Workers *workers, int first_rank)
{
    (void)root, (void)workers, (void)first_rank;
}

bool fault_block_print(const Failure *root, const Workers *workers, int first_rank, int attempt)
{
    (void)root, (void)workers, (void)first_rank, (void)attempt;
    return false;
}

const char *comfort_start_advice(const char *program, int error)
{
    (void)program, (void)error;
    return "";
}

int comfort_gpus_listed(void)
{
    return -1;
}

void comfort_share_cores(int num_ranks, bool is_bound)
{
    (void)num_ranks, (void)is_bound;
}

/* No option of this build asks for it. */
void comfort_print_commands(char **argv, char **program, const char *node_0, int num_nodes)
{
    (void)argv, (void)program, (void)node_0, (void)num_nodes;
}

void comfort_print_completion(const char *shell, const Option *flags, int step)
{
    (void)shell, (void)flags, (void)step;
}
