"""The order of the rows, and batches of them: ours and PyTorch's."""

from suite import Contender, Suite

NOTE = ("60,000 rows of 784 floats in memory, rank 0 of 4, shuffled; one thread, no worker processes. The sampler "
        "permutes 60,000 numbers and deals out 15,000; the loader does that too, and copies the rows of a batch.")

SUITES = [
    Suite("data", "Sampler and loader",
          [Contender("ddp.c", ["{build}/bench/rows"]), Contender("PyTorch", ["{python}", "bench/rows.py"])],
          note=NOTE),
]
