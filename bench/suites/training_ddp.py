"""Ranks that train together: 03's reducer over tcp beside PyTorch's DDP over gloo, and beside no communication."""

from suite import Contender, Goal, Suite

DDPRUN = "03_torchrun_env/ddprun"
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}  # where this machine's name leads elsewhere, or nowhere
COST = "2 ranks, processor's time of a step"


def ranks(numbers, *command):
    """One group after the other, all started by the same launcher."""
    runs = [f"{DDPRUN} --nproc-per-node {n} --no-python {' '.join(command)}" for n in numbers]
    return ["sh", "-c", "set -e\n" + "\n".join(runs)]


def ours(name, *mode, numbers=(2,)):
    return Contender(name, ranks(numbers, "{build}/bench/ddp_step", "30", *mode))


SUITES = [
    Suite(name="ddp-step", title="DDP: the CNN, batch 64 and one thread per rank",
          contenders=[ours("ddp.c, tcp", numbers=(2, 4)),
                      Contender("PyTorch DDP, gloo", ranks((2, 4), "{python}", "bench/ddp_step.py", "12"), LOOPBACK,
                                ["{python}"])],
          goals=[Goal("2 ranks", "PyTorch DDP, gloo", 3.3)],
          note="Samples per second of all ranks together, from a barrier on, and the processor's time of a rank. Where "
          "ranks outnumber cores they share them.",
          turns=3, seconds=40),
    Suite(name="ddp-cost", title="What it costs to train together: the same, beside ranks alone",
          contenders=[ours("reducer"), ours("no progress thread", "caller"), ours("in step", "in-step"),
                      ours("alone", "alone")],
          goals=[Goal("2 ranks", "alone", 0.95), Goal("2 ranks", "alone", 0.95, ours="no progress thread"),
                 Goal("2 ranks", "in step", 0.95), Goal(COST, "alone", 0.95)],
          note="Alone: the same processes at the same time, without any communication while they train. In step: they "
          "only wait for each other after each step. No progress thread: the calls of the reducer are carried out while "
          "the training waits for them. The processor's time is that of all threads of a rank: what messages take from "
          "the cores, waiting apart.",
          turns=9, seconds=60),
]
