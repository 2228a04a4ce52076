"""What a benchmark is: contenders that measure the same cases, in turns.

A file of bench/suites/ holds a list SUITES; bench/bench.py runs them all. A contender is a command
that prints one line of JSON for each thing it measured, and whatever else it likes on stderr:

    {"case": "4 MiB, 2 ranks", "value": 1.21, "unit": "ms"}

Lower is better for s, ms, us and MB; higher is better for everything per second.
"""

from dataclasses import dataclass, field


@dataclass
class Contender:
    name: str  # "ddp.c", "PyTorch", "Open MPI (tcp)"
    command: list  # {python} and {build} in it stand for the venv's Python and the build folder
    environment: dict = field(default_factory=dict)


@dataclass
class Goal:
    case: str
    beside: str  # the contender that we are measured against
    ratio: float  # how many times better we want to be
    # or, against no contender: the most (or for rates the least) that our own value may be
    limit: float = 0.0


@dataclass
class Suite:
    name: str  # of its files: build/bench/NAME.json, .png
    title: str
    contenders: list  # ours comes first
    turns: int = 5  # how often each has its turn: A B A B ...; medians and spread are over turns
    goals: list = field(default_factory=list)
    note: str = ""  # what a reader must know to trust the figures
