#!/bin/sh
# Usage: [PLAIN=1] tools/break.sh 01|02a|02b|02c|02|03|04|05 EDIT [ranks] [options of train]
#        [PLAIN=1] tools/break.sh STEP/PROGRAM.c EDIT [arguments]
# Changes a copy of a step's program by EDIT (a sed command, or a file of them), shows the changed
# lines (not with PLAIN=1), builds the copy and runs it in a folder that is deleted afterwards.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
usage() {
    sed -n '2,5s/^# //p' tools/break.sh >&2 && exit 2
}

step=${1:-}
case $step in
01 | 02 | 03 | 04 | 05) source=$(echo "$step"_*/train.c) ;;
0[1-5]_*/*.c | beyond/*/*.c) source=$step ;;
02[a-c]) source=$(echo 02_*/train_"${step#02}"_*.c) ;;
*) usage ;;
esac
[ $# -ge 2 ] || usage
[ -f "$source" ] || usage
! grep -q '^/\* Given as compiled code: ' "$source" || { echo "$0: $source is $(sed -n '1s|^/\* G|g|p' "$source")" >&2 && exit 2; }
edit=$2
shift 2

temporary=$(mktemp -d)
folder=$temporary/run # a folder deeper: programs look for config.yaml above their own
tidy() { # also deletes the records that a failed run names
    [ $? -eq 0 ] || [ -z "$(find "$folder" -name '*.flight')" ] ||
        echo "$0: this run's folder is deleted, and with it the records for ddp_doctor;" \
            "to keep them add --checkpoint-dir \$PWD/broken" >&2
    rm -rf "$temporary"
}
trap tidy EXIT
trap 'exit 130' HUP INT TERM
mkdir "$folder"
ln -s "$PWD/config.yaml" "$temporary"
if [ -f "$edit" ]; then
    sed -f "$edit" "$source" >"$folder/train.c"
elif [ "${edit%.sed}" != "$edit" ]; then
    echo "$0: there is no file $edit" >&2 && exit 2
elif ! sed -e "$edit" "$source" >"$folder/train.c" 2>"$folder/log"; then
    echo "$0: $edit is no file, and no command: $(cat "$folder/log")" >&2 && exit 2
fi
cmp -s "$source" "$folder/train.c" && echo "$0: this changes nothing in $source: $edit" >&2 && exit 2
[ -n "${PLAIN:-}" ] || diff "$source" "$folder/train.c" | grep '^[<>]'
[ -e "${BUILD:-build}/libcommon.a" ] || echo "$0: building the library first" >&2
make TRY="$folder/train" "$folder/train" >"$folder/log" 2>&1 || { cat "$folder/log" >&2 && exit 1; }

top=$PWD ranks=2
ln -s "$top/data" "$folder/data"
cd "$folder"
case $step:${1:-} in
01:* | *.c:*) set -- ./train "$@" ;;
*:'' | *:*[!0-9]*) set -- "$ranks" "$@" ;;
esac
case $step in
01 | *.c) "$@" ;;
02*) ranks=$1 && shift && ./train --nproc "$ranks" "$@" ;;
*) ranks=$1 && shift && "$top/03_torchrun_env/ddprun" --nproc-per-node "$ranks" ./train "$@" ;;
esac
