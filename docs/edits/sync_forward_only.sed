# For tools/break.sh beyond/batch_norm/train_sync_batch_norm.c: batch norm over all ranks in the forward pass only.
s|^    conv_net_backward.*|    conv_net_convert_sync_batch_norm(net, NULL); // each rank by itself\
&\
    conv_net_convert_sync_batch_norm(net, reducer->pg);|
