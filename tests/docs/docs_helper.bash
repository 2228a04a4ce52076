# Shared by the files of tests/docs.

# commands_of DOCUMENT...: their commands print what is quoted, and their excerpts and diffs are the real ones.
commands_of() {
    run env -u TMPDIR DDP_CLUSTER_DIR="$BATS_TEST_TMPDIR/none" tools/docs.py check "$@"
    echo "$output"
    echo "$output" | sed -n 's/.*: not run: /# &/p' >&3
    [ "$status" -eq 0 ]
}
