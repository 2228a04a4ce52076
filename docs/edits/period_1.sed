# For tools/break.sh of the asides in beyond/local_sgd: a round after each step, of the whole model, and an outer optimizer
# that takes the mean as it is. So they send as often as DDP.
s|^#define PERIOD 8|#define PERIOD 1|
s|^#define FRAGMENTS 4|#define FRAGMENTS 1|
s|^#define OVERLAP 2|#define OVERLAP 0|
s|^#define OUTER_LR 0.7f|#define OUTER_LR 1.0f|
s|^#define OUTER_MOMENTUM 0.9f|#define OUTER_MOMENTUM 0.0f|
