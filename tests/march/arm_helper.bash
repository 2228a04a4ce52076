# Shared by arm.bats and arm_without_fma.bats.

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    for program in aarch64-linux-gnu-gcc qemu-aarch64; do
        command -v $program >/dev/null || skip "no $program: ./setup.sh --checks"
    done
    root=$PWD/build/march/arm64_root libraries=usr/lib/aarch64-linux-gnu emulator='qemu-aarch64 -L /usr/aarch64-linux-gnu'
    tests/march/arm64_libraries.sh "$root" || skip "the libraries for ARM cannot be had"
    export CPATH=$root/usr/include LDFLAGS="-L$root/$libraries -Wl,-rpath,$root/$libraries"
}
