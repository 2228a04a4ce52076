#!/bin/sh
# Usage: tests/fuzz/merge.sh      Makes corpus/ anew, after make check-fuzz: one input for each edge reached.
# From the seeds, what is kept already, and what the fuzzers have found since (build/fuzz/corpus).
# What once was a fault is called found-*, and stays.
set -eu
cd "$(dirname "$0")/../.."
made=$(mktemp -d)
trap 'rm -r "$made"' EXIT
tests/fuzz/seeds.py "$made/seeds"
for target in tests/fuzz/corpus/*; do
    name=${target##*/}
    mkdir "$made/$name"
    FUZZ_TARGET=$name ASAN_OPTIONS=detect_leaks=0 build/fuzz/engine -merge=1 -use_counters=0 -close_fd_mask=1 \
        "$made/$name" "$made/seeds/$name" "$target" "build/fuzz/corpus/$name" 2>"$made/log" ||
        { tail -n 20 "$made/log" && exit 1; }
    find "$target" -name 'found-*' -exec cp {} "$made/$name" \;
    rm -r "$target" && cp -r "$made/$name" "$target"
    echo "$name: $(find "$target" -type f | wc -l) inputs of $(find "$target" -type f -exec cat {} + | wc -c) bytes"
done
