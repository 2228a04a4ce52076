#!/usr/bin/env bats
# Steps 01 and 02 for ARM with the bits of x86-64, on an emulator.

load arm_helper

@test "ARM without fused multiply-adds (FMA=0): the bits of x86-64 and of a browser" {
    tree=$PWD/build/march/tree-arm-without-fma
    tests/copy_tree.sh "$tree"
    make -s -j2 -C "$tree" CC=aarch64-linux-gnu-gcc MARCH=armv8-a FMA=0 EXTRAS=0 MPI=0 CUDA=0 PNG=0 HTTP=0 \
        LDFLAGS="$LDFLAGS" 01 02
    tools/moving/hashes.py --check --tree "$tree" --run "$emulator" --every 26
}
