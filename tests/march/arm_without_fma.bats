#!/usr/bin/env bats
# Steps 01 and 02 for ARM with the bits of x86-64, on an emulator.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
}

@test "ARM without fused multiply-adds (FMA=0): the bits of x86-64 and of a browser" {
    for program in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v $program >/dev/null || skip "no $program: ./setup.sh --checks"
    done
    root=$PWD/build/march/arm64_root tree=$PWD/build/march/tree-arm-without-fma
    tests/march/arm64_libraries.sh "$root" || skip "the libraries for ARM cannot be had"
    tests/copy_tree.sh "$tree"
    CPATH=$root/usr/include make -s -j2 -C "$tree" CC=aarch64-linux-gnu-gcc MARCH=armv8-a FMA=0 EXTRAS=0 MPI=0 CUDA=0 PNG=0 HTTP=0 \
        LDFLAGS="-L$root/usr/lib/aarch64-linux-gnu -Wl,-rpath,$root/usr/lib/aarch64-linux-gnu" 01 02
    tools/moving/hashes.py --check --tree "$tree" --run 'qemu-aarch64 -L /usr/aarch64-linux-gnu' --every 26
}
