# For tools/break.sh 02c: "only rank 0 prints, so only rank 0 needs the loss".
s|if (batch->number % args->log_interval == 0)|if (rank == 0 \&\& batch->number % args->log_interval == 0)|
