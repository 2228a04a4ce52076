# Shared by the tests against PyTorch: TORCH_BIN, the folder that has its python and torchrun. Empty:
# this machine cannot have it, and every test is skipped. (make check-torch asks once for all files.)

setup_file() {
    export TORCH_BIN=${TORCH_BIN-$(tests/against/torch/venv.sh || true)}
    export OMP_NUM_THREADS=1 # several processes share the cores
}

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR # bats clears it, whatever happens
    [ -n "$TORCH_BIN" ] || skip "no PyTorch on this machine"
}

# against_torch SCRIPT ARGUMENTS...: a program of tests/against/torch must succeed; otherwise its output is shown.
against_torch() {
    run timeout 900 "$TORCH_BIN/python" -B "tests/against/torch/$1" "${@:2}"
    echo "$output"
    [ "$status" -eq 0 ]
}
