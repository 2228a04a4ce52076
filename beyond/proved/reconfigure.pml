/* reconfigure.pml - how the survivors of a failure could agree on a new group without a restart: a design,
 * checked before it was built. The store is the only arbiter.
 *
 * A seat is a rank's number; an incarnation is one process in it; a generation is one group, with an
 * incarnation for each seat. A rank leaves its group when it sees that one of the others is gone, and
 * reports to the store which step its state is of. When all seats have reported, any rank proposes the
 * next generation, by compare_set. Ranks that are behind get the state of those that are furthest.
 * F faults: a death, or a rank that is replaced while it still runs (hung, cut off) and goes on.
 *
 * BREAK=1  the generation is set, not compared and set
 * BREAK=2  a replaced rank may report: there is no fence
 * BREAK=3  the group begins at the lowest step, and no rank is sent a state
 * BREAK=4  rank 0 does not say in the store that it has written the last file
 * BREAK=5  a group without a survivor does not wait until the replaced ranks are dead
 * BREAK=6  a rank that waits for the next generation does not look whether it was replaced
 *
 * Checked: each generation has one record; only ranks at the same step add up; a group that was left
 * completes at most the step that is done again; nobody waits for ever. Not modelled: time, agents that
 * die, and whether it ends at all. */
#ifndef N
#define N 2                /* seats */
#endif
#ifndef F
#define F 1                /* faults */
#endif
#ifndef LAST
#define LAST 1             /* steps of the training; the round after the last is the final barrier */
#endif
#ifndef BREAK
#define BREAK 0
#endif
#define INC (F + 1)        /* incarnations of a seat */
#define G 12               /* generations */
#define NONE 99            /* no state; no report */
#define X(q, i) ((q) * INC + (i))
#define V(g, q, k) (((g) * N + (q)) * (LAST + 1) + (k))
typedef Record { byte inc[N]; byte base; bool set }
Record rec[G];             /* store: generation/<g>: who, and from which step. NONE: from the file */
byte gen;                  /* store: generation. 0: there is none yet */
byte seat[N];              /* store: seat/<q>, one text: incarnation, ... */
byte after[N] = NONE;      /* ... the generation that it has left, ... */
byte rstep[N];             /* ... and the step of its state */
bool ended;                /* store: end, set by rank 0 when the last file is on disk */
byte val[G * N * (LAST + 1)]; /* messages: step + 1 of seat q in collective k of generation g */
byte step[N * INC] = NONE, in[N * INC], left[N * INC]; /* of the processes */
bool dead[N * INC], gone[N * INC];
byte faults;               /* so far */
byte progress;             /* the highest generation in which a step was complete */

#define gone_from(g, q) (dead[X(q, rec[g].inc[q])] || left[X(q, rec[g].inc[q])] >= g || \
                         gone[X(q, rec[g].inc[q])] || seat[q] != rec[g].inc[q])
#define sends(g, q) (in[X(q, rec[g].inc[q])] == g && !gone_from(g, q) && \
                     step[X(q, rec[g].inc[q])] == rec[g].base)
#define runs_on(g, q) (seat[q] > 0 && !dead[X(q, 0)] && !gone[X(q, 0)] || \
                       seat[q] > 1 && !dead[X(q, 1)] && !gone[X(q, 1)])
#define MAY_BEGIN(g) (g == 0 || BREAK == 5 || !ANY(runs_on, g)) /* with no survivor: all are reaped */
#if N == 3
#define ANY(p, g) (p(g, 0) || p(g, 1) || p(g, 2))
#define REPORTED(g) (after[0] == g && after[1] == g && after[2] == g)
#define ALL_IN(g, k) (val[V(g, 0, k)] && val[V(g, 1, k)] && val[V(g, 2, k)])
#define SAME(g, k) (val[V(g, 0, k)] == val[V(g, 1, k)] && val[V(g, 1, k)] == val[V(g, 2, k)])
#define LOST (rstep[0] == NONE && rstep[1] == NONE && rstep[2] == NONE)
#else
#define ANY(p, g) (p(g, 0) || p(g, 1))
#define REPORTED(g) (after[0] == g && after[1] == g)
#define ALL_IN(g, k) (val[V(g, 0, k)] && val[V(g, 1, k)])
#define SAME(g, k) (val[V(g, 0, k)] == val[V(g, 1, k)])
#define LOST (rstep[0] == NONE && rstep[1] == NONE)
#endif

/* Nobody reads these again. States that differ only here become one: docs/proved.md has the difference. */
#define FORGET_SEATS j = 0; base = 0; m[0] = 0; m[1] = 0; m[N - 1] = 0
#define FORGET g = 0; k = 0; FORGET_SEATS; in[X(q, i)] = 0; left[X(q, i)] = 0; step[X(q, i)] = NONE

proctype Rank(byte q, i)
{
    byte g, k, j, base, m[N];
    {
        skip; /* no label may come first */
report: /* our mesh is closed: nothing of ours enters generation `in` any more */
        atomic {
            left[X(q, i)] = in[X(q, i)]; k = 0;
            if
            :: ended && BREAK != 4 -> goto out
            :: else -> skip
            fi;
            if
            :: seat[q] != i && BREAK != 2 -> goto out /* fenced: the compare_set fails */
            :: else -> g = gen; after[q] = g; rstep[q] = step[X(q, i)];
                printf("seat %d incarnation %d reports step %d after generation %d\n", q, i, rstep[q], g)
            fi
        }
        do
        :: atomic { gen > g -> g = gen; j = 0;
            if
            :: rec[g].inc[q] == i -> in[X(q, i)] = g; break
            :: else -> goto report
            fi }
        :: ended && BREAK != 4 -> goto out
        :: seat[q] != i && BREAK != 2 && BREAK != 6 -> goto report /* fenced while it waits */
        :: atomic { gen == g && REPORTED(g) && (!LOST || MAY_BEGIN(g)) -> j = 0; base = (BREAK == 3 -> 98 : NONE) }
            do /* propose: the seats are read one after the other */
            :: atomic { j < N && after[j] == g -> m[j] = seat[j];
                if
                :: BREAK == 3 && rstep[j] < base -> base = rstep[j]
                :: BREAK != 3 && rstep[j] != NONE && (base == NONE || rstep[j] > base) -> base = rstep[j]
                :: else -> skip
                fi; j++ }
            :: atomic { j < N && after[j] != g -> FORGET_SEATS; break }
            :: atomic { j == N -> j = 0;
                if
                :: (gen == g || BREAK == 1) && (base != NONE || MAY_BEGIN(g)) -> /* compare_set */
                    printf("seat %d incarnation %d proposes generation %d from step %d\n", q, i, g + 1, base);
                    assert(g + 1 < G);
                    assert(!rec[g + 1].set); /* one group in a generation */
                    gen = g + 1; rec[gen].set = true; rec[gen].base = (base == 98 -> NONE : base);
                    do :: j < N -> rec[gen].inc[j] = m[j]; j++ :: else -> break od
                :: else -> skip
                fi; FORGET_SEATS; break }
            od
        od;
        /* form the mesh, get the state: whole, or none of it */
        if
        :: atomic { rec[g].base == NONE -> step[X(q, i)] = 0 } /* nobody has one: the snapshot */
        :: rec[g].base != NONE && (step[X(q, i)] == rec[g].base || BREAK == 3 && step[X(q, i)] != NONE) -> skip
        :: atomic { rec[g].base != NONE && step[X(q, i)] != rec[g].base && ANY(sends, g) ->
                    step[X(q, i)] = rec[g].base }
        :: ANY(gone_from, g) -> goto report
        fi;
        do /* train */
        :: atomic { !val[V(g, q, k)] && !(step[X(q, i)] == LAST && q == 0 && !ended) ->
            val[V(g, q, k)] = step[X(q, i)] + 1;
            if
            :: ALL_IN(g, k) -> /* no two groups go on: a replaced rank may finish the step that the others
                                redo, which no other sees, and no more */
                assert(g >= progress || val[V(g, q, k)] - 1 <= (rec[g + 1].base == NONE -> 0 : rec[g + 1].base));
                progress = (g > progress -> g : progress)
            :: else -> skip
            fi }
        :: atomic { step[X(q, i)] == LAST && q == 0 && !ended -> ended = true; printf("the last file is written\n") }
        :: atomic { ALL_IN(g, k) ->
            assert(SAME(g, k)); /* all were at the same step: it is applied once */
            if
            :: step[X(q, i)] == LAST -> goto out
            :: else -> step[X(q, i)]++; k++
            fi }
        :: ANY(gone_from, g) -> goto report
        od;
out:    atomic { gone[X(q, i)] = true; FORGET }
    } unless { atomic { dead[X(q, i)] -> FORGET } }
}

#define LIVES(q) (!dead[X(q, seat[q])] && !gone[X(q, seat[q])])
#define REPLACE(q) seat[q]++; after[q] = NONE; run Rank(q, seat[q])

proctype Agent(byte q) /* a seat's faults; and its launcher, which sees its ranks end, and starts others */
{
end: do
    :: atomic { faults < F && LIVES(q) -> faults++; dead[X(q, seat[q])] = true;
        printf("seat %d incarnation %d dies\n", q, seat[q]) }
    :: atomic { faults < F && LIVES(q) -> faults++; REPLACE(q); /* the old one runs on */
        printf("seat %d incarnation %d is replaced\n", q, seat[q] - 1) }
    :: atomic { dead[X(q, seat[q])] -> REPLACE(q) }
    od
}

init
{
    byte n = 0;
    atomic { do :: n < N -> run Rank(n, 0); run Agent(n); n++ :: else -> break od; n = 0 }
}
