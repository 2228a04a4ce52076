# For tools/break.sh 02, after print_rate.sed: the schedule counts the epochs of a single process.
/optim_init/s/dataloader_num_batches(&loader)/train_set.size \/ (size_t)batch_size/
