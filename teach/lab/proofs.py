"""What the ranks of a library lab must show to the judge's own process (witness.py) before a rung counts: numbers are drawn
here, each rank gets its own alone, and what all of them tell is compared here. Hints are the harness's affair."""
import array
import os
import random
import socket
import stat
import struct
import time
from pathlib import Path

from witness import CALL, DATA, MARK, START, WAIT, Ranks, Unseen

SUM, MEAN, MAX, MIN = range(4)
TYPES = {0: "f", 2: "d", 3: "i", 4: "q", 5: "B"}  # DType, and array's letter; of bfloat16 array has none
BROADCAST, ALL_REDUCE, REDUCE_SCATTER, ALL_GATHER = range(4)
NAMES = "lab_broadcast", "lab_all_reduce", "lab_reduce_scatter", "lab_all_gather"
EPOCH, SEEK, NEXT, PAD = range(4)


# ---- ring ----

def reduced(columns, op):
    return [max(column) if op == MAX else min(column) if op == MIN else sum(column) // (len(column) if op == MEAN else 1)
            for column in columns]


def due_of(what, op, root, count, drawn):
    """What each rank must tell, from the numbers of all."""
    if what == BROADCAST:
        return [drawn[root]] * len(drawn)
    if what == ALL_GATHER:
        return [sum(drawn, [])] * len(drawn)
    total = reduced(zip(*drawn), op)
    return [total] * len(drawn) if what == ALL_REDUCE else [total[i * count:(i + 1) * count] for i in range(len(drawn))]


def ring_call(ranks, dice, what, count, dtype, op, root, costs):
    """One call, whose results and messages must be right."""
    n = ranks.count
    most = 248 // (n * n)  # sums fit in a byte
    own = count * (n if what == REDUCE_SCATTER else 1)  # numbers of a rank
    drawn = [[n * dice.randint(0 if dtype == 5 else -most, most) for _ in range(own)] for _ in range(n)]
    for i in range(own):  # a sum can be divided by n, two of its numbers cannot
        rest, first = dice.randrange(1, n), dice.randrange(n)
        drawn[first][i] += rest
        drawn[first - 1][i] += n - rest
    letter = TYPES[dtype]
    size = array.array(letter).itemsize
    results = ranks.call([((what, count, dtype, op, root), array.array(letter, numbers).tobytes()) for numbers in drawn])
    say = f"{NAMES[what]} of {count} numbers on {n} ranks"
    for rank, ((_, data), due) in enumerate(zip(results, due_of(what, op, root, count, drawn))):
        if data != array.array(letter, due).tobytes():
            raise Unseen(f"{say}: rank {rank} does not end with the right numbers")
    for rank in ranks.ranks:
        last = rank.rank == root
        least_out = size * (own if what != REDUCE_SCATTER else own - count) if what != BROADCAST else 0
        least_in = size * (0 if what == BROADCAST and last else count * (n - 1) if what == ALL_GATHER else count)
        if n > 1 and (rank.sent < least_out or rank.received < least_in):
            raise Unseen(f"{say}: rank {rank.rank} has sent {rank.sent} bytes and received {rank.received}, which is too little")
        part = size * (-(-count // n) if what == ALL_REDUCE else count)
        if costs and rank.sent > (2 if what == ALL_REDUCE else 1) * (n - 1) * part:
            raise Unseen(f"{say}: rank {rank.rank} sends {rank.sent} bytes, which is too much")
        if costs and any((peer - rank.rank) % n not in (1, n - 1) for peer in rank.peers):
            raise Unseen(f"{say}: rank {rank.rank} exchanges messages with others than its neighbours")


def prove_ring(start, rung, dice):
    for n in 3, dice.choice((2, 4, 5)):
        with start(n) as ranks:
            for what in {1: [BROADCAST], 2: [ALL_REDUCE], 3: [REDUCE_SCATTER, ALL_GATHER], 4: [ALL_REDUCE]}[rung]:
                for count in 4 * n, dice.randint(1, 300), dice.randint(1000, 3000), n - 1, 1:
                    ring_call(ranks, dice, what, count, dice.choice(list(TYPES)), dice.randrange(4), dice.randrange(n), rung > 2)


def prove_ring5(start, rung, dice):
    prove_ring(start, 4, dice)


# ---- sampler ----

class Sampler:
    """What DistributedSampler and SequentialSampler do."""

    def __init__(self, rows, rank, ranks, shuffle, drop_last, seed, sequential):
        self.rows, self.rank, self.ranks, self.shuffle, self.seed, self.epoch, self.position = rows, rank, ranks, shuffle, seed, 0, 0
        self.total = rows if sequential else rows // ranks * ranks if drop_last else -(-rows // ranks) * ranks

    def order(self):
        order = list(range(self.rows))
        if self.shuffle:  # torch.randperm of a generator with this seed
            state = [(self.seed + self.epoch) % 2**32]
            for i in range(1, 624):
                state.append((1812433253 * (state[-1] ^ state[-1] >> 30) + i) % 2**32)
            twister = random.Random()
            twister.setstate((3, (*state, 624), None))
            for i in range(self.rows - 1):
                j = i + twister.getrandbits(32) % (self.rows - i)
                order[i], order[j] = order[j], order[i]
        while len(order) < self.total:
            order.append(order[len(order) - self.rows])
        return order[:self.total][self.rank::self.ranks]

    def do(self, what, number):
        """Of NEXT: how many rows, and these."""
        size = len(range(self.rank, self.total, self.ranks))
        if what == EPOCH:
            self.position = self.position if number == self.epoch else 0
            self.epoch = number
        elif what == SEEK:
            self.position = size if number >= self.rows else number // self.ranks
        elif what == PAD:
            self.total, self.epoch, self.position = -(-self.rows // number) * number, 0, 0
        else:
            rows = self.order()[self.position:self.position + number]
            self.epoch, self.position = (self.epoch, self.position + len(rows)) if self.position < size else (self.epoch + 1, 0)
            return [len(rows), *rows]
        return []


def sampler_case(ranks, dice, rows, shuffle, drop_last, sequential, pairs):
    seed = dice.randrange(1 << 30) if shuffle else 0
    orders = struct.pack(f"<{2 * len(pairs)}i", *sum(pairs, ()))
    results = ranks.call([((rows, shuffle, drop_last, seed, sequential), orders)] * ranks.count)
    for rank, (_, data) in enumerate(results):
        due = Sampler(rows, rank, ranks.count, shuffle, drop_last, seed, sequential)
        told = sum((due.do(*pair) for pair in pairs), [])
        told.insert(0, len(range(rank, due.total, ranks.count)))
        if data != array.array("q", told).tobytes():
            raise Unseen(f"{rows} rows on {ranks.count} ranks: rank {rank} does not get the right rows")


def prove_sampler(start, rung, dice):
    for n in 3, dice.choice((2, 4, 5)):
        with start(n) as ranks:
            for turn in range(6):
                rows = dice.randint(1, 50 if turn < 3 else 900)
                rows = -(-rows // n) * n if rung == 1 else rows
                whole = [(NEXT, most) for most in (dice.randint(1, 9), rows + 1, rows + 1, rows + 1)]
                drop = rung in (2, 3, 5) and turn % 2 == 1
                if rung == 3:
                    whole = [pair for epoch in (1, dice.randint(2, 9), 0) for pair in ((EPOCH, epoch), (NEXT, rows + 1), (NEXT, 1))]
                elif rung == 5:
                    first = dice.randint(0, 5)
                    whole = [(EPOCH, first), (NEXT, 2), (EPOCH, first), (NEXT, 3), (EPOCH, first + 1), (SEEK, dice.randrange(rows + 3)),
                             (NEXT, rows + 1), (PAD, 4 * n), (NEXT, 4 * rows + 99 if rows < 900 else 3000)]
                sampler_case(ranks, dice, rows, rung == 3 or rung == 5 and turn > 1, drop, rung == 4, whole)


# ---- reducer ----

def combined(sent):
    """The sum or mean of a message, of which all ranks must send the same part."""
    (_, count, op, *_), _ = sent[0]
    if any(words[:3] != sent[0][0][:3] or len(data) != 4 * count for words, data in sent):
        raise Unseen("the ranks send other messages, or in another order")
    columns = zip(*(array.array("f", data) for _, data in sent))
    return array.array("f", [sum(column) / (len(sent) if op == MEAN else 1) for column in columns]).tobytes()


def give_means(ranks):
    """A rank that waits for a message gets what all have sent of it, once they have."""
    lists = [[(words, data) for kind, words, data in rank.told if kind == START] for rank in ranks]
    for rank in ranks:
        if not rank.waits or rank.waits[0] != WAIT:
            continue
        number = rank.waits[1][0]
        if not 0 <= number < len(lists[rank.rank]):
            raise Unseen(f"rank {rank.rank} waits for a message that it has not sent")
        if all(number < len(sent) for sent in lists):
            rank.waits = None
            rank.send(DATA, (), combined([sent[number] for sent in lists]))


def reducer_pass(ranks, dice, sizes, uses, cap, sync, rung):
    """One backward pass, of which the gradients and the messages must be right."""
    n, numel = ranks.count, sum(sizes)
    drawn = [[float(n * dice.randint(-20, 20)) for _ in range(numel)] for _ in range(n)]
    orders, marks = [], [i for i in reversed(range(len(sizes))) for _ in range(uses[i])]
    for numbers in drawn:
        mine = list(marks)
        for i in range(0, len(mine) - 1, 2):
            if mine[i] != mine[i + 1] and dice.random() < 0.5:
                mine[i], mine[i + 1] = mine[i + 1], mine[i]
        words = len(sizes), numel, int(cap * 1024), len(mine), sync, rung == 4
        orders.append((words, struct.pack(f"<{2 * len(sizes) + len(mine)}i", *sizes, *uses, *mine) + array.array("f", numbers).tobytes()))
    results = ranks.call(orders, give_means)
    wanted = [use for size, use in zip(sizes, uses) for _ in range(size)]
    for rank, (_, data) in enumerate(results):
        due = [0.0 if not use else sum(column) / n if sync else column[rank] for use, column in zip(wanted, zip(*drawn))]
        if data != array.array("f", due).tobytes():
            raise Unseen(f"{len(sizes)} parameters on {n} ranks: rank {rank} does not end with the {'mean' if sync else 'sums of its own'}")
    for rank in ranks.ranks:
        order = [kind for kind, *_ in rank.told if kind in (START, MARK)]
        count = order.count(START)
        last = len(order) - 1 - order[::-1].index(MARK)
        if not sync and count:
            raise Unseen("a message leaves while sync is off")
        if sync and rung >= 2 and 16 * cap * (1 << 20) < 4 * numel and START not in order[:last]:
            raise Unseen("no message leaves before the last mark")
        if sync and rung >= 3 and count > 2 + 8 * numel / (cap * (1 << 20)) + (20 if rung == 4 else 0):
            raise Unseen(f"{count} messages are more than buckets")


def prove_reducer(start, rung, dice):
    for n in 3, dice.choice((2, 4)):
        for cap, most in (25, 60), (1 / 64, 900), (1 / 64, 2000):
            count = dice.randint(20, 40)
            sizes = [dice.randint(1, most) for _ in range(count)]
            uses = [dice.choice((0, 1, 1, 2)) if rung == 4 and 0 < i < count - 1 else 1 for i in range(count)]
            with start(n) as ranks:
                for turn in range(3):
                    reducer_pass(ranks, dice, sizes, uses, cap, rung < 4 or turn != 1, rung)


# ---- snapshot ----

BEGIN, STEP, STOP = range(3)


class Training:
    """A run of several starts. The state after each step is drawn here; after each start nothing is left but its files."""

    def __init__(self, start, place, count, dice, every, keep=3):
        self.start, self.place, self.count, self.dice, self.every, self.keep = start, place, count, dice, every, keep
        self.seed, self.states = dice.randrange(1 << 20), {}
        place.mkdir()
        place.chmod(0o1777)

    def begin(self, ranks, resumes, seed=None):
        order = (BEGIN, resumes, self.every, self.keep, self.seed if seed is None else seed), f"{self.place}\0".encode()
        return ranks.call([order] * self.count)

    def order(self, step, size, most_bytes=0):
        self.states[step] = array.array("f", [self.dice.uniform(0.1, 1) for _ in range(size // 4)]).tobytes()
        return (STEP, most_bytes), self.states[step]

    def play(self, steps, resumes=False, stops=False, full_from=None, cut=None):
        """A start, of this many steps; `cut`: it is killed in the middle of one more, after this many seconds."""
        with self.start(self.count) as ranks:
            (first, _, *_), state = self.begin(ranks, resumes)[0]
            for step in range(first + 1, first + steps + 1):
                ranks.call([self.order(step, len(state), 10 if full_from and step >= full_from else 0)] * self.count)
            if stops:
                ranks.call([((STOP,), b"")] * self.count)
            if cut is not None:
                ranks.ranks[0].send(CALL, *self.order(first + steps + 1, len(state)))
                time.sleep(cut)

    def resumes_from(self, *due, seed=None, what="killed"):
        """A start that resumes: after one of these steps, with its state on all ranks."""
        with self.start(self.count) as ranks:
            results = self.begin(ranks, True, seed)
        for rank, ((step, *_), state) in enumerate(results):
            if step not in due:
                raise Unseen(f"{what}: rank {rank} resumes after step {step}, and not {due[0]}")
            if step > 0 and state != self.states[step]:
                raise Unseen(f"{what}: rank {rank} resumes after step {step} with another state")

    def newest(self, before):
        """The files of rank 0 that were not there before, or have changed."""
        return {name: seen for name, seen in self.files().items() if before.get(name) != seen}

    def files(self):
        return {entry.name: (entry.stat(follow_symlinks=False).st_ino, entry.stat(follow_symlinks=False).st_mtime_ns)
                for entry in os.scandir(self.place / "run") if entry.is_file(follow_symlinks=False)}

    def damage(self, name):
        """Changes a byte of a file of rank 0, and of nothing to which a link leads."""
        folder = os.open(self.place / "run", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            file = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
            try:
                found = os.fstat(file)
                if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or not found.st_size:
                    raise Unseen(f"a snapshot is no plain file: {name}")
                at = self.dice.randrange(found.st_size)
                os.pwrite(file, bytes([os.pread(file, 1, at)[0] ^ 1 << self.dice.randrange(8)]), at)
            finally:
                os.close(file)
        finally:
            os.close(folder)


def prove_snapshot(start, rung, dice, place):
    if rung == 1:
        run = Training(start, place / "state", 2, dice, 3)
        run.resumes_from(0, what="a new run")
        run.play(7)
        run.resumes_from(6)
        run.play(4, resumes=True)
        run.resumes_from(9)
    elif rung == 2:
        for turn in range(4):
            run = Training(start, place / f"kill{turn}", 1, dice, 1)
            run.play(3, cut=dice.random() * 0.02)
            run.resumes_from(3, 4, what="killed while it saves")
    elif rung == 3:
        run = Training(start, place / "damage", 2, dice, 3)
        run.play(7)
        before = run.files()
        run.play(3, resumes=True)
        for name in run.newest(before):
            run.damage(name)
        run.resumes_from(6, 9, what="the newest snapshot is damaged")
        run.resumes_from(0, seed=run.seed + 1, what="another run's snapshots")
    else:
        run = Training(start, place / "stop", 2, dice, 3)
        run.play(8, stops=True)
        run.resumes_from(8, what="stopped")
        run = Training(start, place / "full", 2, dice, 3)
        run.play(10, full_from=7)
        run.resumes_from(6, what="the disk is full")


# ---- reconfigure ----

def prove_end(popen, command, seconds, end_all):
    """All ranks are simulated in one process, so the harness compares. Here it must say a number that it gets at its end."""
    number = random.SystemRandom().randbytes(16)
    mine, other = socket.socketpair()
    with mine:
        process = popen([str(word) for word in (*command, other.fileno())], pass_fds=(other.fileno(),), stdin=-3, stdout=-3, stderr=-3)
        other.close()
        mine.settimeout(seconds)
        try:
            mine.sendall(number)
            said = mine.recv(16)
        except OSError:
            said = b""
        process.kill()
        end_all()
        process.wait()
    if said != number[::-1]:
        raise Unseen("the harness has not come to its end")


PROOFS = {"snapshot": prove_snapshot, "ring": prove_ring, "ring5": prove_ring5, "sampler": prove_sampler, "reducer": prove_reducer}


def prove(popen, lab, harness, rung, salt, seconds, folder, end_all):
    """Ends without an exception if the ranks have shown what this rung asks for. What they write lies in the folder, and
    end_all() ends what they have left."""
    if lab == "reconfigure":
        return prove_end(popen, [harness, rung, 3, random.Random(f"{salt} {rung}").randrange(2, 1 << 20)], seconds, end_all)
    if lab not in PROOFS:  # a store: its clients are the judge's own process
        return
    place = [Path(folder) / f"proof{rung}"] if lab == "snapshot" else []
    for path in place:
        path.mkdir(parents=True)
    PROOFS[lab](lambda count: Ranks(popen, [harness], count, seconds, end_all), rung, random.Random(f"{salt} {lab} {rung}"), *place)
