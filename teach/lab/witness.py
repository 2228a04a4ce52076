"""What trusts nothing of a submission: read this file to know why a grade is what it is (docs/teach/class.md).

- Verdicts are data. A judge calls passed() and failed(); the grader reads the list `titles`, never what is printed.
- What a submission says is shown as one line of printable characters, and decides nothing.
- A rung counts when this process has seen the results of all ranks. Ranks runs each of them as a process of its own, which
  knows its own numbers only and has no other way to the others than this process: it passes their messages on, and
  counts them. Numbers are drawn here, for each run. A rank that ends, with whatever status, has shown nothing."""
import os
import re
import select
import signal
import socket
import struct
import time

titles = []  # of the checks that were passed, in this process
HEADER = struct.Struct("<i7iQ")  # kind, seven words, and how many bytes follow; teach/lab/served.h has the same
CALL, RESULT, SEND, RECEIVE, DATA, GO, START, WAIT, MARK = range(9)
MOST_BYTES = 64 << 20  # of a message
WIDTH = 300  # characters of a line


def one_line(text):
    """The text as one line of printable characters."""
    flat = re.sub(r"[\t-\r]+", " ", str(text)[:4 * WIDTH].strip())
    return re.sub(r"[^\x20-\x7e\xa0-\ud7ff\ue000-\ufffd]|[\u2028-\u202e\u2066-\u2069]", "?", flat)[:WIDTH]


def excerpt(text):
    """The beginning of what a program said, with short lines: so that no expression takes long over it."""
    return "\n".join(line[:WIDTH] for line in text[:1 << 18].split("\n")[:2000])


def passed(title):
    titles.append(title)
    print(f"yes  {title}", flush=True)


def fresh(path):
    """A file to write, in a folder where a submission may write, too: no link is followed."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return open(os.open(path, flags, 0o644), "w")


def take_back(beginning):
    """A check that seemed to be passed, and what follows it, is not."""
    while any(title.startswith(beginning) for title in titles):
        titles.pop()


def failed(text, most_lines=1):
    """Says why a check is not passed; a compiler's further lines are indented."""
    lines = [one_line(line) for line in str(text).split("\n", most_lines - 1)]
    print("\n     ".join([f"no   {lines[0]}", *lines[1:]]), flush=True)


class OursFails(SystemExit):
    """Our own program fails: this machine cannot judge now. Nothing that a submission prints raises it."""

    def __init__(self, text):
        super().__init__(f"our own program fails: {one_line(text)}")


class Unseen(Exception):
    """What this process has not seen."""


class Rank:
    def __init__(self, popen, command, rank, count):
        self.rank, self.got, self.waits = rank, b"", None  # waits: the request that it waits with
        self.sent = self.received = 0  # bytes of this call's messages
        self.peers, self.told = set(), []
        self.socket, other = socket.socketpair()
        command = [str(word) for word in (*command, "serve", rank, count, other.fileno())]
        self.process = popen(command, pass_fds=(other.fileno(),), stdin=-3, stdout=-3, stderr=-3,
                             env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0", "OMP_NUM_THREADS": "1"})
        other.close()
        self.socket.settimeout(10)

    def send(self, kind, words=(), data=b""):
        try:
            self.socket.sendall(HEADER.pack(kind, *words, *[0] * (7 - len(words)), len(data)) + data)
        except OSError:
            raise Unseen(f"rank {self.rank} has ended before it was done") from None

    def receive(self):
        """The requests that are complete: (kind, words, data)."""
        try:
            part = self.socket.recv(1 << 20)
        except OSError:
            part = b""
        if not part:
            raise Unseen(f"rank {self.rank} has ended before it was done")
        self.got += part
        while len(self.got) >= HEADER.size:
            kind, *words, size = HEADER.unpack_from(self.got)
            if size > MOST_BYTES:
                raise Unseen(f"rank {self.rank} sends {size} bytes")
            if len(self.got) < HEADER.size + size:
                return
            data, self.got = self.got[HEADER.size:HEADER.size + size], self.got[HEADER.size + size:]
            yield kind, words, data


class Ranks:
    """The processes of a run, for `with`. `popen` starts them: in the grader inside the fence."""

    def __init__(self, popen, command, count, seconds, end_all):
        self.popen, self.command, self.count, self.end_all, self.end = popen, command, count, end_all, time.monotonic() + seconds
        self.ranks = []

    def __enter__(self):
        self.ranks = [Rank(self.popen, self.command, rank, self.count) for rank in range(self.count)]
        return self

    def __exit__(self, *_):
        for rank in self.ranks:
            rank.process.send_signal(signal.SIGKILL)
            rank.socket.close()
        self.end_all()  # and what they have started
        for rank in self.ranks:
            rank.process.wait()

    def call(self, orders, together=None):
        """Sends each rank its order, (words, data), and returns their results, [(words, data)], once all are there. Messages
        between them are passed on; `together` answers START, WAIT and MARK."""
        results = [None] * self.count
        for rank, (words, data) in zip(self.ranks, orders):
            rank.sent, rank.received, rank.peers, rank.waits, rank.told = 0, 0, set(), None, []
            rank.send(CALL, words, data)
        while None in results:
            left = self.end - time.monotonic()
            ready = select.select([rank.socket for rank in self.ranks], [], [], max(0, left))[0]
            if not ready:
                raise Unseen("the ranks do not come to an end")
            for rank in self.ranks:
                for kind, words, data in rank.receive() if rank.socket in ready else ():
                    if kind == RESULT and results[rank.rank] is None and rank.waits is None:
                        results[rank.rank] = (words, data)
                    elif kind in (SEND, RECEIVE) and rank.waits is None and 0 <= words[0] < self.count and words[0] != rank.rank:
                        rank.waits = (kind, words, data)
                    elif kind in (START, WAIT, MARK) and together and rank.waits is None:
                        rank.told.append((kind, words, data))
                        rank.waits = (kind, words, data) if kind == WAIT else None
                    else:
                        raise Unseen(f"rank {rank.rank} sends what makes no sense")
            self.pass_on()
            if together:
                together(self.ranks)
            if all(rank.waits or result for rank, result in zip(self.ranks, results)) and None in results:
                raise Unseen("no rank can go on")
        return results

    def pass_on(self):
        """Gives each receiver its message, if its sender is there."""
        for to in self.ranks:
            if not to.waits or to.waits[0] != RECEIVE:
                continue
            sender = self.ranks[to.waits[1][0]]
            if not sender.waits or sender.waits[0] != SEND or sender.waits[1][0] != to.rank:
                continue
            data = sender.waits[2]
            if to.waits[1][1:3] != sender.waits[1][1:3]:
                raise Unseen(f"rank {to.rank} expects another message than rank {sender.rank} sends")
            sender.sent, to.received = sender.sent + len(data), to.received + len(data)
            sender.peers.add(to.rank)
            to.peers.add(sender.rank)
            sender.waits = to.waits = None
            to.send(DATA, (), data)
            sender.send(GO)
