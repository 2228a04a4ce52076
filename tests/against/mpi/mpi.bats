#!/usr/bin/env bats
# The mpi backend, in ranks that mpirun starts (tests/against/mpi/mpi_ranks.c).

load ../../helpers/free_port

setup() {
    ranks=${BUILD:-build}/tests/against/mpi/mpi_ranks
    command -v mpirun >/dev/null || skip "no mpirun"
    grep -q MPI=1 "${BUILD:-build}/parts" || skip "built without MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 # containers have no other user
    export OMPI_MCA_btl_vader_single_copy_mechanism=none             # nor may they use this one
    export OMPI_MCA_odls_base_sigkill_timeout=0                      # kill who is left at once
    export OMPI_MCA_btl_tcp_if_include=lo                            # on others 5.0 may report IPv4 beside IPv6
    unset MASTER_ADDR MASTER_PORT # MPI needs no store
}

# on RANKS COMMAND...: what the command prints on that many ranks is in $output, but for the line that they are connected.
on() {
    run timeout -k 5 300 03_torchrun_env/mpirun.sh "$@"
    output=$(grep -v ' ranks*, connected by mpi$' <<<"$output" || true)
    echo "$output"
}

# differ CASE RANK0 RANK1: the calls of ranks 0 and 1, as the line that ends the run names them.
differ() {
    on 3 "$ranks" "$1"
    [ "$status" -eq 1 ]
    [[ $output == *"fatal: the ranks' calls differ: rank 0 calls $2, rank 1 calls $3"* ]]
}

@test "mpi: every collective, type and operation, on 1 to 5 ranks" {
    for n in 1 2 3 4 5; do
        on $n "$ranks" all
        [ "$status" -eq 0 ]
        [ -z "$output" ]
    done
}

@test "mpi: and with calls compared" {
    on 3 "$ranks" all_checked
    [ "$status" -eq 0 ]
}

@test "mpi: calls that do not fit together are named, both sides" {
    differ two_kinds 'all_reduce #0 of 1000 float32 (sum)' 'broadcast #0 of 10 int32 from rank 0'
    differ two_counts 'reduce_scatter #0 of 20 float32 (max)' 'reduce_scatter #0 of 10 float32 (max)'
    differ two_types 'all_reduce #0 of 5 float32 (mean)' 'all_reduce #0 of 5 int32 (mean)'
    differ two_ops 'all_reduce #0 of 5 float64 (max)' 'all_reduce #0 of 5 float64 (min)'
    differ two_roots 'gather #0 of 10 uint8 to rank 0' 'gather #0 of 10 uint8 to rank 1'
    differ one_call_less 'all_reduce #0 of 5 int64 (sum)' 'barrier #0'
}

@test "mpi: a message of another length than expected is named" {
    on 2 "$ranks" short_message
    [ "$status" -eq 1 ]
    [[ $output == *"recv #0 of 11 float32 from rank 0: rank 0 sends 40 bytes"* ]]
    on 2 "$ranks" long_message
    [ "$status" -eq 1 ]
    [[ $output == *"recv #0 of 10 float32 from rank 0: "*runcate* ]]
}

@test "mpi: a rank that stays away ends the others at the timeout" {
    on 3 "$ranks" absent # for 60 s, after which it ends well; the timeout is 1 s
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ] # 1, or 9 by MPICH, which kills the rank that stays away
    [[ $output == *"all_reduce #0 of 5 float32 (sum) did not end within 1 s: a rank is missing"* ]]
}

@test "mpi: a rank that is killed ends the others" {
    on 3 "$ranks" killed
    [ "$status" -ne 0 ] && [ "$status" -ne 124 ]
}

@test "mpi: more elements than MPI can count are refused" {
    on 1 "$ranks" too_many
    [ "$status" -eq 1 ]
    [[ $output == *"all_reduce #0 of 2147483648 float32 (sum): MPI counts to 2147483647"* ]]
}

@test "mpi: over a store that is open already" {
    MASTER_PORT=$(free_port)
    export MASTER_PORT MASTER_ADDR=127.0.0.1
    on 2 "$ranks" store
    [ "$status" -eq 0 ]
    [ -z "$output" ]
}

@test "mpi: ranks with other options are named" {
    on 3 "$ranks" otherwise
    [ "$status" -eq 1 ]
    # Ranks 0 and 1 find each other's, rank 2 finds rank 1's; the first to report ends the job.
    [[ $output == *"the ranks disagree: rank 0 has --check-collectives off, rank 1 has --check-collectives on"* ||
        $output == *"the ranks disagree: rank 1 has --check-collectives on, rank 2 has --check-collectives off"* ]]
}

@test "mpi: a rank that does not start or end MPI keeps nobody beyond the timeout" {
    for missing in without_rank_1:MPI_Init end_without_rank_1:MPI_Finalize; do
        # Rank 1 stays away for 60 s, and mpirun, which should end it, may take that long under load.
        on 3 "$ranks" ${missing%:*}
        [ "$status" -ne 0 ] # 1, unless mpirun, told of several ends at once, crashes in PMIx_server_finalize
        [[ $output == *"fatal: ${missing#*:} did not end within 1 s: a rank was not started"* ]]
    done
}

# alone WORD... [VARIABLE=VALUE...]: status 2 and one line with these words, without a launcher.
alone() {
    words=$1
    shift
    run env RANK=0 WORLD_SIZE=1 "$@" timeout 200 "$ranks" nothing
    echo "$output"
    [ "$status" -eq 2 ]
    # shellcheck disable=SC2053 # it is a pattern
    [[ $output == $words ]]
    [ "$(echo "$output" | wc -l)" -eq 1 ]
}

@test "mpi: stages between nodes are its own affair, status 2" {
    on 3 "$ranks" nodes
    [ "$status" -eq 0 ]
    grep -q EXTRAS=1 "${BUILD:-build}/parts" || return 0
    on 3 "$ranks" stages
    [ "$status" -eq 2 ]
    [[ $output == *"--all-reduce hierarchical is for --backend tcp: mpi finds its own way"* ]]
}

@test "mpi: without an MPI launcher, status 2 and what to type" {
    alone '*--backend mpi needs ranks that an MPI launcher started: type LAUNCHER=mpirun*mpirun -n 1 *'
    alone '*--backend mpi needs ranks that an MPI launcher started, and this srun is none: type SLURM_MPI_TYPE=pmix before run.sh, *' SLURM_STEP_NUM_TASKS=1
}

@test "mpi: a rank that MPI counts otherwise is told both numbers" {
    # shellcheck disable=SC2016 # the variables are the ranks'
    on 2 sh -c 'RANK=$((1 - ${OMPI_COMM_WORLD_RANK:-$PMI_RANK})) exec "$0" nothing' "$ranks"
    [ "$status" -eq 1 ]
    [[ $output == *"this is rank "[01]" of 2, but rank "[01]" of 2 for MPI"* ]]
    # As where the mpirun of another MPI starts it: its library takes itself for alone.
    home=$(readlink -f "$(command -v timeout)")
    run env -u PMIX_RANK PMI_RANK=0 PMI_SIZE=2 RANK=0 WORLD_SIZE=2 timeout 200 "$ranks" nothing
    [ "$status" -eq 1 ]
    [[ $output == *"this program was built with "*", which does not know /"*"/bin/timeout, by which it was started: use the mpirun of that MPI, or build for this one: make MPI_HOME=${home%/bin/timeout}"* ]]
    # As where a launcher under srun --mpi=pmix starts ranks: all inherit its number.
    run env RANK=1 WORLD_SIZE=2 PMIX_RANK=0 timeout 200 "$ranks" nothing
    [ "$status" -eq 1 ]
    [[ $output == *"this is rank 1 of 2, but rank 0 of 2 for MPI"* ]]
}
