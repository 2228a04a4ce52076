/* reconfigure.pml - how the survivors of a failure agree on a new group without a restart, and go on
 * (05_fault_tolerance/reconfigure/agreement.c, reconfigure.c). The store is the only arbiter.
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
 * completes at most the step that is done again; nobody waits for ever. Not modelled: time, launchers
 * that die, and whether it ends at all. */
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
#define P (N * INC)        /* processes */
#define G 8                /* generations that are not forgotten */
#define NONE 99            /* no state; no report */
#define X(q, i) ((q) * INC + (i))
#define SEAT (_pid / INC)  /* of this process */
#define LIFE (_pid % INC)  /* its incarnation */
#define VALUE(g, q, k) rec[g].val[(q) * (LAST + 1) + (k)]
typedef Record {
    byte inc[N];           /* store: generation/<g>: who, ... */
    byte base;             /* ... and from which step. NONE: from the file */
    bool set;
    byte val[N * (LAST + 1)] /* its messages: step + 1 of seat q in collective k */
}
Record rec[G];
byte gen;                  /* store: generation. 0: there is none yet */
byte seat[N];              /* store: seat/<q>, one text: incarnation, ... */
byte after[N] = NONE;      /* ... the generation that it has left, ... */
byte rstep[N] = NONE;      /* ... and the step of its state */
bool ended;                /* store: end, set by rank 0 when the last file is on disk */
byte step[P] = NONE, in[P], left[P], seen[P]; /* of the processes */
bool dead[P], gone[P];
/* Of several ranks that propose, one succeeds, and what the others read has no effect: so one at a time will do. */
bool proposes;
byte faults;               /* so far */
byte progress;             /* the highest generation in which a step was complete */

#define gone_from(g, q) (dead[X(q, rec[g].inc[q])] || in[X(q, rec[g].inc[q])] > g || \
                         left[X(q, rec[g].inc[q])] >= g || \
                         gone[X(q, rec[g].inc[q])] || seat[q] != rec[g].inc[q])
#define sends(g, q) (in[X(q, rec[g].inc[q])] == g && !gone_from(g, q) && \
                     step[X(q, rec[g].inc[q])] == rec[g].base)
#define runs_on(g, q) (seat[q] > 0 && !dead[X(q, 0)] && !gone[X(q, 0)] || \
                       seat[q] > 1 && !dead[X(q, 1)] && !gone[X(q, 1)])
#define MAY_BEGIN(g) (g == 0 || BREAK == 5 || !ANY(runs_on, g)) /* with no survivor: all are reaped */
#if N == 3
#define ANY(p, g) (p(g, 0) || p(g, 1) || p(g, 2))
#define REPORTED(g) (after[0] == g && after[1] == g && after[2] == g)
#define ALL_IN(g, k) (VALUE(g, 0, k) && VALUE(g, 1, k) && VALUE(g, 2, k))
#define SAME(g, k) (VALUE(g, 0, k) == VALUE(g, 1, k) && VALUE(g, 1, k) == VALUE(g, 2, k))
#define LOST (rstep[0] == NONE && rstep[1] == NONE && rstep[2] == NONE)
#else
#define ANY(p, g) (p(g, 0) || p(g, 1))
#define REPORTED(g) (after[0] == g && after[1] == g)
#define ALL_IN(g, k) (VALUE(g, 0, k) && VALUE(g, 1, k))
#define SAME(g, k) (VALUE(g, 0, k) == VALUE(g, 1, k))
#define LOST (rstep[0] == NONE && rstep[1] == NONE)
#endif


/* States that differ only in what nobody reads again become one: README.md says why. Generations are
 * numbered anew, from the oldest that has a member left. */
hidden byte old, n, v;
#define IS_IN(p) (in[p] > left[p] && !dead[p] && !gone[p])
#define LESS(x) x = (x > old -> x - old : 0)
#define KEEP(x, y) x = (n + old > gen -> 0 : y)
inline forget_generations()
{
    d_step {
        old = gen; n = 0;
        do :: n < P -> old = (IS_IN(n) && in[n] < old -> in[n] : old); n++ :: else -> break od;
        if
        :: old > 1 -> old--; n = 0;
            do :: n < P -> LESS(in[n]); LESS(left[n]); LESS(seen[n]); n++ :: else -> break od; n = 0;
            do :: n < N -> after[n] = (after[n] == NONE -> NONE : (after[n] > old -> after[n] - old : 0)); n++
               :: else -> break od; n = 1;
            do :: n <= gen -> KEEP(rec[n].base, rec[(n + old) % G].base); KEEP(rec[n].set, rec[(n + old) % G].set); v = 0;
                    do :: v < N -> KEEP(rec[n].inc[v], rec[(n + old) % G].inc[v]); v++ :: else -> break od; v = 0;
                    do :: v < N * (LAST + 1) -> KEEP(rec[n].val[v], rec[(n + old) % G].val[v]); v++ :: else -> break od;
                    n++
               :: else -> break od;
            LESS(progress); LESS(gen)
        :: else -> skip
        fi; n = 0; v = 0; old = 0
    }
}
#define FORGET_SEATS proposes = false; j = 0; base = 0; m[0] = 0; m[1] = 0; m[N - 1] = 0
#define MAY_DIE (faults < F && seat[SEAT] == LIFE)
inline die()
{
    faults++; dead[_pid] = true;
    printf("seat %d incarnation %d dies\n", SEAT, LIFE);
    goto out
}

/* Our mesh is closed: nothing of ours enters generation `in` any more. */
inline report()
{
    left[_pid] = in[_pid]; k = 0; forget_generations();
    if
    :: ended && BREAK != 4 -> goto out
    :: else -> skip
    fi;
    if
    :: seat[SEAT] != LIFE && BREAK != 2 -> goto out /* fenced: the compare_set fails */
    :: else -> seen[_pid] = gen; after[SEAT] = gen; rstep[SEAT] = step[_pid];
        printf("seat %d incarnation %d reports step %d after generation %d\n", SEAT, LIFE, step[_pid], gen);
        goto wait
    fi
}

active [P] proctype Rank()
{
    byte k, j, base, m[N];
endidle: /* a process that is not started stays here */
    if
    :: atomic { seat[SEAT] >= LIFE -> report() }
    :: atomic { MAY_DIE -> die() }
    fi;
wait:
    do
    :: atomic { gen > seen[_pid] -> seen[_pid] = gen; j = 0;
        if
        :: rec[gen].inc[SEAT] == LIFE -> in[_pid] = gen; left[_pid] = 0; forget_generations();
            if
            :: rec[in[_pid]].base != NONE && step[_pid] == rec[in[_pid]].base -> goto train
            :: else -> break
            fi
        :: else -> report()
        fi }
    :: atomic { ended && BREAK != 4 -> goto out }
    :: atomic { seat[SEAT] != LIFE && BREAK != 2 && BREAK != 6 -> report() } /* fenced while it waits */
    :: atomic { MAY_DIE -> die() }
    :: atomic { gen == seen[_pid] && REPORTED(gen) && (!LOST || MAY_BEGIN(gen)) && (!proposes || BREAK == 1) -> proposes = true; j = 0; base = (BREAK == 3 -> 98 : NONE) }
        do /* propose: the seats are read one after the other */
        :: atomic { gen != seen[_pid] && BREAK != 1 -> FORGET_SEATS; break } /* the compare_set will fail */
        :: atomic { MAY_DIE -> proposes = false; die() }
        :: atomic { (gen == seen[_pid] || BREAK == 1) && j < N && after[j] == seen[_pid] -> m[j] = seat[j];
            if
            :: BREAK == 3 && rstep[j] < base -> base = rstep[j]
            :: BREAK != 3 && rstep[j] != NONE && (base == NONE || rstep[j] > base) -> base = rstep[j]
            :: else -> skip
            fi; j++ }
        :: atomic { (gen == seen[_pid] || BREAK == 1) && j < N && after[j] != seen[_pid] -> FORGET_SEATS; break }
        :: atomic { (gen == seen[_pid] || BREAK == 1) && j == N -> j = 0;
            if
            :: base != NONE || MAY_BEGIN(seen[_pid]) -> /* compare_set */
                printf("seat %d incarnation %d proposes generation %d from step %d\n", SEAT, LIFE, seen[_pid] + 1, base);
                assert(seen[_pid] + 1 < G);
                assert(!rec[seen[_pid] + 1].set); /* one group in a generation */
                gen = seen[_pid] + 1; rec[gen].set = true; rec[gen].base = (base == 98 -> NONE : base);
                do :: j < N -> rec[gen].inc[j] = m[j]; after[j] = (BREAK == 1 -> after[j] : NONE);
                    rstep[j] = (BREAK == 1 -> rstep[j] : NONE); j++ :: else -> break od;
                forget_generations()
            :: else -> skip
            fi; FORGET_SEATS; break }
        od
    od;
    /* form the mesh, get the state: whole, or none of it */
    if
    :: atomic { rec[in[_pid]].base == NONE -> step[_pid] = 0 } /* nobody has one: the snapshot */
    :: BREAK == 3 && rec[in[_pid]].base != NONE && step[_pid] != NONE -> skip
    :: atomic { rec[in[_pid]].base != NONE && ANY(sends, in[_pid]) -> step[_pid] = rec[in[_pid]].base }
    :: atomic { ANY(gone_from, in[_pid]) -> report() }
    :: atomic { MAY_DIE -> die() }
    fi;
train:
    do
    :: atomic { !VALUE(in[_pid], SEAT, k) && !(step[_pid] == LAST && SEAT == 0 && !ended) ->
        VALUE(in[_pid], SEAT, k) = step[_pid] + 1;
        if
        :: ALL_IN(in[_pid], k) -> /* no two groups go on: a replaced rank may finish the step that the others
                                   redo, which no other sees, and no more */
            assert(in[_pid] >= progress || step[_pid] <= (rec[in[_pid] + 1].base == NONE -> 0 : rec[in[_pid] + 1].base));
            progress = (in[_pid] > progress -> in[_pid] : progress)
        :: else -> skip
        fi }
    :: atomic { step[_pid] == LAST && SEAT == 0 && !ended -> ended = true; printf("the last file is written\n") }
    :: atomic { ALL_IN(in[_pid], k) ->
        assert(SAME(in[_pid], k)); /* all were at the same step: it is applied once */
        if
        :: step[_pid] == LAST -> goto out
        :: else -> step[_pid]++; k++
        fi }
    :: atomic { ANY(gone_from, in[_pid]) -> report() }
    :: atomic { MAY_DIE -> die() }
    od;
out:
    atomic { gone[_pid] = !dead[_pid]; k = 0; j = 0; base = 0; m[0] = 0; m[1] = 0; m[N - 1] = 0; in[_pid] = 0; left[_pid] = 0; seen[_pid] = 0; step[_pid] = NONE;
        forget_generations() }
}

#define RUNS(q) (!dead[X(q, seat[q])] && !gone[X(q, seat[q])])
#define REPLACE(q) seat[q]++; after[q] = NONE; rstep[q] = NONE; printf("seat %d has a new process, incarnation %d\n", q, seat[q])

active proctype Launchers() /* see their ranks end, and start others */
{
endless:
    do
    :: atomic { faults < F && RUNS(0) -> faults++; REPLACE(0) } /* the old one runs on */
    :: atomic { faults < F && RUNS(1) -> faults++; REPLACE(1) }
    :: atomic { faults < F && N > 2 && RUNS(N - 1) -> faults++; REPLACE(N - 1) }
    :: atomic { dead[X(0, seat[0])] -> REPLACE(0) }
    :: atomic { dead[X(1, seat[1])] -> REPLACE(1) }
    :: atomic { N > 2 && dead[X(N - 1, seat[N - 1])] -> REPLACE(N - 1) }
    od
}
