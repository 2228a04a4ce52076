"""Ranks that train together: 03's reducer over tcp beside PyTorch's DDP over gloo, and beside no communication."""

from suite import Contender, Goal, Suite

DDPRUN = "03_torchrun_env/ddprun"
LOOPBACK = {"GLOO_SOCKET_IFNAME": "lo"}  # where this machine's name leads elsewhere, or nowhere


def ranks(*command):
    """Two ranks, then four, all started by the same launcher."""
    runs = [f"{DDPRUN} --nproc-per-node {n} --no-python {' '.join(command)}" for n in (2, 4)]
    return ["sh", "-c", "set -e\n" + "\n".join(runs)]


SUITES = [
    Suite(name="ddp-step", title="DDP: the CNN, batch 64 and one thread per rank",
          contenders=[Contender("ddp.c, tcp", ranks("{build}/bench/ddp_step", "40")),
                      Contender("PyTorch DDP, gloo", ranks("{python}", "bench/ddp_step.py", "12"), LOOPBACK,
                                ["{python}"]),
                      Contender("ddp.c, ranks alone", ranks("{build}/bench/ddp_step", "40", "alone")),
                      Contender("ranks alone, in step", ranks("{build}/bench/ddp_step", "40", "in-step"))],
          goals=[Goal("2 ranks", "PyTorch DDP, gloo", 3.3), Goal("2 ranks", "ddp.c, ranks alone", 0.95),
                 Goal("2 ranks", "ranks alone, in step", 0.95)],
          note="Samples per second of all ranks together, from a barrier on. Ranks alone: the same processes at the "
          "same time, without any communication while they train. Where ranks outnumber cores they share them.",
          turns=3, seconds=70),
]
