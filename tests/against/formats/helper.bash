# Shared by the crossings with other tools. A file names its VENV and the PACKAGES in it, and with NEEDS_TORCH=1 also wants
# PyTorch's; where they cannot be had, its tests are skipped. All use one short training: RUN has its checkpoint and curves.

setup_file() {
    [ -z "${NEEDS_TORCH:-}" ] || export TORCH_BIN=${TORCH_BIN-$(tests/against/torch/venv.sh || true)}
    [ -n "${NEEDS_TORCH:-}" ] || unset TORCH_BIN
    export PYTHON='' RUN=$BATS_FILE_TMPDIR/run OMP_NUM_THREADS=1 HF_HUB_OFFLINE=1 HF_HOME=$BATS_FILE_TMPDIR/hf KERAS_HOME=$BATS_FILE_TMPDIR/keras
    # shellcheck disable=SC2086 # several packages
    [ -n "${NEEDS_TORCH:-}" ] && [ -z "$TORCH_BIN" ] || PYTHON=$(tests/against/formats/venv.sh "$VENV" $PACKAGES) || true
    02_multi_gpu_spawn/run.sh 2 2 --threads 1 --log-interval 5 --metrics-dir "$RUN" --checkpoint-dir "$RUN" >/dev/null
    tools/export "$RUN/cnn_digits.safetensors" "$RUN/model" >/dev/null
}

setup() {
    export TMPDIR=$BATS_TEST_TMPDIR
    [ -n "$PYTHON" ] || skip "pip cannot install $PACKAGES${NEEDS_TORCH:+, or there is no PyTorch}"
}

# crossed SCRIPT TEST: a program of this folder must succeed; otherwise its output is shown.
crossed() {
    run timeout 600 "$PYTHON" -B -W ignore "tests/against/formats/$1" "$2" "$RUN" "$BATS_TEST_TMPDIR"
    echo "$output"
    [ "$status" -eq 0 ]
}
