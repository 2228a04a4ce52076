/*
 * A process's rank from each launcher's variables, as mpirun 4.1, srun 22.05 and torchrun 2.15 set
 * them, and from invalid variables.
 */
#include <sched.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "tests/helpers/child.h"

#include "common/base/args.h"
#include "common/base/comfort.h"
#include "common/base/host.h"
#include "common/base/log.h"
#include "common/comm/dist_env.h"

/* Stands in for the C library's: the cores of this process's launcher, and of this process. */
static int launcher_cores = 0, own_cores = 0; // 0: as they are
int sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set)
{
    memset(set, 0, size);
    if (own_cores == 0)
        return syscall(SYS_sched_getaffinity, pid, size, set) < 0 ? -1 : 0;
    for (int core = 0; core < (pid == 0 ? own_cores : launcher_cores); core++)
        CPU_SET(core, set);
    return 0;
}

/* Sets only these variables, "NAME=value NAME=value"; a value ends at a space. */
static void set_variables(const char *list)
{
    clearenv();
    char *copy = strdup(list), *rest = copy;
    for (char *pair; (pair = strsep(&rest, " ")) != NULL;) {
        char *value = strchr(pair, '=');
        if (value == NULL)
            continue;
        *value = '\0';
        setenv(pair, value + 1, 1);
    }
    free(copy);
}

static const char *variable(const char *name)
{
    return getenv(name) != NULL ? getenv(name) : "-";
}

static void print_env(const void *list)
{
    set_variables(list);
    DistEnv env;
    dist_env_init(&env);
    printf("%d/%d local %d/%d master %s:%d | %s %s %s", env.rank, env.world_size, env.local_rank,
           env.local_world_size, env.master_addr != NULL ? env.master_addr : "-", env.master_port,
           variable("LOCAL_RANK"), variable("LOCAL_WORLD_SIZE"), variable("OMP_NUM_THREADS"));
}

static void log_env(const void *list)
{
    set_variables(list);
    DistEnv env;
    dist_env_init(&env);
    log_set_rank(env.rank, env.world_size);
    dist_env_log(&env, "cpu", (MemoryLocation){ 0 });
}

#define TORCHRUN "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 GROUP_RANK=1 "
#define MASTER "MASTER_ADDR=10.0.0.7 MASTER_PORT=1234 "
#define OMPI \
    "OMPI_COMM_WORLD_RANK=2 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=2 " \
    "OMPI_COMM_WORLD_LOCAL_SIZE=3 "
#define SLURM_JOB "SLURM_JOB_ID=7 SLURM_NTASKS=5 SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 "
#define SLURM_STEP \
    "SLURM_JOB_ID=7 SLURM_PROCID=4 SLURM_LOCALID=0 SLURM_NODEID=2 SLURM_STEP_NUM_TASKS=5 " \
    "SLURM_STEP_TASKS_PER_NODE=2(x2),1 "
#define SLURM_AGENTS \
    "SLURM_JOB_ID=7 SLURM_PROCID=1 SLURM_LOCALID=0 SLURM_NODEID=1 SLURM_STEP_NUM_TASKS=2 " \
    "SLURM_STEP_TASKS_PER_NODE=1(x2) "
#define NO_FIVE "RANK= WORLD_SIZE= LOCAL_RANK= MASTER_ADDR= MASTER_PORT= " // docker compose
#define PMI "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 "
// As the manuals of MVAPICH2, jsrun, flux and Cray's PALS have them, rank 3 of 4 on 2 nodes.
#define MVAPICH \
    "MV2_COMM_WORLD_RANK=3 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 " \
    "MV2_COMM_WORLD_LOCAL_SIZE=2 "
#define JSRUN \
    "JSM_NAMESPACE_RANK=3 JSM_NAMESPACE_SIZE=4 JSM_NAMESPACE_LOCAL_RANK=1 " \
    "JSM_NAMESPACE_LOCAL_SIZE=2 PMIX_RANK=3 "
#define FLUX \
    "FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2 PMI_FD=9 " \
    "PMI_RANK=3 PMI_SIZE=4 "
#define SUBMITIT /* as 1.5.4's LocalExecutor sets them */ \
    "SUBMITIT_LOCAL_GLOBALID=1 SUBMITIT_LOCAL_NTASKS=2 SUBMITIT_LOCAL_LOCALID=1 " \
    "SUBMITIT_LOCAL_NODEID=0 SUBMITIT_LOCAL_JOB_NUM_NODES=1 SUBMITIT_LOCAL_JOB_ID=2378 "
#define PALS "PALS_RANKID=3 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PMI_RANK=3 PMI_SIZE=4 "

static void test_launchers(void **state)
{
    (void)state;
    static const struct {
        const char *variables, *expected;
    } cases[] = {
        { TORCHRUN MASTER, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 " MASTER,
          "0/1 local 0/0 master 10.0.0.7:1234 | 0 - -" },
        { OMPI MASTER, "2/3 local 2/3 master 10.0.0.7:1234 | 2 3 -" },
        { OMPI, "2/3 local 2/3 master 127.0.0.1:29500 | 2 3 -" },
        { SUBMITIT, "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 -" },
        { SUBMITIT SLURM_JOB,
          "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 -" }, // in a step of Slurm
        { OMPI SLURM_JOB, "2/3 local 2/3 master 127.0.0.1:29500 | 2 3 -" }, // mpirun in a job
        { SLURM_STEP MASTER, "4/5 local 0/1 master 10.0.0.7:1234 | 0 1 -" },
        { SLURM_STEP "SLURM_CPUS_PER_TASK=1", "4/5 local 0/1 master -:0 | 0 1 1" },
        { SLURM_STEP "LOCAL_RANK=7 LOCAL_WORLD_SIZE=8", "4/5 local 0/1 master -:0 | 0 1 -" },
        { SLURM_STEP "SLURM_CPUS_PER_TASK=6 OMP_NUM_THREADS=3",
          "4/5 local 0/1 master -:0 | 0 1 3" },
        { PMI, "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 -" },
        { TORCHRUN MASTER OMPI SLURM_AGENTS PMI, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { OMPI SLURM_AGENTS PMI, "2/3 local 2/3 master 127.0.0.1:29500 | 2 3 -" },
        { PMI SLURM_AGENTS, "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 -" }, // MPICH in a job
        { SLURM_STEP "PMI_RANK=4 PMI_SIZE=5", // srun --mpi=pmi2
          "4/5 local 0/1 master -:0 | 0 1 -" },
        { MVAPICH MASTER, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { JSRUN MASTER, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { FLUX "LOCAL_WORLD_SIZE=2 " MASTER SLURM_AGENTS, // flux in a Slurm job
          "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { PALS MASTER, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { NO_FIVE OMPI "SLURMD_NODENAME= OMP_NUM_THREADS=",
          "2/3 local 2/3 master 127.0.0.1:29500 | 2 3 " },
        { "OMPI_COMM_WORLD_RANK= OMPI_COMM_WORLD_SIZE= " NO_FIVE SLURM_STEP,
          "4/5 local 0/1 master -:0 | 0 1 -" },
        // A launcher on each node, in a group that has shrunk to one node; mpirun's helpers.
        { "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 TORCHELASTIC_RUN_ID=x " MASTER
              SLURM_AGENTS,
          "0/1 local 0/1 master 10.0.0.7:1234 | 0 1 -" },
        { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 " MASTER
              SLURM_AGENTS,
          "0/1 local 0/0 master 10.0.0.7:1234 | 0 - -" },
        // In a shell started by srun --pty.
        { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 SLURM_PTY_PORT=7 " MASTER SLURM_STEP,
          "0/2 local 0/0 master 10.0.0.7:1234 | 0 - -" },
        // A shell loop in each task, and tasks numbered in another order.
        { "RANK=3 WORLD_SIZE=4 LOCAL_RANK=1 " MASTER SLURM_AGENTS,
          "3/4 local 1/0 master 10.0.0.7:1234 | 1 - -" },
        { "RANK=3 WORLD_SIZE=5 LOCAL_RANK=1 " MASTER SLURM_STEP,
          "3/5 local 1/0 master 10.0.0.7:1234 | 1 - -" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        if (child_run(print_env, cases[i].variables) != 0 || strcmp(out, cases[i].expected) != 0)
            fail_msg("%s\n gives    %s%s\n expected %s", cases[i].variables, out, err,
                     cases[i].expected);
    }
}

/* Two jobs of mpirun on one machine do not meet, while the ranks of each do. */
static void test_port_of_job(void **state)
{
    (void)state;
#define NAMED(rank, job) \
    "OMPI_COMM_WORLD_RANK=" rank " OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=" rank \
    " OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=" job
    static const char *const cases[][2] = {
        // 20000 + zlib.crc32(b"...") % 10000 in Python
        { NAMED("0", "prterun-node1-71@1"), "master 127.0.0.1:24838 " },
        { NAMED("1", "prterun-node1-71@1"), "master 127.0.0.1:24838 " },
        { NAMED("0", "prterun-node1-72@1"), "master 127.0.0.1:29599 " },
        { NAMED("1", "x MASTER_PORT=7"), "master 127.0.0.1:7 " },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(child_run(print_env, cases[i][0]), 0);
        assert_has(out, cases[i][1]);
    }
}

/* Hydra and srun's PMI name no job, but one process of theirs made all sockets of its ranks. */
static void test_port_of_hydra(void **state)
{
    (void)state;
    char variables[160];
    int tcp = socket(AF_INET, SOCK_STREAM, 0), pair[2], expected = 20000 + getpid() % 10000;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    const struct {
        int fd, port;
    } cases[] = { { pair[0], expected }, { pair[1], expected }, { tcp, 29500 }, { 999, 29500 } };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        snprintf(variables, sizeof variables,
                 "PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 PMI_FD=%d",
                 cases[i].fd);
        assert_int_equal(child_run(print_env, variables), 0);
        assert_int_equal(atoi(strstr(out, "127.0.0.1:") + 10), cases[i].port);
    }
    close(tcp), close(pair[0]), close(pair[1]);
}

/* Where nothing says how many ranks share the machine, other variables do. */
static void test_local_ranks(void **state)
{
    (void)state;
    if (!has_extras)
        skip();
#define BY_HAND "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 "
    static const struct {
        const char *variables, *expected;
    } cases[] = {
        { BY_HAND "MASTER_ADDR=127.0.0.1 MASTER_PORT=7",
          "1/4 local 1/4 master 127.0.0.1:7 | 1 4 -" },
        { BY_HAND "MASTER_ADDR=localhost MASTER_PORT=7 LOCAL_WORLD_SIZE=2",
          "1/4 local 1/2 master localhost:7 | 1 2 -" },
        { BY_HAND MASTER, "1/4 local 1/0 master 10.0.0.7:1234 | 1 - -" },
        { BY_HAND "LOCAL_SIZE=2 " MASTER, "1/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { "RANK=0 WORLD_SIZE=1 LOCAL_RANK=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=7", // the fourth GPU
          "0/1 local 3/0 master 127.0.0.1:7 | 3 - -" },
        { FLUX MASTER, "3/4 local 1/2 master 10.0.0.7:1234 | 1 2 -" },
        { "FLUX_TASK_RANK=1 FLUX_JOB_SIZE=2 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=1",
          "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 -" },
        { "FLUX_TASK_RANK=4 FLUX_JOB_SIZE=5 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2 "
          "LOCAL_WORLD_SIZE=1 " MASTER,
          "4/5 local 1/3 master 10.0.0.7:1234 | 1 3 -" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        assert_int_equal(child_run(print_env, cases[i].variables), 0);
        assert_string_equal(out, cases[i].expected);
    }
}

/* A launcher that binds its ranks has divided the cores, or has given several ranks the same. */
static void test_bound(void **state)
{
    (void)state;
    if (!has_extras)
        skip();
#define SLURM_HERE \
    "SLURM_PROCID=1 SLURM_LOCALID=1 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 " \
    "SLURM_NODEID=0"
    static const struct {
        int own, launcher;
        const char *variables, *threads;
    } cases[] = {
        { 4, 8, PMI, " 4" }, // half of the cores each, as Intel MPI does
        { 2, 8, PMI, " 2" }, // mpirun --map-by slot:PE=2
        { 8, 8, PMI, " -" }, // not bound: divided when the device begins
        { 8, 16, OMPI, " 5" }, // 3 ranks on a processor of 8 cores, or on two
        { 1, 2, OMPI, " 1" },  { 2, 8, PMI "OMP_NUM_THREADS=3", " 3" }, { 2, 8, SLURM_HERE, " -" },
    };
    for (size_t i = 0; i < LENGTH(cases); i++) {
        own_cores = cases[i].own;
        launcher_cores = cases[i].launcher;
        assert_int_equal(child_run(print_env, cases[i].variables), 0);
        const char *threads = strrchr(out, ' ');
        own_cores = 0;
        assert_string_equal(threads, cases[i].threads);
    }
}

/* A step may have fewer cores than the job was granted, and more threads would only wait. */
static void test_threads(void **state)
{
    (void)state;
    char expected[64];
    snprintf(expected, sizeof expected, "4/5 local 0/1 master -:0 | 0 1 %d", host_num_cores());
    assert_int_equal(child_run(print_env, SLURM_STEP "SLURM_CPUS_PER_TASK=100000"), 0);
    assert_string_equal(out, expected);
}

/* The rank's node determines the number of tasks, in all of Slurm's notations. */
static void test_tasks_per_node(void **state)
{
    (void)state;
    static const struct {
        const char *counts;
        int tasks[5]; // tasks of nodes 0, 1 ...
    } cases[] = { { "4", { 4 } },
                  { "12,10", { 12, 10 } },
                  { "2(x2)", { 2, 2 } },
                  { "3,1", { 3, 1 } },
                  { "2(x3),1", { 2, 2, 2, 1 } },
                  { "1,2(x2),16(x2)", { 1, 2, 2, 16, 16 } } };
    for (size_t i = 0; i < LENGTH(cases); i++)
        for (int node = 0; node < 5 && cases[i].tasks[node] > 0; node++) {
            char list[256], expected[32];
            snprintf(list, sizeof list,
                     "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=99 SLURM_LOCALID=0 SLURM_NODEID=%d "
                     "SLURM_STEP_TASKS_PER_NODE=%s",
                     node, cases[i].counts);
            snprintf(expected, sizeof expected, "0/99 local 0/%d ", cases[i].tasks[node]);
            assert_int_equal(child_run(print_env, list), 0);
            if (strncmp(out, expected, strlen(expected)) != 0)
                fail_msg("%s: %s, not %s", list, out, expected);
        }
}

static void test_refused(void **state)
{
    (void)state;
#define SLURM_RANK "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4 SLURM_LOCALID=0 "
    static const struct {
        const char *variables, *words[2];
    } cases[] = {
        { "", { ": RANK is not set", "run.sh" } },
        { "RANK=0", { ": WORLD_SIZE is not set", "run.sh" } },
        { "WORLD_SIZE=2", { ": RANK is not set", "run.sh" } },
        { SLURM_JOB, { "not a step", "srun" } },
        { "RANK=2 WORLD_SIZE=2 LOCAL_RANK=0", { "RANK is 2", "WORLD_SIZE is 2" } },
        { "RANK=x WORLD_SIZE=2 LOCAL_RANK=0", { "RANK is \"x\"", "whole number" } },
        { "RANK=0 WORLD_SIZE=-2 LOCAL_RANK=0", { "WORLD_SIZE is \"-2\"", "whole number" } },
        { "RANK=0 WORLD_SIZE=2", { "LOCAL_RANK is not set", "" } },
        { "RANK=3 WORLD_SIZE=5 " SLURM_STEP, { "LOCAL_RANK is not set", "" } },
        { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=2 LOCAL_WORLD_SIZE=2", { "LOCAL_RANK is 2", "2 ranks" } },
        { "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 GROUP_RANK=y", { "GROUP_RANK is \"y\"", "" } },
        { TORCHRUN "MASTER_ADDR=h MASTER_PORT=http", { "MASTER_PORT is \"http\"", "" } },
        { NO_FIVE, { ": RANK is not set", "run.sh" } },
        { SLURM_RANK "SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4", { "\"4\"", "node 1" } },
        { SLURM_RANK "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2(x", { "2(x", "" } },
        { SLURM_RANK "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=-3", { "\"-3\"", "2(x3),1" } },
        { SLURM_RANK "SLURM_NODEID=9 SLURM_STEP_TASKS_PER_NODE=2(x-4)", { "2(x-4)", "" } },
        { SLURM_RANK "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=2(x0),4", { "like 2(x3),1", "" } },
        { SLURM_RANK "SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=0", { "\"0\"", "like 2(x3),1" } },
        { SLURM_RANK "SLURM_NODEID=9 SLURM_STEP_TASKS_PER_NODE=2;2", { "2;2", "2(x3),1" } },
        { SLURM_RANK "SLURM_NODEID=0 SLURM_CPUS_PER_TASK=all", { "SLURM_CPUS_PER_TASK", "all" } },
    };
    for (size_t i = 0; i < LENGTH(cases); i++)
        assert_dies_saying(print_env, cases[i].variables, 1, cases[i].words[0], cases[i].words[1]);
}

/* An outer job's variables would take precedence, and each rank would train alone. */
static void test_left_over(void **state)
{
    (void)state;
#define LEFT_OVER "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0 "
    static const struct {
        const char *variables, *words[2];
    } cases[] = {
        { LEFT_OVER "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2",
          { "RANK is 0 of 1, but a launcher started 2 (OMPI_COMM_WORLD_SIZE): unset RANK, "
            "WORLD_SIZE",
            "" } },
        { LEFT_OVER MASTER "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=1(x2)",
          { "RANK is 0 of 1, but a launcher started 2 (SLURM_STEP_NUM_TASKS): unset RANK,", "" } },
        { LEFT_OVER "PMI_RANK=0 PMI_SIZE=2", { "but a launcher started 2 (PMI_SIZE)", "" } },
        { "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 OMPI_COMM_WORLD_LOCAL_RANK=0 "
          "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2",
          { "OMPI_COMM_WORLD_RANK is 0 of 1, but a launcher started 2",
            "unset OMPI_COMM_WORLD_RANK, " } },
        { LEFT_OVER "TORCHELASTIC_RUN_ID=x OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 "
                    "OMPI_COMM_WORLD_LOCAL_SIZE=2",
          { "RANK is 0 of 1, but a launcher started 2", "" } },
    };
    if (!has_extras)
        skip();
    for (size_t i = 0; i < LENGTH(cases); i++)
        assert_dies_saying(print_env, cases[i].variables, 2, cases[i].words[0], cases[i].words[1]);
}

static void test_master_left_over(void **state)
{
    (void)state;
    if (!has_extras)
        skip();
#define OMPI_0 "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_LOCAL_RANK=0 "
#define ELSEWHERE "MASTER_ADDR=192.0.2.1" // an address for documentation (RFC 5737)
    assert_int_equal(child_run(print_env, OMPI_0 "OMPI_COMM_WORLD_LOCAL_SIZE=3 " ELSEWHERE), 0);
    assert_non_null(strstr(err, "warning: MASTER_ADDR is 192.0.2.1, no address of this machine"));
    static const char *const silent[] = { OMPI_0 "OMPI_COMM_WORLD_LOCAL_SIZE=2 " ELSEWHERE,
                                          OMPI_0
                                          "OMPI_COMM_WORLD_LOCAL_SIZE=3 MASTER_ADDR=127.0.0.1",
                                          OMPI ELSEWHERE, TORCHRUN ELSEWHERE };
    for (size_t i = 0; i < LENGTH(silent); i++) {
        assert_int_equal(child_run(print_env, silent[i]), 0);
        assert_string_equal(err, "");
    }
}

static void test_overcommitted(void **state)
{
    (void)state;
    if (!has_extras)
        skip();
#define TASKS_0 "SLURM_PROCID=0 SLURM_LOCALID=0 SLURM_NODEID=0 SLURM_STEP_NUM_TASKS=8 "
    assert_int_equal(child_run(print_env, TASKS_0 "SLURM_STEP_TASKS_PER_NODE=4(x2) "
                                                  "SLURM_CPUS_ON_NODE=1"),
                     0);
    assert_non_null(strstr(err, "warning: 4 ranks share 1 core here (SLURM_CPUS_ON_NODE): leave"));
    static const char *const silent[] = {
        TASKS_0 "SLURM_STEP_TASKS_PER_NODE=4(x2) SLURM_CPUS_ON_NODE=4",
        TASKS_0 "SLURM_STEP_TASKS_PER_NODE=4(x2)",
        SLURM_STEP "SLURM_CPUS_ON_NODE=1",
        OMPI_0 "OMPI_COMM_WORLD_LOCAL_SIZE=3 SLURM_CPUS_ON_NODE=1",
    };
    for (size_t i = 0; i < LENGTH(silent); i++) {
        assert_int_equal(child_run(print_env, silent[i]), 0);
        assert_string_equal(err, "");
    }
}

/* Prints the store variables; only in torchrun's rows does the launcher serve the store. */
static void print_agent_store(const void *list)
{
    print_env(list);
    printf(" %s", variable("TORCHELASTIC_USE_AGENT_STORE"));
}

static void test_agent_store_left_over(void **state)
{
    (void)state;
    assert_int_equal(child_run(print_agent_store, OMPI "TORCHELASTIC_USE_AGENT_STORE=True"), 0);
    assert_string_equal(out, "2/3 local 2/3 master 127.0.0.1:29500 | 2 3 - -");
    assert_int_equal(child_run(print_agent_store, SLURM_STEP "TORCHELASTIC_USE_AGENT_STORE=True"),
                     0);
    assert_string_equal(out, "4/5 local 0/1 master -:0 | 0 1 - -");
    assert_int_equal(child_run(print_agent_store, SUBMITIT "TORCHELASTIC_USE_AGENT_STORE=True"), 0);
    assert_string_equal(out, "1/2 local 1/2 master 127.0.0.1:29500 | 1 2 - True");
    assert_int_equal(child_run(print_agent_store, TORCHRUN "TORCHELASTIC_USE_AGENT_STORE=True"), 0);
    assert_string_equal(out, "3/4 local 1/2 master -:0 | 1 2 - True");
}

static void test_line(void **state)
{
    (void)state;
    assert_int_equal(child_run(log_env, SLURM_STEP MASTER), 0);
    static const char *const words[] = { "[rank 4/5] node 2 (SLURM_NODEID) is host ",
                                         ": local rank 0 of 1 (SLURM_LOCALID), cpu, cores ",
                                         "; rank from SLURM_PROCID; master 10.0.0.7:1234 (MASTER" };
    for (size_t i = 0; i < LENGTH(words); i++)
        if (strstr(err, words[i]) == NULL)
            fail_msg("\"%s\" is not in %s", words[i], err);
    assert_ptr_equal(strchr(err, '\n'), err + strlen(err) - 1);
    char host[64] = "", begin[160];
    gethostname(host, sizeof host - 1);
    snprintf(begin, sizeof begin, "[rank 0/2] host %s: local rank 0 (LOCAL_RANK), cpu, cores ",
             host);
    assert_int_equal(child_run(log_env, "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0"), 0);
    assert_has(err, begin);
    assert_has(err, "; rank from RANK; master unknown:0 (MASTER_ADDR is not set)\n");
    assert_int_equal(child_run(log_env, OMPI "SLURMD_NODENAME=n7"), 0);
    assert_has(err, "[rank 2/3] host n7: local rank 2 of 3 (OMPI_COMM_WORLD_LOCAL_RANK), cpu, ");
    assert_has(err, "; master 127.0.0.1:29500 (all ranks are on one node)\n");
}

static void parse(Step step, const char *list)
{
    Args args;
    char *argv[] = { "train", NULL };
    set_variables(list);
    args_parse(&args, step, 1, argv);
}

static void parse_01(const void *list)
{
    parse(STEP_SINGLE, list);
}

static void parse_02(const void *list)
{
    parse(STEP_SPAWN, list);
}

static void parse_03(const void *list)
{
    parse(STEP_ENV, list);
}

/* Steps without launcher support would train in each of its ranks. A process that merely inherited
 * such variables is not a rank. */
static void test_steps_without_launcher(void **state)
{
    (void)state;
    static const char *const several[] = { "RANK=0 WORLD_SIZE=3 LOCAL_RANK=0",
                                           "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=3",
                                           "RANK= WORLD_SIZE= PMI_RANK=0 PMI_SIZE=2",
                                           SLURM_RANK "SLURM_NTASKS=9",
                                           "PMI_RANK=0 PMI_SIZE=2",
                                           "JSM_NAMESPACE_RANK=0 JSM_NAMESPACE_SIZE=2",
                                           "FLUX_TASK_RANK=0 FLUX_JOB_SIZE=2" };
    static const char *const alone[] = { "", "RANK=0 WORLD_SIZE=1", "LOCAL_RANK=0 WORLD_SIZE=2",
                                         SLURM_JOB, "SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1" };
    for (size_t i = 0; i < LENGTH(several); i++) {
        assert_dies_saying(parse_01, several[i], 2, "step 01 knows no launcher", "without one, or",
                           "if no others are there, unset ");
        assert_dies_saying(parse_02, several[i], 2, "step 02 knows no launcher", "with --nproc");
        assert_int_equal(child_run(parse_03, several[i]), 0);
    }
    for (size_t i = 0; i < LENGTH(alone); i++) {
        assert_int_equal(child_run(parse_01, alone[i]), 0);
        assert_int_equal(child_run(parse_02, alone[i]), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_launchers),      cmocka_unit_test(test_threads),
        cmocka_unit_test(test_port_of_job),    cmocka_unit_test(test_port_of_hydra),
        cmocka_unit_test(test_local_ranks),    cmocka_unit_test(test_bound),
        cmocka_unit_test(test_tasks_per_node), cmocka_unit_test(test_refused),
        cmocka_unit_test(test_left_over),      cmocka_unit_test(test_master_left_over),
        cmocka_unit_test(test_overcommitted),  cmocka_unit_test(test_agent_store_left_over),
        cmocka_unit_test(test_line),           cmocka_unit_test(test_steps_without_launcher),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
