/* ring.pml - the ring all-reduce of common/comm/tcp/tcp_algorithms.c, in all orders of events.
 *
 * N ranks stand in a ring. Each has an array of N blocks, and sends to the next rank only. A message
 * is a number; as in the C code nobody says which block it is, so both sides must count alike.
 *
 * BUFFERS: messages that fit between two ranks. 0: a send waits until the other rank receives, as it
 * does in C once the socket's buffers are full. 1: the network keeps a message.
 *
 * BREAK=1  every rank sends first, and receives afterwards
 * BREAK=2  the reduce-scatter begins with a rank's own block, as the all-gather does
 *
 * Checked: no rank waits for ever (an "invalid end state"), and each ends with the sum of every block. */
#ifndef N
#define N 3
#endif
#ifndef BUFFERS
#define BUFFERS 0
#endif
#ifndef BREAK
#define BREAK 0
#endif

#define BLOCK(i) (((i) + 2 * N) % N)
#define OWN(rank) (1 << (3 * (rank))) /* what a rank adds to each block: one digit of an octal number. So */
#define SUM ((1 << (3 * N)) / 7)      /* a sum names its parts, and 0111 has each of three ranks once */

chan to[N] = [BUFFERS] of { int }; /* to[r]: from the rank before r */

/* exchange() in tcp_exchange.c sends and receives at the same time, whichever can go on. */
inline exchange(outgoing)
{
    if
    :: BREAK == 1 ->
        printf("rank %d sends block %d\n", rank, BLOCK(outgoing));
        to[(rank + 1) % N] ! block[BLOCK(outgoing)];
        to[rank] ? received
    :: BREAK != 1 ->
        if
        :: to[(rank + 1) % N] ! block[BLOCK(outgoing)] -> to[rank] ? received
        :: to[rank] ? received -> to[(rank + 1) % N] ! block[BLOCK(outgoing)]
        fi
    fi
}

/* go_round() in tcp_algorithms.c: what was received in one step is sent in the next. */
inline go_round(first, adds)
{
    step = 0;
    do
    :: step < N - 1 ->
        exchange(first - step);
        d_step {
            block[BLOCK(first - 1 - step)] = adds * block[BLOCK(first - 1 - step)] + received;
            step++
        }
    :: step == N - 1 -> break
    od
}

proctype Rank(byte rank)
{
    int block[N], received;
    byte step;
    d_step { do :: step < N -> block[step] = OWN(rank); step++ :: step == N -> break od }

    go_round(rank - (BREAK != 2), true); /* reduce-scatter */
    go_round(rank, false);               /* all-gather */

    step = 0;
    do
    :: step < N ->
        printf("rank %d has block %d: %o of %o\n", rank, step, block[step], SUM);
        assert(block[step] == SUM);
        step++
    :: step == N -> break
    od
}

init
{
    byte rank;
    atomic { do :: rank < N -> run Rank(rank); rank++ :: rank == N -> break od }
}
