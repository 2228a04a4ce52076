/* stop.pml - how all ranks stop after the same step: 05_fault_tolerance/stop.c, in all orders of events.
 *
 * A signal may come to any rank, at any time. The rank cannot just leave: the others would wait for its
 * gradients. So it writes a 1 beside its gradients, and the next all-reduce brings it to all.
 *
 * BREAK=1  a rank that gets a signal leaves at once
 * BREAK=2  stop_agreed reads its number also where no all-reduce has happened since it was written:
 *          between two epochs it is called twice
 * BREAK=3  each rank reads the number in steps of its own: what stop.c does on GPUs, if ranks counted
 *          their steps differently
 *
 * Checked: no rank waits for ever, and all leave after the same step. */
#ifndef N
#define N 3
#endif
#ifndef SIGNALS
#define SIGNALS 2     /* that come at most */
#endif
#ifndef BREAK
#define BREAK 0
#endif
#define EPOCH_STEPS 2
#define EPOCHS 2
#define LAST (EPOCHS * EPOCH_STEPS)
#define NEVER 99

bool requested[N];    /* this rank has got a signal */
bool sent[N];         /* the number beside its gradients; a mean is above 0 if one of them is */
byte arrived[LAST];   /* ranks whose gradients of this step are there, */
bool mean[LAST];      /* and what their numbers come to */
byte left = NEVER;    /* the step after which the first rank left */

#define READS(rank) (BREAK != 3 || step % 2 == (rank) % 2)

/* stop_agreed() in stop.c. No other rank sees what it changes, but for the signal. */
inline stop_agreed()
{
    atomic {
        if
        :: step == LAST || !READS(rank) -> skip /* training_done() */
        :: else ->
            agreed = agreed || (sent[rank] && (step != read_at || BREAK == 2));
            read_at = step;
            if
            :: requested[rank] && !agreed && !announced ->
                printf("rank %d, step %d: all ranks stop after the next step\n", rank, step);
                sent[rank] = true;
                announced = true
            :: else -> skip
            fi
        fi
    }
}

/* The gradients of a step: each rank gives its own, then waits for those of all. */
inline all_reduce()
{
    atomic {
        mean[step] = mean[step] || sent[rank];
        arrived[step]++
    }
    atomic {
        arrived[step] == N -> /* waits for this */
        sent[rank] = mean[step];
        step++
    }
}

proctype Rank(byte rank)
{
    byte epoch, step, read_at;
    bool agreed, announced;
    do
    :: epoch < EPOCHS && !agreed ->
        do
        :: stop_agreed();
            if
            :: agreed || step == (epoch + 1) * EPOCH_STEPS -> break
            :: BREAK == 1 && requested[rank] -> agreed = true; break
            :: else -> all_reduce()
            fi
        od;
        epoch++
    :: else -> break
    od;
    atomic {
        printf("rank %d leaves after step %d\n", rank, step);
        assert(left == NEVER || left == step);
        left = step
    }
}

active proctype Signals()
{
    byte rank, count;
end:
    do
    :: count < SIGNALS ->
        atomic {
            select(rank : 0 .. N - 1);
            printf("a signal comes to rank %d\n", rank);
            requested[rank] = true;
            count++
        }
    od
}

init
{
    byte rank;
    atomic { do :: rank < N -> run Rank(rank); rank++ :: rank == N -> break od }
}
