#!/usr/bin/env bats
# make help fits a screen and begins with where to start; make help-all has the rest.

@test "make help fits 24 lines of 80 columns, and begins with three ways to start" {
    run make -s help
    echo "$output"
    [ "$status" -eq 0 ] && [ "${#lines[@]}" -le 24 ]
    [ "$(awk 'length($0) > 80' <<<"$output")" = "" ]
    [ "${lines[0]}" = "Start here:" ] && [ "${lines[4]}" = "Then:" ]
    [[ ${lines[1]} == *"make room-check "* && ${lines[2]} == *"make 01 "* && ${lines[3]} == *"make 03 "* && $output == *"make help-all "* ]]
}

@test "make help-all names the checks and the options, and every target of make help" {
    make -s help-all >"$BATS_TEST_TMPDIR/all"
    for word in check-faults check-sanitizers CUDA_ARCH= EXTRAS=0 lr-sweep room-check; do
        grep -q -- "$word" "$BATS_TEST_TMPDIR/all" || { echo "$word" && false; }
    done
    for target in $(make -s help | grep -oP 'make \K[a-z][a-z-]+' | grep -v '^help'); do
        grep -qE "make $target\b" "$BATS_TEST_TMPDIR/all" || { echo "$target" && false; }
    done
}

@test "make prints a line for each room, V=1 the commands, and make -s nothing" {
    build() { # OPTION...: three files in two rooms
        rm -rf "$BATS_TEST_TMPDIR/build"
        run env -u MAKEFLAGS -u MAKELEVEL make -j2 MPI=0 CUDA=0 CFLAGS=-O0 BUILD="$BATS_TEST_TMPDIR/build" "$@" \
            "$BATS_TEST_TMPDIR"/build/common/{base/log,base/rng,data/sampler}.o
        echo "$output"
        [ "$status" -eq 0 ]
        [ "$(find "$BATS_TEST_TMPDIR/build" -name '*.o' | wc -l)" -eq 3 ]
    }
    build
    [ "$(sort <<<"$output")" = $'[  1] cc   common/base\n[  3] cc   common/data' ]
    build V=1
    [ "$(grep -c ' -c -o .*/build/common/.*\.o ' <<<"$output")" -eq 3 ]
    [[ $output != *"cc   common"* ]]
    build -s
    [ -z "$output" ]
}

@test "a build without MPI and CUDA calls no compiler of theirs" {
    run make -n V=1 MPI=0 CUDA=0 BUILD="$BATS_TEST_TMPDIR/build" all
    [ "$status" -eq 0 ]
    ! grep -w 'mpicc\|nvcc' <<<"$output"
}
