# For tools/break.sh and train_batch_norm.c or train_sync_batch_norm.c in beyond/: how many collectives there were so far.
s|^    conv_net_step.*|&\
    if (reducer->pg->rank == 0)\
        log_print("after step %d: %d", (int)net->step, (int)reducer->pg->sequence);|
