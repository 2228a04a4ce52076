"""What a benchmark is: contenders that measure the same cases, in turns.

A file of bench/suites/ holds a list SUITES; bench/bench.py runs them all. A contender is a command
that prints one line of JSON for each thing it measured, and whatever else it likes on stderr:

    {"case": "4 MiB, 2 ranks", "value": 1.21, "unit": "ms"}

It runs in the root of the repository, and TMPDIR is a folder of its own that goes when it has ended.
Lower is better for s, ms, us and MB; higher is better for everything per second.

Where a case is measured over many sizes (or ranks, or whatever Suite.axis says), "x" is where on that
axis: there is a curve for it then, and its whole name ends with x, here "all_reduce, 2 ranks, 4 MiB":

    {"case": "all_reduce, 2 ranks", "x": 4194304, "value": 1210, "unit": "us"}
"""

from dataclasses import dataclass, field


@dataclass
class Contender:
    name: str  # "ddp.c", "PyTorch", "Open MPI (tcp)"
    command: list  # {python} and {build} in it stand for the venv's Python and the build folder
    environment: dict = field(default_factory=dict)
    needs: list = field(default_factory=list)  # other programs without which it is missing


@dataclass
class Goal:
    case: str
    beside: str = ""  # the contender that we are measured against
    ratio: float = 0.0  # how many times better we want to be
    # or, against no contender: the most (or for rates the least) that our own value may be
    limit: float = 0.0
    ours: str = ""  # the contender that is to reach it; the first one, unless said otherwise
    x_from: float = 0.0  # not 0: of all sizes of this case from there on the worst counts


@dataclass
class Suite:
    name: str  # of its files: build/bench/NAME.json, .png
    title: str
    contenders: list  # ours comes first
    turns: int = 5  # how often each has its turn: A B A B ...; medians and spread are over turns
    goals: list = field(default_factory=list)
    note: str = ""  # what a reader must know to trust the figures
    seconds: float = 90  # a turn that would end later is not begun; the first always is
    timeout: float = 60  # what takes longer in one turn is hung, and killed
    axis: str = "bytes"  # what x counts
    bus: dict = field(default_factory=dict)  # case: bytes on the wire for each byte of x (for busbw)
