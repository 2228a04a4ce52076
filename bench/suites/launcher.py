"""The launchers: ddprun and torchrun."""

from suite import Contender, Suite

NOTE = ("From the start of the launcher until every rank of a trivial program (echo) has printed its line, and until "
        "the launcher has ended. torchrun first loads Python and PyTorch, which is most of its time.")
RANKS = "2,8,32"

SUITES = [
    Suite("launcher", "Start-up of a launcher",
          [Contender("ddprun", ["python3", "bench/launches.py", RANKS, "03_torchrun_env/ddprun"]),
           Contender("torchrun", ["python3", "bench/launches.py", RANKS, "{python}", "-m", "torch.distributed.run"])],
          turns=3, note=NOTE),
]
