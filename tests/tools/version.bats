#!/usr/bin/env bats
# Every program has --version, --help, and one line for an invalid command line. One version everywhere.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    unset LOCAL_RANK RANK
    version=$(cat VERSION)
}

# The programs of the steps, asides and tools that are built, and the benchmarks among them.
programs() {
    find 0[1-5]_* beyond tools "${BUILD:-build}/bench" -type f -perm -u+x -exec sh -c 'head -c 4 "$1" | grep -q ELF' sh {} \; -print
}

@test "every program prints its name and version" {
    [ "$(programs | wc -l)" -ge 25 ]
    for program in $(programs); do
        run -0 --separate-stderr "$program" --version
        [ "$output" = "${program##*/} (ddp.c) $version" ]
        [ -z "$stderr" ]
    done
}

@test "every program has a --help, and refuses what it does not know in one line" {
    for program in $(programs); do
        run -0 --separate-stderr "$program" --help
        [[ $output == *[Uu]"sage: "*$'\n'* ]]
        [ -z "$stderr" ]
        run -2 --separate-stderr timeout 20 "$program" --no-such-option
        [ -z "$output" ]
        [ "${#stderr_lines[@]}" -eq 1 ]
        [[ $stderr == "${program##*/}: "*--no-such-option*--help* ]]
    done
}

@test "a word too many: one line" {
    for program in 01_single_gpu/one_layer 02_multi_gpu_spawn/collectives; do
        run -2 timeout 20 $program 3
        [ "$output" = "${program##*/}: \"3\" has no place here: $program --help explains it" ]
    done
}

@test "each benchmark begins with the same check, or with the options of train" {
    for source in $(grep -l '^int main' bench/*.c); do
        sed -n '/^int main/,$p' "$source" | sed -n '3,5p' | grep -qE 'words_check|args_parse' || { echo "$source" && false; }
    done
}

@test "ranks of a launcher: one of a node prints it" {
    run -0 03_torchrun_env/run.sh 2 --version
    [ "$output" = "train (ddp.c) $version" ]
    run -0 05_fault_tolerance/ddprun --nproc-per-node 2 --version
    [ "$output" = "ddprun (ddp.c) $version" ]
}

@test "the version is a semantic one, the same in every file; each has a paragraph in CHANGELOG.md" {
    [[ $version =~ ^(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)$ ]]
    grep -qx "version: $version" CITATION.cff
    [ "$(sed -n 's/^## \[\([0-9.]*\)\].*/\1/p' CHANGELOG.md | head -n 1)" = "$version" ]
    grep -qx '## \[Unreleased\]' CHANGELOG.md
    # as in Keep a Changelog: each version has a date, none comes twice, and all sections have its names
    ! grep '^## ' CHANGELOG.md | grep -vE '^## \[(Unreleased\]|[0-9]+\.[0-9]+\.[0-9]+\] - 20[0-9]{2}-[0-1][0-9]-[0-3][0-9])$' || false
    [ -z "$(grep '^## ' CHANGELOG.md | sort | uniq -d)" ]
    ! grep '^### ' CHANGELOG.md | grep -vE '^### (Added|Changed|Deprecated|Removed|Fixed|Security)$' || false
    date=$(sed -n "s/^## \[$version\] - //p" CHANGELOG.md)
    grep -qx "date-released: $date" CITATION.cff
}
