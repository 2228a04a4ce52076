#!/usr/bin/env bats
# Everything for ARM, on an emulator.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

@test "ARM (armv8-a, emulated): no warning; the kernels; PyTorch's losses in steps 01 to 03" {
    for program in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v $program >/dev/null || skip "no $program: ./setup.sh --checks"
    done
    root=$PWD/build/march/arm64_root
    tests/march/arm64_libraries.sh "$root" || skip "the libraries for ARM cannot be had"
    libraries=usr/lib/aarch64-linux-gnu
    export CPATH=$root/usr/include
    LDFLAGS="-L$root/$libraries -Wl,-rpath,$root/$libraries" EMULATOR='qemu-aarch64 -L /usr/aarch64-linux-gnu' \
        tests/march/compiler.sh aarch64-linux-gnu-gcc armv8-a
    # The emulator knows no subreaper: what a rank has left behind ends all the same, and at once.
    run timeout 20 qemu-aarch64 -L /usr/aarch64-linux-gnu \
        build/march/tree-aarch64-linux-gnu-gcc/03_torchrun_env/ddprun --standalone --nproc-per-node 1 sh -c 'sleep 1000 & echo $!; exit 3'
    [ "$status" -eq 3 ]
    [[ ${lines[0]} =~ ^[0-9]+$ ]]
    ! kill -0 "${lines[0]}"
}
