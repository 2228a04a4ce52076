"""The pictures of chapters 01 and 02, and of On a GPU."""
from picture import COLOURS, EDGE, GREY, INK, LIGHT, PALE, PAPER, Picture


def trainer():
    """01: what flows where in one step."""
    p = Picture(760, 280)
    stations = [("data set", "1,437 images"), ("sampler", "which rows"), ("loader", "a batch"),
                ("forward", "outputs"), ("loss", "one number")]
    data, forward, backward, optimizer = (f"phase-{name}-wash" for name in ("data", "forward", "backward", "optimizer"))
    for i, lines in enumerate(stations):
        p.box(20 + 148 * i, 30, 118, 54, lines, fill=data if i < 3 else forward)
        if i:
            p.arrow(20 + 148 * i - 29, 57, 20 + 148 * i - 2, 57)
    p.box(464, 190, 118, 54, ("parameters", "params[ ]"))
    p.box(612, 120, 118, 40, ("backward",), fill=backward)
    p.box(612, 190, 118, 54, ("gradients", "grads[ ]"))
    p.box(258, 190, 140, 54, ("optimizer", "its state"), fill=optimizer)
    p.arrow(671, 84, 671, 118)
    p.arrow(671, 160, 671, 188)
    p.arrow(523, 188, 523, 88, "used by", dx=8, dy=4, anchor="start")
    p.arrow(398, 206, 462, 206, "step", dy=-5)
    p.line(671, 244, 671, 262, colour=INK)
    p.line(671, 262, 328, 262, colour=INK)
    p.arrow(328, 262, 328, 246)
    return p


def by_hand():
    """01: the layer that is worked out by hand."""
    p = Picture(720, 220)
    for i, (x, w) in enumerate((("x1 = 1", "w1 = 0.5"), ("x2 = 2", "w2 = -0.25"))):
        p.box(20, 30 + 70 * i, 90, 40, (x,))
        p.arrow(112, 50 + 70 * i, 300, 74 + 12 * i, w, dx=-20, dy=-12)
    p.box(20, 160, 90, 40, ("1",))
    p.arrow(112, 180, 300, 104, "b = 0.1", dx=22, dy=22)
    p.box(302, 62, 110, 48, ("y = 0.1",), fill="phase-forward-wash")
    p.arrow(414, 86, 540, 86, "minus t = 1", dy=-8)
    p.box(542, 62, 160, 48, ("loss = (y - t)²", "= 0.81"), fill="phase-forward-wash")
    p.line(622, 110, 622, 140, colour="phase-backward-ink")
    p.line(622, 140, 360, 140, colour="phase-backward-ink")
    p.arrow(360, 140, 360, 112, colour="phase-backward-ink")
    p.text(490, 158, "back: dloss/dy = 2 (y - t) = -1.8", size=12, colour="phase-backward-ink")
    for x, words in ((350, "dw1 = -1.8 · x1 = -1.8"), (520, "dw2 = -1.8 · x2 = -3.6"), (656, "db = -1.8")):
        p.text(x, 184, words, size=12, colour="phase-backward-ink")
    return p


def ranks():
    """02: the words for who is who, on two machines."""
    p = Picture(760, 300)
    p.text(380, 28, "one job: world size 4, one process per device", bold=True)
    for node in range(2):
        left = 30 + 365 * node
        p.box(left, 50, 335, 150, fill=PAPER)
        p.text(left + 167, 72, f"node {node}")
        for local in range(2):
            rank = 2 * node + local
            x = left + 15 + 158 * local
            p.box(x, 86, 147, 58, (f"rank {rank}", f"local rank {local}"), fill=LIGHT[rank],
                  stroke=COLOURS[rank])
            p.arrow(x + 73, 144, x + 73, 160)
            p.box(x, 162, 147, 28, (f"device {local} of node {node}",), size=12)
    p.box(30, 222, 700, 34, ("process group: all four ranks; backend: how its messages travel",),
          fill=PALE)
    for x in (118, 276, 483, 641):
        p.line(x, 200, x, 222, "3 3")
    p.text(380, 282, "on one node alone, as in this chapter, rank = local rank", size=12, colour=GREY)
    return p


def processes():
    """02: what fork copies."""
    p = Picture(760, 284)
    p.box(270, 20, 220, 44, ("parent: reads the options", "and forks"), fill=PALE)
    for rank in range(2):
        left = 40 + 370 * rank
        p.arrow(340 + 80 * rank, 66, left + 155, 100, "fork", dx=-22 + 44 * rank, dy=0)
        p.box(left, 102, 310, 132, fill=LIGHT[rank], stroke=COLOURS[rank])
        p.text(left + 155, 124, f"rank {rank}", bold=True)
        for i, words in enumerate(("params", "grads", "optimizer")):
            p.box(left + 10 + 98 * i, 136, 92, 36, (words,), fill=PAPER)
        p.box(left + 10, 182, 141, 36, ("data set, whole",), fill=PAPER)
        p.box(left + 157, 182, 141, 36, (f"device {rank}",), fill=PAPER)
    p.text(380, 264, "Each process has its own memory: after the fork nothing is shared, and nothing is sent.", size=13)
    return p


def mean():
    """Ten minutes: halves of a batch, their gradients, the mean, and the same step."""
    p = Picture(800, 250)
    p.box(16, 88, 100, 74, ("a batch:", "64 rows"), fill=PALE)
    for rank in range(2):
        y = 34 + 130 * rank
        p.arrow(118, 106 + 38 * rank, 160, y + 26)
        p.box(164, y, 120, 52, (f"rank {rank}: 32 rows,", "same weights"), fill=LIGHT[rank], stroke=COLOURS[rank], size=12)
        p.arrow(286, y + 26, 318, y + 26)
        p.box(322, y, 116, 52, ("gradient of", "its own rows"), fill=LIGHT[rank], stroke=COLOURS[rank], size=12)
        p.arrow(440, y + 26, 474, 106 + 38 * rank)
        p.arrow(582, 106 + 38 * rank, 620, y + 26)
        p.box(624, y, 158, 52, ("the same step:", "same weights again"), fill=LIGHT[rank], stroke=COLOURS[rank], size=12)
    p.box(478, 88, 102, 74, ("all-reduce:", "the mean"), fill="phase-send-wash")
    p.text(400, 240, "The mean of two means of 32 rows is the mean of all 64.", size=12, colour=GREY)
    return p


def collectives():
    """02: what each rank has before a collective and after it, four ranks."""
    p = Picture(800, 366)
    sums = ["+"] * 4
    own = [[str(rank)] * 4 for rank in range(4)]  # rank r's array, whole
    part = [[str(rank) if i == rank else "" for i in range(4)] for rank in range(4)]
    part_of_sum = [["+" if i == rank else "" for i in range(4)] for rank in range(4)]
    none = [""] * 4
    panels = [("broadcast", "from rank 0", [own[0]] + [none] * 3, [own[0]] * 4),
              ("scatter", "from rank 0", [own[0]] + [none] * 3,
               [["0" if i == rank else "" for i in range(4)] for rank in range(4)]),
              ("gather", "to rank 0", part, [["0", "1", "2", "3"]] + [none] * 3),
              ("all-gather", "", part, [["0", "1", "2", "3"]] * 4),
              ("reduce", "to rank 0", own, [sums] + [none] * 3),
              ("reduce-scatter", "", own, part_of_sum),
              ("all-reduce", "", own, [sums] * 4)]
    for index, (title, which, before, after) in enumerate(panels):
        left, top = 18 + 196 * (index % 4), 26 + 168 * (index // 4)
        p.text(left + 91, top, f"{title} {which}" if which else title, size=13, bold=True)
        for rank in range(4):
            y = top + 14 + 30 * rank
            p.text(left, y + 17, str(rank), "start", 11, GREY)
            for x, cells in ((left + 14, before[rank]), (left + 108, after[rank])):
                for i, words in enumerate(cells):
                    fill = LIGHT[int(words)] if words.isdigit() else PALE if words else PAPER
                    p.box(x + 18 * i, y, 17, 24, (words,), fill=fill,
                          stroke=INK if words == "+" else EDGE, size=11)
        p.arrow(left + 89, top + 71, left + 105, top + 71)
    for i, words in enumerate(("A row is a rank's array, in four", "blocks: left, before the call;",
                               "right, after it. Digits say whose", "numbers they are; + is the sum",
                               "over all ranks. Empty: not used.")):
        p.text(610, 218 + 20 * i, words, "start", 11)
    p.text(400, 350, "all-reduce = reduce-scatter, then all-gather", bold=True, size=13)
    return p


def shards():
    """02: ten rows for three ranks."""
    p = Picture(720, 250)
    order = [4, 1, 7, 5, 3, 9, 0, 8, 6, 2, 4, 1]  # tools/shards, seed 0, epoch 0
    p.text(20, 28, "1. the same permutation on every rank, from seed + epoch", "start", bold=True)
    p.text(20, 112, "2. padded from its own start to a multiple of 3", "start", bold=True)
    p.text(20, 194, "3. rank r takes the places r, r + 3, r + 6, ...", "start", bold=True)
    for i, row in enumerate(order):
        x = 40 + 53 * i
        if i < 10:
            p.box(x, 42, 46, 34, (str(row),))
        p.box(x, 126, 46, 34, (str(row),), fill=LIGHT[i % 3], stroke=COLOURS[i % 3])
        if i >= 10:
            p.text(x + 23, 176, "again", size=12, colour=GREY)
    for rank in range(3):
        words = "rank %d: %s" % (rank, ", ".join(str(row) for row in order[rank::3]))
        p.box(40 + 213 * rank, 206, 205, 32, (words,), fill=LIGHT[rank], stroke=COLOURS[rank])
    return p


def ring_state(step):
    """have[rank][block]: whose numbers are summed there after `step` steps of the ring."""
    n = 4
    have = [[{rank} for _ in range(n)] for rank in range(n)]
    for s in range(step):
        if s < n - 1:
            sends = [(r, (r - 1 - s) % n) for r in range(n)]
        else:
            sends = [(r, (r - (s - n + 1)) % n) for r in range(n)]
        moved = [(r, block, set(have[r][block])) for r, block in sends]
        for r, block, numbers in moved:
            to = (r + 1) % n
            have[to][block] = have[to][block] | numbers if s < n - 1 else numbers
    return have


def ring():
    """02: the ring all-reduce of four ranks, as common/comm/tcp/tcp_algorithms.c does it."""
    p = Picture(800, 500)
    titles = ["at the start", "step 1", "step 2", "step 3", "step 4", "step 5", "step 6"]
    p.text(20, 28, "reduce-scatter: 3 steps, each passes one block on and adds", "start", bold=True)
    p.text(20, 268, "all-gather: 3 steps, each passes a finished block on", "start", bold=True)
    for index, step in enumerate((0, 1, 2, 3, 4, 5, 6)):
        upper = index < 4
        left = 66 + 184 * (index if upper else index - 4)
        top = 46 if upper else 286
        p.text(left + 80, top + 14, titles[index], size=13)
        have, before = ring_state(step), ring_state(max(step - 1, 0))
        for rank in range(4):
            y = top + 24 + 42 * rank
            if index in (0, 4):
                p.text(left - 6, y + 23, f"rank {rank}", "end", 12)
            for block in range(4):
                numbers = have[rank][block]
                whole = len(numbers) == 4
                new = step > 0 and numbers != before[rank][block]
                words = "all" if whole else "".join(str(r) for r in sorted(numbers))
                p.box(left + 40 * block, y, 38, 36, (words,), size=12,
                      fill="ok-wash" if whole else "phase-send-wash" if new else PALE,
                      stroke="ok-ink" if whole and new else INK if new else EDGE)
    p.text(606, 330, "A cell is a block of the array;", "start", 12)
    p.text(606, 350, "the digits say whose numbers", "start", 12)
    p.text(606, 370, "are summed in it.", "start", 12)
    p.text(606, 396, "Rank r sends to r + 1 only:", "start", 12)
    p.text(606, 416, "6 blocks of 1/4 each: 1.5", "start", 12)
    p.text(606, 436, "arrays. For n ranks:", "start", 12)
    p.text(606, 458, "2 (n - 1) / n times", "start", 13, bold=True)
    return p


def doubling():
    """02: recursive doubling of four ranks."""
    p = Picture(720, 260)
    for column, title in enumerate(("at the start", "after step 1", "after step 2")):
        p.text(150 + 230 * column, 28, title, bold=True)
    sums = [["0", "1", "2", "3"], ["0+1", "0+1", "2+3", "2+3"], ["0+1+2+3"] * 4]
    for column in range(3):
        for rank in range(4):
            y = 44 + 50 * rank
            p.box(90 + 230 * column, y, 120, 36, (sums[column][rank],), fill=LIGHT[rank],
                  stroke=COLOURS[rank])
            if column == 0:
                p.text(80, y + 23, f"rank {rank}", "end", 12)
            if column < 2:
                other = rank ^ (1 << column)
                p.arrow(212 + 230 * column, y + 18, 316 + 230 * column, 62 + 50 * other)
    p.text(360, 252, "log2(n) steps; in each, every rank sends the whole array", size=12)
    return p


def buckets():
    """02: the flat array of gradients of the CNN, cut from its end."""
    p = Picture(760, 250)
    names = [("conv1", "weight", 64), ("conv1", "bias", 56), ("conv2", "weight", 80),
             ("conv2", "bias", 56), ("fc1", "weight", 220), ("fc1", "bias", 56),
             ("fc2", "weight", 80), ("fc2", "bias", 56)]
    p.text(30, 28, "gradients: one flat array, in the order of the forward pass", "start", bold=True)
    x, edges = 30, []
    for i, (layer, kind, width) in enumerate(names):
        p.box(x, 44, width, 44, (layer, kind), fill="bucket-1-wash" if i < 4 else "bucket-0-wash", size=12)
        edges.append(x)
        x += width + 4
    p.arrow(725, 112, 35, 112, "the backward pass completes them in this order", dy=-6)
    p.box(30, 150, edges[4] - 34, 46, ("bucket 1", "18,816 numbers"), fill="bucket-1", stroke="bucket-1",
          colour="bucket-1-on")
    p.box(edges[4], 150, x - edges[4] - 4, 46, ("bucket 0: leaves first", "1,181,066 numbers"),
          fill="bucket-0", stroke="bucket-0", colour="bucket-0-on")
    p.text(30, 228, "Bucket 0 closes once it holds 1 MiB, the others at --bucket-cap-mb (25). "
           "Widths are not to scale.", "start", 12)
    return p


def overlap():
    """02: what the Reducer gains; a sketch, not a measurement."""
    p = Picture(760, 270)
    bars = [("forward", 110), ("backward fc", 86), ("backward conv", 174)]
    for i, (title, overlapped) in enumerate((("stage c", False), ("the whole step", True))):
        y = 50 + 108 * i
        p.text(130, y + 19, title, "end", bold=True)
        p.text(130, y + 55, "messages", "end", 12)
        x = 145
        for words, width in bars:
            p.bar(x, y, width - 3, 28, words, "phase-" + words.split()[0])
            x += width
        if overlapped:
            p.bar(343, y + 36, 144, 28, "bucket 0", "bucket-0")
            p.bar(517, y + 36, 40, 28, "1", "bucket-1")
            p.bar(560, y, 56, 28, "step", "phase-optimizer")
        else:
            p.bar(517, y + 36, 170, 28, "all gradients", "phase-send")
            p.bar(690, y, 56, 28, "step", "phase-optimizer")
    p.text(145, 28, "time, from left to right (a sketch, not a measurement)", "start", 12, GREY)
    p.text(145, 256, "Bucket 0 (98 % of the gradients) travels during the backward pass; "
           "the step waits for bucket 1.", "start", 12)
    return p


def streams():
    """On a GPU: who does what; a sketch, not a measurement."""
    p = Picture(760, 300)
    p.text(145, 28, "time, from left to right (a sketch, not a measurement)", "start", 12, GREY)
    for y, title in ((64, "host"), (126, "compute"), (144, "stream"), (224, "communication"), (242, "stream")):
        p.text(134, y, title, "end", bold=True)
    x = 145
    for i, (words, name) in enumerate((("fwd", "phase-forward"), ("fc", "phase-backward"), ("b0", "bucket-0"),
                                       ("conv", "phase-backward"), ("b1", "bucket-1"), ("step", "phase-optimizer"))):
        p.bar(x + 34 * i, 45, 31, 28, words, name, size=11)
    p.text(358, 64, "queued: the host runs ahead, to the next step", "start", 12)
    for words, left, width, name in (("forward", 165, 130, "forward"), ("backward fc", 297, 88, "backward"),
                                     ("backward conv", 387, 180, "backward"), ("step", 640, 60, "optimizer")):
        p.bar(left, 115, width, 28, words, "phase-" + name)
    p.bar(400, 215, 150, 28, "all-reduce, bucket 0", "bucket-0")
    p.bar(580, 215, 46, 28, "1", "bucket-1")
    p.arrow(385, 145, 402, 213, "ready", dx=-24, dy=4, colour="bucket-0-ink")
    p.arrow(567, 145, 582, 213, "ready", dx=-24, dy=4, colour="bucket-1-ink")
    p.arrow(626, 213, 642, 145, "done", dx=26, dy=4, colour="bucket-1-ink")
    p.text(145, 280, "An arrow is an event: the stream at its point waits. The host waits only where it reads a number.", "start", 12)
    return p


def star_and_ring():
    """02: where the bytes go in DataParallel and in DDP, four devices, per step."""
    p = Picture(760, 330)
    p.text(190, 28, "DataParallel: all through device 0", bold=True)
    p.text(570, 28, "DDP: a ring, every link alike", bold=True)
    p.box(130, 60, 120, 50, ("device 0", "the master"), fill=LIGHT[0], stroke=COLOURS[0])
    for i in range(3):
        x = 30 + 115 * i
        p.box(x, 200, 100, 44, (f"device {i + 1}",), fill=LIGHT[i + 1], stroke=COLOURS[i + 1])
        p.arrow(162 + 22 * i, 112, x + 36, 198)
        p.arrow(x + 60, 198, 178 + 22 * i, 112, colour=GREY)
    p.text(190, 274, "device 0 sends 3 P and receives 3 P", size=13)
    p.text(190, 296, "(P: the bytes of the parameters)", size=12, colour=GREY)
    places = [(430, 70), (610, 70), (610, 200), (430, 200)]
    for rank, (x, y) in enumerate(places):
        p.box(x, y, 100, 44, (f"rank {rank}",), fill=LIGHT[rank], stroke=COLOURS[rank])
    p.arrow(532, 92, 608, 92)
    p.arrow(660, 116, 660, 198)
    p.arrow(608, 222, 532, 222)
    p.arrow(480, 198, 480, 116)
    p.text(570, 274, "each rank sends 1.5 P and receives 1.5 P", size=13)
    p.text(570, 296, "for any number of ranks: less than 2 P", size=12, colour=GREY)
    return p


def rounds():
    """Local SGD: what a rank computes and what it sends, in four ways; a sketch, not a measurement."""
    p = Picture(760, 400)
    step, model, outer, left, right = 28, 64, 12, 145, 745  # widths: a step, all of the model on the way, an outer step
    p.text(left, 28, "time, from left to right (a sketch, not a measurement)", "start", 12, GREY)
    for i, (title, message) in enumerate((("DDP", "gradients"), ("local SGD", "weights"), ("DiLoCo", "changes"), ("streaming", ""))):
        y = 44 + 84 * i
        p.text(134, y + 18, title, "end", bold=True)
        p.text(134, y + 48, "messages", "end", 12)
        x, number = left, 0
        while x + step <= right:
            number += 1
            p.box(x, y, step - 2, 26, (str(number),), fill="phase-forward-wash", stroke="phase-forward", size=11)
            x += step
            if title == "DDP" and x + model <= right:
                p.bar(x - 12, y + 32, model - 2, 22, message, "phase-send", size=11)
                x += model - 12
            elif title in ("local SGD", "DiLoCo") and number % 8 == 0:
                p.bar(x, y + 32, model - 2, 22, message, "phase-send", size=11)
                x += model
                if title == "DiLoCo":
                    p.bar(x, y, outer - 2, 26, "", "phase-optimizer")
                    x += outer
            elif title == "streaming" and number % 2 == 0:
                if number > 2:
                    p.bar(x, y, outer - 6, 26, "", "phase-optimizer")
                    x += outer - 4
                if x + model / 4 <= right:
                    p.bar(x, y + 32, model / 4 - 2, 22, "ABCD"[(number // 2 - 1) % 4], "phase-send", size=11)
    p.bar(left, 374, outer - 2, 16, "", "phase-optimizer")
    p.text(left + 16, 387, "outer step; numbers are steps that this rank has computed; A to D are the four fragments.", "start", 12)
    return p


def tensor_parallel():
    """Tensor parallelism: a pair of layers on two ranks, forward and backward."""
    p = Picture(820, 320)
    for x, words in ((118, "all rows"), (266, "fc1: half its columns"), (414, "half of h"), (562, "fc2: half its rows")):
        p.text(x, 34, words, size=12, colour=GREY)
    for rank, y in ((0, 52), (1, 172)):
        ink, wash = COLOURS[rank], LIGHT[rank]
        p.text(20, y + 62, f"rank {rank}", "start", colour=ink, bold=True)
        p.box(90, y + 40, 56, 34, ("x",))
        p.box(216, y + 10, 100, 94)
        p.box(216 + 50 * rank, y + 10, 50, 94, (f"A{rank}",), fill=wash, stroke=ink)
        p.box(380, y + 40, 68, 34, (f"h{rank}",), fill=wash, stroke=ink)
        p.box(512, y + 10, 100, 94)
        p.box(512, y + 10 + 47 * rank, 100, 47, (f"B{rank}",), fill=wash, stroke=ink)
        p.box(670, y + 40, 76, 34, (f"h{rank} B{rank}",), fill=wash, stroke=ink)
        for x1, x2 in ((148, 214), (318, 378), (450, 510), (614, 668)):
            p.arrow(x1, y + 57, x2, y + 57)
        p.text(346, y + 48, "relu", size=12)
    for x, words in ((118, ("backward:", "sum of x's", "gradients")), (708, ("forward:", "sum, which", "is y"))):
        p.line(x, 128, x, 210, "5 4", INK)
        for i, word in enumerate(words):
            p.text(x + 8, 154 + 16 * i, word, "start", size=12)
    p.text(414, 304, "the ranks send nothing between the two layers", size=12, colour=GREY)
    return p


PICTURES = [trainer, by_hand, ranks, processes, mean, collectives, shards, ring, doubling, buckets,
            overlap, streams, star_and_ring, rounds, tensor_parallel]
