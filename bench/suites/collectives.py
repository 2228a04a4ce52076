"""Collectives by size: ours, Gloo's and Open MPI's."""

import os
from pathlib import Path

from suite import Contender, Goal, Suite

KIB = 1 << 10
NOTE = ("float32, host memory, the ranks on one machine and bound to no core. Sizes are those of the longer "
        "array; algbw and busbw are nccl-tests'. Calls follow one another: the median of batches in which no thread "
        "waited for a core, where there are five (bench/collectives.h), each as long as its slowest rank takes, by "
        "call. So a short broadcast shows how many a second there can be: its root need not wait.")
# PML ob1 drives the BTLs that are named; of those left, the one for shared memory is vader or sm, by version.
TCP = ["--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo"]
SHARED_MEMORY = ["--mca", "pml", "ob1", "--mca", "btl", "^tcp,openib"]
MPI_ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
OPERATIONS = ["all_reduce", "broadcast", "all_gather"]
NOTE_4 = NOTE + (" Linux shares cores out to sessions; ddprun makes one of each rank, mpirun of all: so ours are "
                 "also started by mpirun, and those stand beside Open MPI's.")
BY_MPIRUN = ", by mpirun"
HOMES = os.environ.get("MPI_HOMES", "").split()  # of other MPIs: each has bin/mpicc and bin/mpirun


def contenders(ranks, *what, by_mpirun=False):
    ddprun = ["03_torchrun_env/ddprun", "--nproc-per-node", str(ranks)]
    mpirun = ["mpirun", "-n", str(ranks), "--bind-to", "none", "--oversubscribe"]
    ours, theirs = "{build}/bench/collectives", "{build}/bench/collectives_mpi"

    def mpi(name, *command, **environment):
        return Contender(name, [*mpirun, *command, *what], MPI_ENVIRONMENT | environment,
                         needs=["{build}/bench/collectives_mpi"])

    others = [Contender(Path(home).name, [f"{home}/bin/mpirun", "-n", str(ranks), f"{theirs}_{Path(home).name}", *what],
                        MPI_ENVIRONMENT | {"I_MPI_ROOT": home, "LD_LIBRARY_PATH": f"{home}/lib", "PATH": f"{home}/bin:{os.environ['PATH']}",
                                           "PRTE_MCA_rmaps_default_mapping_policy": ":oversubscribe"})
              for home in HOMES]
    also = [
        mpi("ddp.c (tcp)" + BY_MPIRUN, ours, "tcp", DDP_SHM_DISABLE="1"),
        mpi("ddp.c (shared memory)" + BY_MPIRUN, ours, "tcp"),
    ]
    return [
        Contender("ddp.c (tcp)", [*ddprun, ours, "tcp", *what], {"DDP_SHM_DISABLE": "1"}),
        Contender("ddp.c (shared memory)", [*ddprun, ours, "tcp", *what]),
        mpi("ddp.c (mpi)", ours, "mpi"),
        Contender("Gloo", [*ddprun, "{python}", "bench/collectives_gloo.py", *what]),
        mpi("Open MPI (shared memory)", *SHARED_MEMORY, theirs),
        mpi("Open MPI (tcp)", *TCP, theirs),
        *others,
    ] + (also if by_mpirun else [])


def goals(operations, ranks, started=""):
    for operation in operations:
        case = f"{operation}, {ranks} ranks"
        yield Goal(case, "Open MPI (tcp)", 1, ours="ddp.c (tcp)" + started, x_from=256 * KIB)
        yield Goal(case, "Gloo", 5, x_from=256 * KIB)
        yield Goal(case, "Gloo", 5, ours="ddp.c (shared memory)", x_from=256 * KIB)
        yield Goal(case, "Open MPI (shared memory)", 1, ours="ddp.c (shared memory)" + started, x_from=4)


def bus(ranks):
    return {f"all_reduce, {ranks} ranks": 2 * (ranks - 1) / ranks}


SUITES = [
    Suite("collectives_2", "Collectives between 2 ranks", contenders(2, "4", *OPERATIONS), note=NOTE,
          goals=[*goals(OPERATIONS, 2), Goal("all_reduce, 2 ranks, 1 KiB", limit=15)], bus=bus(2)),
    Suite("collectives_4", "All-reduce between 4 ranks", contenders(4, "16", "all_reduce", by_mpirun=True), note=NOTE_4,
          seconds=75, goals=list(goals(["all_reduce"], 4, BY_MPIRUN)), bus=bus(4)),
]
