#!/bin/sh
# Usage: teach/mine.sh [RANKS] [options of train]   (make mine: 2 ranks)
# Links step 03 with the files of all library labs that are done (05, if snapshots are one of them), trains with it and with
# ours, and compares the files that they save. On 2 ranks these are equal; on more, sums in another order may round otherwise.
set -eu
CDPATH='' cd "$(dirname "$0")/.."
lab=${LAB:-lab} ranks=2 files='' parts=''
case ${1:-} in [1-9]*) ranks=$1 && shift ;; esac
for folder in teach/lab/*/; do
    name=${folder%/} name=${name##*/} part=ours
    if [ ! -f "teach/lab/$name.txt" ] || [ "$name" = capstone ] || [ "$name" = reconfigure ]; then
        continue # the capstone has another model, and a job that reconfigures another program
    fi
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
step=03_torchrun_env # step 05 has snapshots
case $parts in *"snapshot yours"*) step=05_fault_tolerance ;; esac
make -s $step MINE="${files# }" TRIED="$mine/train" OF=$step/train "$mine/train"

# start PROGRAM OPTIONS...: the ranks of a job, by their variables; rank 0 serves the store. Its log is rank0.log.
start() {
    port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
    rank=0 pids='' failed=0
    while [ "$rank" -lt "$ranks" ]; do
        env -u DDP_SECRET_FILE RANK=$rank LOCAL_RANK=$rank WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 MASTER_PORT="$port" \
            "$@" >>"$mine/rank$rank.log" 2>&1 &
        pids="$pids $!" rank=$((rank + 1))
    done
    for pid in $pids; do wait "$pid" || failed=$?; done
    return "$failed"
}

rm -rf "${mine:?}/ours" "$mine/mine" "$mine"/*.log
start $step/train 2 --device cpu --checkpoint-dir "$mine/ours" "$@" || { cat "$mine"/rank*.log && exit 1; }
echo "Training on $ranks ranks: $parts"
rm "$mine"/rank*.log
if [ $step = 05_fault_tolerance ]; then
    echo "Rank $((ranks - 1)) is killed after step 8, and all start again."
    set -- --save-every-steps 5 "$@"
    start "$mine/train" 2 --device cpu --checkpoint-dir "$mine/mine" --inject kill:$((ranks - 1)):8 "$@" || :
fi
start "$mine/train" 2 --device cpu --checkpoint-dir "$mine/mine" "$@" || { cat "$mine"/rank*.log && exit 1; }
mv "$mine/rank0.log" "$mine/mine.log"
grep '^Test Epoch' "$mine/mine.log"
case $parts in *"ring yours"*) echo "Your ring waits for each message, so nothing overlaps with the backward pass." ;; esac
for file in "$mine"/ours/*.safetensors; do
    if cmp -s "$file" "$mine/mine/${file##*/}"; then
        echo "${file##*/} equals ours, byte for byte"
    else
        echo "${file##*/} differs from ours" && different=1
    fi
done
[ "$ranks" -gt 2 ] || [ -z "${different:-}" ]
