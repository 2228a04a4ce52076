# For tools/break.sh beyond/comm_hooks/train_power_sgd.c: what a step leaves out is forgotten.
s|^    power_sgd_decompress(hook);|&\
    memset(hook->error, 0, hook->reducer->parameter[hook->reducer->num_parameters - 1].offset * sizeof *hook->error);|
