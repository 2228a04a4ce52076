#!/bin/sh
# Usage: tests/copy_tree.sh DIR      Makes DIR a copy of the tree as it is now, to be built in another way.
# What was built in DIR is kept; files that the tree no longer has are removed from DIR.
set -eu
mkdir -p "$1/build"
copy=$(cd "$1" && pwd)
cd "$(dirname "$0")/.."
case $copy in "$PWD"/build/?*) ;; *) echo "$0: $copy is not below build" >&2 && exit 2 ;; esac
find "$copy" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
tar -cf - --exclude=./build --exclude=./.git . | tar -xf - -C "$copy"
for source in "$copy"/0[1-5]_*/*.c "$copy"/05_*/*/*.c "$copy"/beyond/*/*.c "$copy"/tools/*.c; do rm -f "${source%.c}"; done # programs: they are linked anew
