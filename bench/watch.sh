#!/bin/bash
# Usage: bench/watch.sh [ROUNDS [STEPS]]      What a job pays for tools/watch: nobody, idle, one viewer, in turns.
# A line per run: seconds, and the ranks' and the launcher's processor time. Then the medians' differences from "nobody".
set -eu
export LC_ALL=C.UTF-8 # awk and sort take and print 0.5, not 0,5
CDPATH='' cd "$(dirname "$0")/.."
rounds=${1:-7} steps=${2:-120}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
TIMEFORMAT='%R %U %S'

run() { # KIND: trains, and prints what that took
    rm -rf "$folder/ck"
    mkdir "$folder/ck"
    if [ "$1" != nobody ]; then
        rm -f "$folder/said"
        tools/watch "$folder/ck" --port 0 >"$folder/said" &
        server=$!
        until grep -qs http "$folder/said"; do sleep 0.1; done
        url=$(grep -o 'http://[^ ]*' "$folder/said")
    fi
    [ "$1" != viewer ] || { curl -sN "${url/\?/events?}" >/dev/null & }
    taken=$( { time 05_fault_tolerance/ddprun --nproc-per-node 2 05_fault_tolerance/train 100 0 --threads 1 --max-steps "$steps" \
        --checkpoint-dir "$folder/ck" >/dev/null 2>&1; } 2>&1)
    [ "$1" = nobody ] || kill "$server"
    wait
    echo "$1 $taken" | awk '{ printf "%s %.2f %.2f\n", $1, $2, $3 + $4 }'
}

for _ in $(seq "$rounds"); do
    for kind in nobody idle viewer; do run $kind; done
done | tee "$folder/all"
sort -k1,1 -k3,3n "$folder/all" | awk '
    { value[$1, ++n[$1]] = $3 }
    END { base = value["nobody", int((n["nobody"] + 1) / 2)]
          for (kind in n) printf "%s: median %.2f s of processors, %+.1f %%\n", kind, value[kind, int((n[kind] + 1) / 2)], 100 * (value[kind, int((n[kind] + 1) / 2)] / base - 1) }'
