"""The pictures of chapters 03 and 04."""
from picture import COLOURS, GREY, LIGHT, PALE, PAPER, Picture


def rendezvous():
    """03: how two ranks meet."""
    p = Picture(760, 432)
    for x, words, fill in ((120, "rank 0", LIGHT[0]), (380, "store", PALE),
                           (640, "rank 1", LIGHT[1])):
        p.box(x - 70, 20, 140, 36, (words,), fill=fill)
        p.line(x, 56, x, 404, "3 3")
    p.box(260, 62, 240, 18, ("at MASTER_ADDR:MASTER_PORT",), fill=PAPER, stroke=PAPER, size=12)
    asks = [(100, 0, "ADD init/ 1"), (116, 1, "ADD init/ 1"),
            (148, 0, "COMPARE_SET process of rank 0"),
            (164, 1, "COMPARE_SET process of rank 1"),
            (196, 0, "SET line of rank 0: --backend tcp ..."),
            (212, 1, "SET line of rank 1: --backend tcp ..."),
            (240, 1, "WAIT, GET line of rank 0: the same?"),
            (252, 0, "WAIT, GET line of rank 1: the same?"),
            (276, 0, "SET tcp address 0: 127.0.0.1 33305"),
            (292, 1, "SET tcp address 1: 127.0.0.1 45373"),
            (324, 1, "WAIT, GET tcp address 0"), (340, 0, "WAIT, GET tcp address 1")]
    for y, rank, words in asks:
        x = (128, 632)[rank]
        p.arrow(x, y, (372, 388)[rank], y, colour=COLOURS[rank])
        p.text((250, 510)[rank], y - 4, words, size=11)
    p.arrow(128, 380, 632, 380)
    p.arrow(632, 392, 128, 392)
    p.box(250, 358, 260, 18, ("two connections: data, and notices",), fill=PAPER, stroke=PAPER, size=12)
    p.text(380, 422, "from here on the store is not used", size=12, colour=GREY)
    return p


def started(by, variables):
    """03: who starts two ranks, and, with variables, what each of them is told."""
    p = Picture(760, 250 if variables else 150)
    p.box(20, 50, 150, 50, by, fill=PALE)
    for rank in range(2):
        y = 20 + 60 * rank
        p.arrow(170, 75, 228, y + 25)
        p.box(230, y, 510, 50, (f"rank {rank}",) if not variables else (
            f"RANK={rank} LOCAL_RANK={rank} WORLD_SIZE=2", "MASTER_ADDR=127.0.0.1 MASTER_PORT=29555"),
            fill=LIGHT[rank], stroke=COLOURS[rank], size=13)
    if variables:
        p.box(300, 180, 370, 34, ("the store, which rank 0 opens at 127.0.0.1:29555",), fill=PALE, size=12)
        p.arrow(480, 130, 480, 178)
        p.text(490, 158, "all look there for the others", "start", 12, GREY)
        p.text(380, 238, "Whoever sets these five variables is a launcher.", size=12, colour=GREY)
    return p


def launcher():
    return started(("a launcher", "starts, watches"), False)


def variables():
    return started(("a loop of the shell",), True)


def srun():
    """04: who starts the batch script, who the tasks, and which number each task has."""
    p = Picture(760, 270)
    p.box(16, 20, 100, 40, ("you",), fill=PALE)
    for node in range(2):
        left = 250 + 260 * node
        p.box(left, 8, 244, 226, fill=PAPER)
        p.text(left + 122, 26, f"node {node + 1}", bold=True, size=12)
        for local in range(2):
            rank = 2 * node + local
            p.box(left + 12 + 112 * local, 172, 108, 50, (f"task {rank}", f"SLURM_PROCID={rank}"), fill=LIGHT[rank], stroke=COLOURS[rank], size=10)
    p.box(262, 34, 220, 40, ("the batch script: once,", "here SLURM_PROCID is 0"), fill=PALE, size=12)
    p.arrow(116, 40, 260, 54)
    p.text(186, 38, "sbatch", size=12)
    p.line(372, 74, 372, 112)
    p.line(316, 112, 688, 112)
    p.text(632, 104, "srun: a process for each task", size=12)
    for x in 316, 428, 576, 688:
        p.arrow(x, 112, x, 170)
    p.text(380, 256, "The script runs before there is any task: it can't know a rank.", size=12, colour=GREY)
    return p


def nodes():
    """04: three numbers of each rank."""
    p = Picture(760, 330)
    p.box(230, 18, 300, 40, ("srun or mpirun; or one ddprun per node",), fill=PALE)
    for node in range(2):
        left = 30 + 365 * node
        p.arrow(340 + 80 * node, 60, left + 167, 94)
        p.box(left, 96, 335, 196, fill=PAPER)
        p.text(left + 167, 118, f"node {node}", bold=True)
        for local in range(2):
            rank, x = 2 * node + local, left + 15 + 158 * local
            p.box(x, 130, 147, 66, (f"rank {rank}", f"local rank {local}"), fill=LIGHT[rank],
                  stroke=COLOURS[rank])
            p.arrow(x + 73, 196, x + 73, 212)
            p.box(x, 214, 147, 26, (f"device {local}",), size=12)
        p.box(left + 15, 252, 305, 28, ("its own disk: --scratch-dir",), size=12)
    p.arrow(366, 163, 394, 163)
    p.arrow(394, 163, 366, 163)
    p.text(380, 318, "between the nodes: one link that all their ranks share", size=12, colour=GREY)
    return p


def hierarchy():
    """04: a hierarchical all-reduce, two nodes of two ranks; cells are halves of the array."""
    p = Picture(800, 330)
    columns = [("at the start", [["0", "0"], ["1", "1"], ["2", "2"], ["3", "3"]]),
               ("1. reduce-scatter", [["01", ""], ["", "01"], ["23", ""], ["", "23"]]),
               ("2. all-reduce", [["all", ""], ["", "all"], ["all", ""], ["", "all"]]),
               ("3. all-gather", [["all", "all"]] * 4)]
    under = ["", "inside each node", "between the nodes", "inside each node"]
    for column, (title, rows) in enumerate(columns):
        x = 110 + 178 * column
        p.text(x + 62, 30, title, bold=True)
        p.text(x + 62, 48, under[column], size=12, colour=GREY)
        for rank, cells in enumerate(rows):
            y = 66 + 52 * rank + (22 if rank > 1 else 0)
            if column == 0:
                p.text(x - 12, y + 23, f"rank {rank}", "end", 12)
            for i, words in enumerate(cells):
                fill = "ok-wash" if words == "all" else "phase-send-wash" if len(words) == 2 else PALE
                p.box(x + 64 * i, y, 60, 36, (words,), fill=fill if words else PAPER, size=12)
    p.line(20, 180, 780, 180, "4 4")
    p.text(30, 112, "node 0", "start", 12, GREY)
    p.text(30, 240, "node 1", "start", 12, GREY)
    p.text(400, 310, "Digits say whose numbers are summed in a cell. Only stage 2 crosses the dashed "
           "line, with half of the array.", size=12)
    return p


PICTURES = [launcher, variables, rendezvous, srun, nodes, hierarchy]
