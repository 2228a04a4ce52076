# For tools/break.sh beyond/local_sgd/train_local_sgd.c: a mean after each step, as often as DDP.
s|^#define PERIOD 8|#define PERIOD 1|
