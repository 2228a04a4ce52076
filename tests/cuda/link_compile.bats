#!/usr/bin/env bats
# What the targets of a GPU do on a machine without one: NVIDIA's own toolkit, where it is, links all of their programs,
# and each reports that there is no GPU. .ci/run never leaves this file out.

setup() {
    home=${CUDA_HOME:-$(tools/cuda_home.sh)} # as the Makefile finds it
    [ -x "$home/bin/nvcc" ] || skip "there is no nvcc: no program was linked for a GPU"
}

# programs: what check-gpu, gpu-ladder and bench-gpu build, and so gpu-first-hour, without the steps.
programs() {
    python3 - <<'END'
import glob, os, re
texts = [re.search("^bench-gpu:.*^gpu-first-hour:", open("bench/rules.mk").read(), re.M | re.S)[0]]
texts += [open(name).read() for name in glob.glob("tests/against/gpu/*.py") + ["bench/gpu.py"]]
found = re.findall(r'\b(?:BUILD\)/|(?:BUILD|build) \+ "/|BUILD, ")((?:bench|tests)[\w/", ]*)', "\n".join(texts))
names = {name.replace('", "', "/").strip('", ') for name in found}
print(*sorted(name for name in names if os.path.exists(name + ".c") or os.path.exists(name + ".cu")), sep="\n")
END
}

@test "the toolkit links every program that a GPU's targets build" {
    [ "$(programs | paste -sd ' ')" = "bench/all_reduce_ladder bench/gpu_kernels bench/gpu_ladder bench/gpu_step bench/trace \
tests/against/gpu/control tests/against/gpu/machine tests/against/gpu/nccl_ranks" ] # others: is the pattern above still right?
    link=(make -s -j "$(nproc)" MPI=0 CUDA=1 CUDA_HOME="$home" CUDA_ARCH=sm_75 BUILD=build/nvcc_link CFLAGS=-O1)
    mapfile -t targets < <(programs | sed 's|^|build/nvcc_link/|')
    for target in "${targets[@]}"; do rm -f "$target"; done
    "${link[@]}" "${targets[@]}" build/nvcc_link/lib05.a
    for target in "${targets[@]}"; do [ -x "$target" ] || { echo "there is no $target" && false; }; done
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env 05_fault_tolerance; do
        "${link[@]}" gpu-test PROGRAM="$BATS_TEST_TMPDIR/train" SOURCE="$step/train.c build/nvcc_link/lib05.a"
    done
    for name in $(sed -n 's/^DEVICE_TESTS = //p' tests/against/gpu/check.py | tr -d '[]",'); do
        "${link[@]}" gpu-test PROGRAM="$BATS_TEST_TMPDIR/test" SOURCE="tests/common/nn/test_$name.c" TRY_LIBS=-lcmocka
    done
}

@test "without a GPU each target of a GPU says so in a line, before it builds anything but what asks for one" {
    export CUDA_VISIBLE_DEVICES=''
    for target in gpu-first-hour gpu-ladder bench-gpu check-gpu; do
        rm -rf "$BATS_TEST_TMPDIR/build"
        run make -s "$target" CUDA_HOME="$home" BUILD="$BATS_TEST_TMPDIR/build"
        echo "$output"
        [ "$status" -ne 0 ]
        [ "$(grep -v '^make.*Error' <<<"$output" | grep -c .)" -eq 1 ]
        [[ $output == "make $target: there is no GPU to be used here: "* ]]
        [ "$(find "$BATS_TEST_TMPDIR/build" -name '*.o' -printf '%f\n')" = machine.o ]
    done
}
