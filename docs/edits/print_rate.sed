# For tools/break.sh 02: rank 0 prints the learning rate of each step.
s|^            metrics_step.*|&\
            if (rank == 0)\
                log_print("step %llu: %.5f", (unsigned long long)model.step,\
                          args->lr * lr_factor(\&optim.schedule, model.step));|
