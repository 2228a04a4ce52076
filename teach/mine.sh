#!/bin/sh
# Usage: teach/mine.sh [RANKS] [options of train]   (make mine: 2 ranks)
# Links step 03 with the files of all library labs that are done, trains with it and with ours, and compares the files that
# they save. On 2 ranks these are equal; on more, sums in another order may round otherwise.
set -eu
cd "$(dirname "$0")/.."
lab=${LAB:-lab} ranks=2 files='' parts=''
case ${1:-} in [1-9]*) ranks=$1 && shift ;; esac
for folder in teach/lab/*/; do
    name=${folder%/} name=${name##*/} part=ours
    if [ ! -f "teach/lab/$name.txt" ] || [ "$name" = capstone ]; then continue; fi # the capstone has another model
    if [ -e "$lab/$name/done" ]; then
        part=yours
        if [ -n "$(find "$lab/$name/$name.c" -newer "$lab/$name/done")" ]; then
            part="ours (yours has changed since it was judged: make check-lab LAB=$name)"
        fi
    fi
    [ "$part" != yours ] || files="$files $lab/$name/$name.c"
    parts="$parts${parts:+, }$name $part"
done
[ -n "$files" ] || { echo "$0: no library lab is done yet: make lab-ring" >&2 && exit 2; }
mine=$lab/mine
mkdir -p "$mine"
ln -sf "$PWD/config.yaml" "$lab"
make -s MINE="${files# }" TRIED="$mine/train" OF=03_torchrun_env/train "$mine/train"
for whose in ours mine; do
    program=$mine/train
    [ $whose = mine ] || program=03_torchrun_env/train
    [ $whose = ours ] || echo "Training on $ranks ranks: $parts"
    out=$mine/$whose.log
    rm -rf "${mine:?}/$whose"
    03_torchrun_env/ddprun --standalone --nproc-per-node "$ranks" "$program" 2 --device cpu --checkpoint-dir "$mine/$whose" "$@" >"$out" 2>&1 ||
        { cat "$out" && exit 1; }
done
grep '^Test Epoch' "$out"
case $parts in *"ring yours"*) echo "Your ring waits for each message, so nothing overlaps with the backward pass." ;; esac
for file in "$mine"/ours/*.safetensors; do
    if cmp -s "$file" "$mine/mine/${file##*/}"; then
        echo "${file##*/} equals ours, byte for byte"
    else
        echo "${file##*/} differs from ours" && different=1
    fi
done
[ "$ranks" -gt 2 ] || [ -z "${different:-}" ]
