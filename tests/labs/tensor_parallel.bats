#!/usr/bin/env bats
# make lab-tensor_parallel: our program is accepted, and others that are right; wrong ones are rejected with the hint that
# names the mistake.

setup() {
    export LAB=$BATS_TEST_TMPDIR/lab LAB_OURS=$BATS_FILE_TMPDIR/ours LAB_SECONDS=120
    ours=beyond/tensor_parallel/train_tensor_parallel.c
}

# judge STATUS [SED]: of our program, changed.
judge() {
    teach/lab.sh tensor_parallel >/dev/null || true
    sed "${2:-}" $ours >"$LAB/tensor_parallel/train.c"
    run teach/lab.sh check tensor_parallel
    echo "$2: $output"
    [ "$status" -eq "$1" ]
}

# wrong "HINT..." SED: one of these hints
wrong() {
    judge 1 "$2"
    ! cmp -s $ours "$LAB/tensor_parallel/train.c" || false
    for name in $1; do
        hint=$(sed -n "s/^hint $name: //p" teach/lab/tensor_parallel.txt)
        [ -n "$hint" ]
        [[ $output != *"no   "*"hint: $hint"* ]] || return 0
    done
    false
}

@test "our own passes, and three other ways" {
    run teach/lab.sh tensor_parallel
    [[ $output == *"Turn it into step tensor_parallel"* ]]
    judge 0
    [[ $output == *"yes  the cnn: "*"yes  the mlp: "*"Done."* ]]
    # the sums are started, and waited for
    judge 0 's/all_reduce(\(.*\), REDUCE_SUM);/work_wait(all_reduce_async(\1, REDUCE_SUM));/'
    # the hook before a layer is the library's, and the sums ask for numbers instead of the split
    judge 0 's/parts->split\[layer\] == BY_ROWS \&\& !backward/parts->output_numel > 0 \&\& !backward/; s/parts->split\[layer\] == BY_COLUMNS \&\& backward/parts->input_grad_numel > 0/; s/^    TensorParallel \*parts = context;/&\n    (void)layer;/'
    # rank 0 of a replica adds up, and sends the sum to the others
    judge 0 's/^        all_reduce(parts->pg, parts->input_grad, .*/        reduce(parts->pg, parts->input_grad, parts->input_grad_numel, FLOAT32, REDUCE_SUM, 0);\n        broadcast(parts->pg, parts->input_grad, parts->input_grad_numel, FLOAT32, 0);/'
}

@test "wrong sums" {
    wrong forward '/^        all_reduce(parts->pg, parts->output, /d'
    wrong backward '/^        all_reduce(parts->pg, parts->input_grad, /d'
    wrong sum '/parts->output, /s/REDUCE_SUM/REDUCE_MEAN/'
    wrong sum '/parts->input_grad, /s/REDUCE_SUM/REDUCE_MEAN/'
    wrong bias '/^        all_reduce(parts->pg, parts->output, /{h;d}; /^        tensor_parallel_add_bias/G'
    wrong bias '/^        tensor_parallel_add_bias/d'
    wrong group '/parts->output, /s/parts->pg,/parts->pg->parent,/'
    wrong sent '/parts->input_grad, /s/$/\n        static float again[16 * 9216];\n        all_reduce(parts->pg, again, parts->input_grad_numel, FLOAT32, REDUCE_SUM);/'
}

@test "wrong groups" {
    wrong rows '/^    distributed_sampler_init/,/args->seed/{s/mesh.data.rank, mesh.data.world_size/rank, world_size/}'
    wrong rows '/^    distributed_sampler_init/,/args->seed/{s/mesh.data.rank, mesh.data.world_size/mesh.tensor.rank, mesh.tensor.world_size/}'
    wrong rows 's/args_batch_size(args, mesh.data.world_size)/args_batch_size(args, 1) * 2/'
    wrong replicas 's/reducer_init(&reducer, args, &mesh.data,/reducer_init(\&reducer, args, \&pg,/'
    wrong replicas 's/reducer_init(&reducer, args, &mesh.data,/reducer_init(\&reducer, args, \&mesh.tensor,/'
    wrong group 's/tensor_parallel_init(&parts, &mesh.tensor/tensor_parallel_init(\&parts, \&mesh.data/'
    wrong broadcast '/^    broadcast(&pg, /d'
    wrong parts '/^    tensor_parallel_init/d; /^    model_set_layer_hooks/d; /^    tensor_parallel_free/d; s/tensor_parallel_\(un\|re\)shard(&parts)/(void)parts/; s/tensor_parallel_divergence(&parts)/model_divergence(\&model)/'
    # its buckets are where the whole gradients were, which may end it first
    wrong 'reducer run' '/^    TensorParallel parts;/{h;d}; /^    tensor_parallel_init/{H;d}; /^    model_set_layer_hooks/{H;d}; /^    reducer_init/G'
}

@test "wrong evaluations and files" {
    wrong evaluation 's/^    sequential_sampler_init(.*/    sequential_sampler_init(\&sampler, test_set->size, pg->parent->rank, pg->parent->world_size);/'
    wrong lines 's/pg->parent->rank == 0/pg->rank == 0/'
    wrong lines 's/batch_size \* mesh.data.world_size/batch_size * world_size/'
    wrong unshard 's/tensor_parallel_\(un\|re\)shard(&parts)/(void)0/'
    wrong run 's/^        if (is_due)$/        if (is_due \&\& rank == 0)/'
    wrong files 's/^    return spawn(args.nproc, &args);/    return 0;/'
    wrong build 's/BY_ROWS/BY_LINES/'
}
