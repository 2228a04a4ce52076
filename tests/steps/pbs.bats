#!/usr/bin/env bats
# The directives of train.pbs, by the rules of OpenPBS's qsub; also the one that is switched off.

bats_require_minimum_version 1.5.0

setup() {
    script=04_slurm_multinode/train.pbs
    copy=$BATS_TEST_TMPDIR/train.pbs
}

@test "qsub understands train.pbs, and with the queue switched on" {
    run -0 tests/steps/pbs.py $script
    sed 's/^##PBS/#PBS/; s/ompthreads=1$/ompthreads=1:ngpus=2/' $script >"$copy"
    run -0 tests/steps/pbs.py "$copy"
    [ "$(grep -c '^#PBS' "$copy")" -eq 6 ]
}

@test "the check finds mistakes" {
    for edit in 's/select=2/nodes=2/' 's/select=2:/select=/' 's/mpiprocs=2/mpiprocs=two/' 's/ncpus/cpus/' 's/00:30:00/30 minutes/' \
        's/-N ddp/-N my job/' 's/-e logs.err/-j both/' 's/-o logs.out/--output logs.out/' 's/^set -eu/#PBS -q x/;s/^#PBS -N.*/set -eu/'; do
        sed "$edit" $script >"$copy"
        run -1 tests/steps/pbs.py "$copy"
        [ "${#lines[@]}" -ge 1 ]
    done
}
