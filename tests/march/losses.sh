#!/bin/sh
# Usage: tests/march/losses.sh [EMULATOR...]      PyTorch's losses in steps 01, 02 and 03, linear model (all steps) and CNN
# (five), from programs that were built in this folder. With EMULATOR (qemu-aarch64 -L FOLDER) it runs each of them.
set -eu
CDPATH='' cd "$(dirname "$0")/../.."
name=run.sh
if [ $# -gt 0 ]; then
    name=emulated.sh
    for step in 01_single_gpu 02_multi_gpu_spawn 03_torchrun_env; do
        case $step in # as their run.sh
        01*) line="exec $* $step/train \"\$@\"" ;;
        02*) line="exec $* $step/train --nproc \"\$@\"" ;;
        03*) # the launcher starts a script, since without help a kernel starts no program of another processor
            printf '#!/bin/sh\nexec %s "$@"\n' "$* $step/train" >$step/rank.sh
            chmod +x $step/rank.sh
            line="ranks=\$1 && shift && exec $* $step/ddprun --standalone --nproc-per-node \"\$ranks\" $step/rank.sh \"\$@\"" ;;
        esac
        printf '#!/bin/sh\n%s\n' "$line" >$step/$name
        chmod +x $step/$name
    done
fi
tests/golden_losses.py linear_sgd_w1 01_single_gpu/$name
tests/golden_losses.py linear_sgd_w2 02_multi_gpu_spawn/$name 03_torchrun_env/$name
export TEST_STEPS=5
tests/golden_losses.py digits_sgd_w1 01_single_gpu/$name
tests/golden_losses.py digits_sgd_w2 02_multi_gpu_spawn/$name 03_torchrun_env/$name
