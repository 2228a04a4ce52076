# For tools/break.sh and beyond/tensor_parallel: each rank adds the bias to its part, so the sum has it once for each rank.
/^        all_reduce(parts->pg, parts->output, /{h;d;}
/^        tensor_parallel_add_bias(parts);/G
