#!/usr/bin/env bats
# make lint: three checkers, of which a missing one is named.

bats_require_minimum_version 1.5.0

setup() {
    cd "${BATS_TEST_DIRNAME%/tests/*}" || return
    mkdir "$BATS_TEST_TMPDIR/bin"
    tool git 'echo a.sh'
    for name in clang-format shellcheck ruff; do tool $name "echo $name \$1"; done
}

tool() { # NAME COMMAND: a program of this name on the pretended machine
    printf '#!/bin/sh\n%s\n' "$2" >"$BATS_TEST_TMPDIR/bin/$1"
    chmod +x "$BATS_TEST_TMPDIR/bin/$1"
}

lint() {
    # Only make's own rules: looking for parts of the machine needs more than it has.
    ln -s "$(command -v make)" "$(command -v sh)" "$(command -v true)" "$BATS_TEST_TMPDIR/bin"
    PATH=$BATS_TEST_TMPDIR/bin MAKEFLAGS='' make -s -f - lint <<<'include tools/rules.mk'
}

@test "all three run" {
    run -0 lint
    [ "$output" = $'clang-format --dry-run\nshellcheck a.sh\nruff check' ]
}

@test "one that is missing is named in a line, and the others run" {
    rm "$BATS_TEST_TMPDIR/bin/ruff" "$BATS_TEST_TMPDIR/bin/clang-format"
    run -0 lint
    [ "$output" = $'not checked: clang-format is missing\nshellcheck a.sh\nnot checked: ruff is missing' ]
}

@test "what ruff finds is a failure" {
    tool ruff 'echo unused; exit 1'
    run -2 lint
    [[ $output == *unused* ]]
}

@test "ruff finds nothing" {
    PATH=${PATH#"$BATS_TEST_TMPDIR/bin:"}
    command -v ruff >/dev/null || skip "no ruff: pip install ruff"
    ruff check --quiet
}
