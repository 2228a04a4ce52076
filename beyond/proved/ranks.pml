/* ranks.pml - which node gets which ranks where nodes come and go: launcher/elastic_group.c.
 *
 * Node 0 takes waiting nodes from a queue, opens a store for the attempt, and gives each node its first
 * rank and the number of all. A node may die, or be cut off and come again with another number. It may
 * also be so slow that node 0 gives it up; then it comes with ranks of an attempt that is over, perhaps
 * to the store of the next attempt, at the same port.
 *
 * BREAK=1  a node does not ask of which attempt the store is
 * BREAK=2  node 0 does not watch the heartbeats of the nodes that it gave ranks
 * BREAK=3  a node that came too late does not go back into the queue
 *
 * Checked: in an attempt every rank has one holder, and all nodes know the same number of ranks; node 0
 * gives up only if too few nodes live; nobody waits for ever. `timeout` means: nothing else can happen. */
#ifndef NODES
#define NODES 3
#endif
#ifndef FAULTS
#define FAULTS 2      /* nodes that die, are cut off or are slow, all together */
#endif
#ifndef BREAK
#define BREAK 0
#endif
#define MIN_NODES 2
#define NUMBERS (NODES + FAULTS)        /* of connections; 0 is node 0's */
#define NUM_RANKS(node) (1 + (node) % 2)
#define MAX_RANKS (NODES + NODES / 2)
#define NONE 99
#define OVER 98

/* The store at the endpoint. */
chan waiting = [NUMBERS] of { byte };   /* a queue of nodes, by the numbers of their connections */
byte last_number;
byte node_of[NUMBERS];
bool gone[NUMBERS];                     /* agent/<number>/gone: it has hung up */
byte answer[NUMBERS] = NONE;            /* assignment/<number>: an attempt or OVER, */
byte first[NUMBERS], all[NUMBERS];      /* the first rank, the number of ranks of all nodes */
bool host_gone;

/* The store of the attempt. */
byte attempt;
bool is_open;
byte due, come, size;                   /* nodes that got ranks, that are here; all their ranks */
bool lost;                              /* one that was here has hung up */
bool taken[MAX_RANKS];

byte faults, number[NODES];             /* of the connection of a node */
bool dead[NODES], cut[NODES], here[NODES];

inline take_ranks(begin, node)
{
    rank = begin;
    do
    :: rank < begin + NUM_RANKS(node) ->
        assert(!taken[rank]); /* else two nodes have this rank */
        taken[rank] = true;
        rank++
    :: else -> rank = 0; break
    od
}

/* form() in elastic_group.c, and what ddprun.c does while the ranks run. */
active proctype Node0()
{
    byte i, left, rank;
gather:
    if
    :: len(waiting) + 1 >= NODES
    :: atomic { len(waiting) + 1 >= MIN_NODES && faults < FAULTS -> faults++ } /* the last call is over */
    :: len(waiting) + 1 >= MIN_NODES && timeout                /* before a slow node came, or a dead one */
    :: len(waiting) + 1 < MIN_NODES && timeout -> goto give_up /* join_timeout */
    fi;
    atomic {
        left = len(waiting); /* update_waiting(): nodes that have hung up leave the queue */
        do
        :: left > 0 -> left--; waiting ? i; if :: gone[i] -> skip :: else -> waiting ! i fi
        :: left == 0 -> break
        od;
        if :: len(waiting) + 1 < MIN_NODES -> i = 0; goto gather :: else -> skip fi;
        do :: left < MAX_RANKS -> taken[left] = false; left++ :: else -> left = 0; break od;
        is_open = true; come = 0; lost = false;
        take_ranks(0, 0);
        size = NUM_RANKS(0); due = len(waiting);
        do
        :: left < due -> waiting ? i; waiting ! i; first[i] = size; size = size + NUM_RANKS(node_of[i]); left++
        :: left == due -> break
        od;
        do
        :: left > 0 -> waiting ? i; all[i] = size; answer[i] = attempt; left--;
            printf("attempt %d: node %d gets rank %d of %d\n", attempt, node_of[i], first[i], size)
        :: left == 0 -> i = 0; break
        od
    }
    if /* the ranks run */
    :: come == due && !lost -> is_open = false; goto announce            /* all are done */
    :: lost -> skip
    :: nempty(waiting) -> skip                                           /* there may be room for more nodes */
    :: atomic { BREAK != 2 && come < due && faults < FAULTS -> faults++ } /* a slow node has no heartbeat, */
    :: BREAK != 2 && timeout -> skip                                     /* nor has a dead one */
    fi;
    atomic { printf("attempt %d is over\n", attempt); is_open = false; attempt++; goto gather }

give_up:
    atomic {
        do :: i < NODES -> left = left + (!dead[i]); i++ :: i == NODES -> break od;
        printf("node 0 gives up, and %d nodes live\n", left);
        assert(left < MIN_NODES)
    }
announce: /* announce_end() */
    atomic {
        do :: nempty(waiting) -> waiting ? i; answer[i] = OVER :: empty(waiting) -> break od;
        host_gone = true
    }
}

proctype Node(byte node)
{
    byte mine, rank;
    {
        skip;
connect:
        atomic { last_number++; cut[node] = false; number[node] = last_number; node_of[last_number] = node }
queue:  waiting ! number[node];
wait:   if
        :: atomic { answer[number[node]] < OVER -> mine = answer[number[node]]; answer[number[node]] = NONE }
        :: answer[number[node]] == OVER || host_gone -> goto done
        :: cut[node] -> goto connect
        fi;
        atomic { /* accept_assignment() */
            if
            :: is_open && (mine == attempt || BREAK == 1) ->
                printf("node %d joins attempt %d with rank %d of %d\n", node, attempt, first[number[node]], all[number[node]]);
                take_ranks(first[number[node]], node);
                assert(all[number[node]] == size);
                here[node] = true; come++
            :: else ->
                printf("node %d comes too late for attempt %d\n", node, mine);
                if :: BREAK == 3 -> goto wait :: BREAK != 3 && !cut[node] -> goto queue :: else -> goto connect fi
            fi
        }
        atomic { !is_open || mine != attempt || cut[node] -> here[node] = false; mine = 0 } /* the attempt is over */
        if :: cut[node] -> goto connect :: else -> goto queue fi
    } unless { dead[node] };
done: skip
}

active proctype Faults()
{
    byte node;
    do
    :: atomic { faults < FAULTS -> faults++;
            select(node : 1 .. NODES - 1);
            if
            :: dead[node] = true; printf("node %d dies\n", node)
            :: cut[node] = true; printf("node %d is cut off\n", node)
            fi;
            gone[number[node]] = true;
            lost = lost || here[node] }
    :: break
    od
}

init
{
    byte node = 1;
    atomic { do :: node < NODES -> run Node(node); node++ :: else -> break od }
}
