#!/bin/sh
# Usage: [STAGE=a|b|c] 02_multi_gpu_spawn/run.sh [ranks] [options of train]
# Without STAGE: the whole step; a: fork alone, b: all-reduce, c: sampler. Ranks: one per GPU, else 2.
set -eu
here=$(dirname "$0")
case " $* " in *" --help "* | *" -h "*) sed -n '2,/^set/s/^# //p' "$0"; echo ;; esac
case ${STAGE:-} in
a) program=$here/train_a_spawn ;;
b) program=$here/train_b_all_reduce ;;
c) program=$here/train_c_sampler ;;
'') program=$here/train ;;
*) echo "$0: STAGE=$STAGE: it is a, b, c or not set" >&2 && exit 2 ;;
esac
[ -x "$program" ] || { echo "$0: no program yet: run 'make 02' first" >&2 && exit 1; }

case ${1:--} in
-*) exec "$program" "$@" ;;
*[!0-9]* | 0*) echo "$0: the number of ranks must be a whole number from 1 on, not \"$1\"" >&2 && exit 2 ;;
esac
ranks=$1
shift
exec "$program" --nproc "$ranks" "$@"
