#!/bin/sh
# Usage: tools/stepdiff.sh 02a|02b|02c|02|03|04|05|05-ddprun   What it adds to the program before.
#        tools/stepdiff.sh reconfigure                         From step 05's train.c to survivors that go on.
#        tools/stepdiff.sh dp                                  From DataParallel to step 02's train.c.
#        tools/stepdiff.sh zero1|zero2|zero3|zero4|zero5       From there to ZeRO and FSDP.
#        tools/stepdiff.sh addgroup                            From ZeRO-1 to parameters that join in mid-training.
#        tools/stepdiff.sh batchnorm|syncbn                    To a model with buffers; to batch norm over all ranks.
#        tools/stepdiff.sh bf16hook|powersgd                   To communication hooks: gradients in bf16; by PowerSGD.
#        tools/stepdiff.sh localsgd|diloco|streaming           To means of the weights; to an outer optimizer; in fragments.
#        tools/stepdiff.sh tensor_parallel                     To layers that are divided among ranks.
#        tools/stepdiff.sh recompute                           To activations that are computed again.
#        tools/stepdiff.sh gloo                                From step 03's train.c to a rank of a PyTorch job.
#        tools/stepdiff.sh uneven|join                         To ranks that run out of rows; to ranks that join.
#        tools/stepdiff.sh twin-02a|...|twin-03|twin-05        What it adds to the program before, in PyTorch.
#        tools/stepdiff.sh --count [NAME]                      How many lines that is, and may be; of one, or of all.
#        tools/stepdiff.sh --pairs                             The program before, and the program, of each.
set -eu
CDPATH='' cd "$(dirname "$0")/.."

# One line for each program that exists: name, most lines it may change, the program before, the program.
pairs() {
    before=01_single_gpu/train.c
    while read -r name program; do
        [ -e "$program" ] || continue
        echo "$name 60 $before $program"
        before=$program
    done <<END
02a 02_multi_gpu_spawn/train_a_spawn.c
02b 02_multi_gpu_spawn/train_b_all_reduce.c
02c 02_multi_gpu_spawn/train_c_sampler.c
02 02_multi_gpu_spawn/train.c
03 03_torchrun_env/train.c
04 04_slurm_multinode/train.c
05 05_fault_tolerance/train.c
END
    [ ! -e 05_fault_tolerance/ddprun.c ] ||
        echo "05-ddprun 100 03_torchrun_env/ddprun.c 05_fault_tolerance/ddprun.c"
    echo "reconfigure 60 05_fault_tolerance/train.c 05_fault_tolerance/reconfigure/train_reconfigure.c"
    before=02_multi_gpu_spawn/train.c # the asides, which start from step 02
    for stage in 1 2 3 4 5; do
        echo "zero$stage 60 $before beyond/zero/train_zero$stage.c"
        before=beyond/zero/train_zero$stage.c
    done
    echo "addgroup 60 beyond/zero/train_zero1.c beyond/zero/train_add_group.c"
    echo "syncbn 60 beyond/batch_norm/train_batch_norm.c beyond/batch_norm/train_sync_batch_norm.c"
    echo "dp 117 beyond/data_parallel/data_parallel.c 02_multi_gpu_spawn/train.c" # towards train.c, unlike the others
    echo "uneven 60 02_multi_gpu_spawn/train.c beyond/uneven/train_uneven.c"
    echo "join 60 beyond/uneven/train_uneven.c beyond/uneven/train_join.c"
    echo "bf16hook 60 02_multi_gpu_spawn/train.c beyond/comm_hooks/train_bf16_hook.c"
    echo "powersgd 60 beyond/comm_hooks/train_bf16_hook.c beyond/comm_hooks/train_power_sgd.c"
    echo "localsgd 60 02_multi_gpu_spawn/train.c beyond/local_sgd/train_local_sgd.c"
    echo "diloco 60 beyond/local_sgd/train_local_sgd.c beyond/local_sgd/train_diloco.c"
    echo "streaming 60 beyond/local_sgd/train_diloco.c beyond/local_sgd/train_streaming.c"
    echo "tensor_parallel 60 02_multi_gpu_spawn/train.c beyond/tensor_parallel/train_tensor_parallel.c"
    echo "recompute 60 02_multi_gpu_spawn/train.c beyond/recompute/train_recompute.c"
    echo "gloo 60 03_torchrun_env/train.c beyond/gloo/train_gloo.c"
    before=01_single_gpu/train.py # the twins
    while read -r name program; do
        echo "twin-$name 60 $before $program"
        before=$program
    done <<END
02a 02_multi_gpu_spawn/train_a_spawn.py
02b 02_multi_gpu_spawn/train_b_all_reduce.py
02c 02_multi_gpu_spawn/train_c_sampler.py
02 02_multi_gpu_spawn/train.py
03 03_torchrun_env/train.py
05 05_fault_tolerance/train.py
END
}

case ${1:-} in
--count | --pairs)
    if [ -e tools/stepdiff_counted.txt ]; then # a students' tree lacks some sources (teach/class)
        grep "^${2:-.*}: " tools/stepdiff_counted.txt || :
        exit 0
    fi
    pairs | while read -r name most before program; do
        if [ "$1" = --pairs ]; then
            echo "$name: $before $program"
        elif [ "${2:-$name}" = "$name" ]; then
            echo "$name: $before $program $(diff "$before" "$program" | grep -c '^[<>]') of $most"
        fi
    done
    exit 0 ;;
esac

{
    pairs
    echo "batchnorm - 02_multi_gpu_spawn/train.c beyond/batch_norm/train_batch_norm.c" # an aside, of any length
} | {
    while read -r name _ before program; do
        [ "$name" = "${1:-}" ] || continue
        for file in "$before" "$program"; do
            ! grep -q '^/\* Given as compiled code: ' "$file" || { echo "$0: $file is $(sed -n '1s|^/\* G|g|p' "$file")" >&2 && exit 2; }
        done
        if [ -t 1 ] && command -v git >/dev/null; then
            git diff --no-index "$before" "$program" || [ $? -eq 1 ] # 1: they differ
        else
            diff -u "$before" "$program" || [ $? -eq 1 ]
        fi
        exit 0
    done
    echo "$0: '${1:-}' is no step: $(pairs | cut -d ' ' -f 1 | tr '\n' ' ')batchnorm or --count" >&2
    exit 2
}
