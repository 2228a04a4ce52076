#!/bin/sh
# Usage: tests/copy_tree.sh DIR      Makes DIR a copy of the tree as it is now, to be built in another way.
# What was built in DIR is kept; files that the tree no longer has are removed from DIR.
set -eu
mkdir -p "$1/build"
copy=$(CDPATH='' cd "$1" && pwd)
CDPATH='' cd "$(dirname "$0")/.."
case $copy in "$PWD"/build/?*) ;; *) echo "$0: $copy is not below build" >&2 && exit 2 ;; esac
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
# Programs, which are most of the bytes, are linked anew.
for source in 0[1-5]_*/*.c 05_*/*/*.c beyond/*/*.c tools/*.c; do echo "./${source%.c}"; done |
    tar -cf - --exclude=./build --exclude=./.git --exclude-from=- . | tar -xf - -C "$copy"
