"""The pictures of chapter 05."""
from picture import COLOURS, EDGE, GREY, LIGHT, PALE, PAPER, Picture


def restart():
    """05: what a kill costs: the steps since the last snapshot that is whole."""
    p = Picture(800, 330)

    def steps(y, first, last, rank, x):
        for step in range(first, last + 1):
            p.box(x, y, 30, 28, (str(step),), fill=LIGHT[rank], stroke=COLOURS[rank], size=12)
            x += 34
        return x

    def writer(x, step, words):
        p.arrow(x, 76, x + 8, 98, colour=GREY)
        p.box(x + 8, 100, 84, 28, (words,), fill="ok-wash", size=12)
        p.text(x + 50, 144, f"snapshot, step {step}", size=11, colour=GREY)

    p.text(20, 30, "attempt 0", "start", bold=True)
    p.text(20, 66, "rank 0", "start", 12)
    p.text(20, 186, "rank 1", "start", 12)
    x = steps(48, 17, 27, 0, 90)
    steps(168, 17, 27, 1, 90)
    writer(90 + 4 * 34, 20, "writes")
    p.text(x + 14, 188, "killed", "start", 14, "fault-ink", True)
    p.text(x + 14, 68, "sees it at once, and ends", "start", 12)
    p.line(20, 214, 780, 214, "4 4")
    p.text(20, 238, "attempt 1", "start", bold=True)
    for rank, y in ((0, 252), (1, 286)):
        p.text(20, y + 18, f"rank {rank}", "start", 12)
        p.box(90, y, 98, 28, ("reads step 20",) if rank == 0 else ("is told it",), fill=PAPER, size=12)
        x = steps(y, 21, 32, rank, 226)
    p.arrow(190, 268, 222, 268)
    p.arrow(190, 300, 222, 300)
    p.text(x + 8, 288, "the same", "start", 12)
    p.text(x + 8, 304, "bytes", "start", 12)
    return p


def attempts():
    """05: what the launcher does: attempts, until one ends the job."""
    p = Picture(800, 290)
    p.box(14, 96, 124, 56, ("meet: who is here,", "which numbers?"), size=12)
    p.box(162, 96, 124, 56, ("attempt k: a new,", "empty store; ranks"), size=12)
    p.box(310, 96, 112, 56, ("watch: signals,", "ranks, nodes"), size=12)
    for x in (138, 286):
        p.arrow(x, 124, x + 22, 124)
    p.arrow(424, 108, 636, 48, "all ranks are done", dx=-34, dy=-14)
    p.arrow(424, 124, 636, 124, "all have saved and stopped")
    p.arrow(424, 140, 636, 200, "one has failed", dx=40, dy=-8)
    p.box(640, 26, 144, 40, ("end: status 0",), fill="ok-wash", size=12)
    p.box(640, 104, 144, 40, ("end: status 75",), fill=PAPER, size=12)
    p.box(640, 182, 144, 56, ("end the ranks; can", "it help to restart?"), fill="fault-wash", size=12)
    p.line(640, 224, 76, 224)
    p.arrow(76, 224, 76, 156, colour=GREY)
    p.text(330, 244, "yes, and a restart is left: attempt k + 1", size=12)
    p.arrow(712, 238, 712, 258)
    p.text(688, 276, "no: its status, and the report", size=12)
    return p


def tree():
    """05: --reduce-order fixed: eight shards, one tree, and who has which of them."""
    p = Picture(800, 470)
    order = [0, 4, 2, 6, 1, 5, 3, 7]  # as the leaves of the tree stand side by side
    left, width = 130, 80
    x = [left + width * i for i in range(8)]
    p.text(20, 34, "the shards'", "start", 12)
    p.text(20, 50, "gradients", "start", 12)
    for i, shard in enumerate(order):
        p.box(x[i], 20, 66, 38, (f"shard {shard}",), size=12)
    level = [(x[i] + 33, str(shard)) for i, shard in enumerate(order)]
    for depth, words in enumerate(("k + 4", "k + 2", "k + 1")):
        y = 96 + 72 * depth
        p.text(20, y + 23, f"k and {words}", "start", 12)
        above, level = level, []
        for j in range(0, len(above), 2):
            middle = (above[j][0] + above[j + 1][0]) / 2
            for parent in (above[j], above[j + 1]):
                p.arrow(parent[0], y - 38 if depth == 0 else y - 34, middle + (parent[0] - middle) / 8, y - 2, colour=GREY)
            name = f"({above[j][1]}+{above[j + 1][1]})"
            p.box(middle - 50, y, 100, 36, ("the gradients",) if depth == 2 else (name[1:-1],),
                  fill="phase-send-wash" if depth < 2 else "ok-wash", size=12)
            level.append((middle, name))
    for row, ranks in enumerate((8, 4, 2, 1)):
        y, span = 310 + 34 * row, 8 // ranks
        p.text(20, y + 18, f"on {ranks} rank{'s' if ranks > 1 else ''}", "start", 12)
        for group in range(ranks):
            rank = order[group * span] % ranks
            p.box(x[group * span], y, width * span - 14, 26, (f"rank {rank}",), size=12,
                  fill=LIGHT[rank % 4] if ranks > 1 else PALE, stroke=COLOURS[rank % 4] if ranks > 1 else EDGE)
    p.text(400, 460, "Two sums that stand over one rank are added inside it, others between ranks: the tree is "
           "the same.", size=12)
    return p


def reconfigure():
    """Continuing without a restart: the same kill, both ways."""
    p = Picture(800, 440)

    def lane(y, name, first, last, rank, x):
        p.text(20, y + 18, name, "start", 12)
        for step in range(first, last + 1):
            p.box(x, y, 30, 26, (str(step),), fill=LIGHT[rank], stroke=COLOURS[rank], size=12)
            x += 34
        return x

    p.text(20, 28, "restart: all processes end, and the steps since the snapshot are done again", "start", bold=True)
    for rank in range(3):
        y = 44 + 46 * rank
        x = lane(y, f"rank {rank}", 21, 25, rank, 90)
        if rank == 1:
            p.text(x + 6, y + 18, "killed", "start", 12, COLOURS[1], True)
        else:
            p.text(x + 6, y + 18, "ends", "start", 12)
        p.box(330, y, 130, 26, ("starts, reads step 20" if rank == 0 else "starts, gets step 20",), fill=PAPER, size=11)
        lane(y, "", 21, 28, rank, 478)
    p.line(20, 196, 780, 196, "4 4")
    p.text(20, 226, "reconfigure: two processes stay; the third gets the state from one of them", "start", bold=True)
    for rank in range(3):
        y = 242 + 46 * rank
        x = lane(y, f"rank {rank}", 21, 25, rank, 90)
        if rank == 1:
            p.text(x + 6, y + 18, "killed", "start", 12, COLOURS[1], True)
            p.box(330, y, 94, 26, ("starts",), fill=PAPER, size=11)
        else:
            p.box(x + 4, y, 160, 26, ("leaves, waits for rank 1",), fill=PALE, size=11)
        lane(y, "", 26, 34, rank, 478)
    p.arrow(444, 270, 444, 292)
    p.text(448, 283, "state", "start", 11, GREY)
    p.text(20, 402, "The store holds who is in which seat. A group has a number, its generation: messages of another one are "
           "refused.", "start", 12)
    p.text(20, 422, "Here all ranks had done step 25. If only one has done it, the others are sent its state, too.", "start", 12)
    return p


PICTURES = [restart, reconfigure, attempts, tree]
