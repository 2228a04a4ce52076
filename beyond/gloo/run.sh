#!/bin/sh
# Usage: [LAUNCHER=ddprun|torchrun] [ORDER=pc] beyond/gloo/run.sh C_RANKS PYTORCH_RANKS [options of train]
# One job of ranks in C and of ranks in PyTorch, which run 03_torchrun_env/train.py as it is. PyTorch's ranks come first,
# unless ORDER has a letter for each rank: cpc is C, PyTorch, C. PYTHON: a Python that has PyTorch, if not python3.
set -eu
here=$(dirname "$0")
usage() {
    sed -n '2,/^set/s/^# //p' "$0" >&2
    exit 2
}
repeat() { # LETTER COUNT
    printf "%${2}s" '' | head -c "$2" | tr ' ' "$1"
}
case ${1:-x}${2:-x} in *[!0-9]*) usage ;; esac
launcher=${LAUNCHER:-ddprun}
export ORDER="${ORDER:-$(repeat p "$2")$(repeat c "$1")}" PYTHON="${PYTHON:-python3}" TOP="$here/../.."
ranks=$(($1 + $2))
if [ "$ranks" -eq 0 ] || [ ${#ORDER} -ne "$ranks" ]; then usage; fi
shift 2
[ -x "$here/train_gloo" ] || { echo "$0: no program yet: run 'make beyond 03' first" >&2 && exit 1; }
case $ORDER in *p*)
    "$PYTHON" -c 'import torch' 2>/dev/null || {
        echo "$0: $PYTHON has no PyTorch: pip install torch, or set PYTHON to a Python that has it" >&2
        exit 1
    }
    ;;
esac

# shellcheck disable=SC2016 # each rank's shell expands the variables
rank='
case $(printf %s "$ORDER" | cut -c $((RANK + 1))) in
c) exec "$TOP/beyond/gloo/train_gloo" --backend gloo "$@" ;;
*) exec "$PYTHON" "$TOP/03_torchrun_env/train.py" "$@" ;;
esac'
case $launcher in
ddprun) exec "$TOP/03_torchrun_env/ddprun" --nproc-per-node "$ranks" sh -c "$rank" sh "$@" ;;
torchrun) exec "$PYTHON" -m torch.distributed.run --standalone --nproc-per-node "$ranks" --no-python sh -c "$rank" sh "$@" ;;
*) echo "$0: LAUNCHER=$launcher: it is ddprun or torchrun" >&2 && exit 2 ;;
esac
