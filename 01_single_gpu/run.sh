#!/bin/sh
# Usage: 01_single_gpu/run.sh [total_epochs [save_every]] [options of train]
set -eu
here=$(dirname "$0")
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/s/^# //p' "$0"; echo ;; esac
[ -x "$here/train" ] || { echo "$0: no program yet: run 'make 01' first" >&2 && exit 1; }
exec "$here/train" "$@"
