"""What a training step takes: the CNN in fp32 and bf16, the linear model; and what the machine allows."""

from suite import Contender, Goal, Suite

# Samples for each case: enough for a second of ours, and for half a second to a second of PyTorch's.
OURS, PYTORCH = 2560, 512


def our_steps(amp, batches=(32, 64, 256)):
    """One process for each case: they start in no time."""
    steps = [f"{{build}}/bench/cnn_step --device cpu --batch-size {batch} --threads {threads} --amp {amp} "
             f"--max-steps {OURS // batch}" for batch in batches for threads in (1, 2)]
    return ["sh", "-c", "set -e\n" + "\n".join(steps)]


def pytorch_steps(amp):
    return ["{python}", "bench/cnn_step.py", "32,64,256", "1,2", str(PYTORCH), amp]


NOTE = ("Gather, forward, loss, backward, SGD with momentum, dropout on; rows of a set in memory. A turn gives the "
        "median of its steps.")

SUITES = [
    Suite(name="cnn-step", title="The CNN's training step, fp32",
          contenders=[Contender("ddp.c", our_steps("off")), Contender("PyTorch", pytorch_steps("off"))],
          goals=[Goal("batch 64, 2 threads, fp32", "PyTorch", 4), Goal("batch 64, 1 thread, fp32", "PyTorch", 2.8)],
          note=NOTE, seconds=75),
    Suite(name="cnn-step-bf16", title="The CNN's training step, --amp bf16",
          contenders=[Contender("ddp.c", our_steps("bf16")), Contender("PyTorch, autocast", pytorch_steps("bf16"))],
          note=NOTE + " Ours uses AVX512_BF16; without it the same numbers are multiplied as float32, slower, and a "
          "line says so. It rounds what the forward pass and the linear layers multiply.", turns=3, seconds=40),
    Suite(name="linear-step", title="The linear model's training step",
          contenders=[Contender("ddp.c", ["{build}/bench/linear_step"]),
                      Contender("PyTorch", ["{python}", "bench/linear_step.py"])],
          goals=[Goal("linear model, batch 32", "PyTorch", 20)],
          note="Epochs over 2,048 rows, shuffled in each, squared error, SGD, one thread; the same numbers in the same "
          "order, so that both end with the same loss. No DataLoader. A turn gives the median of 300 epochs.",
          turns=3, seconds=20),
    Suite(name="limit", title="The step beside the wall of dense arithmetic",
          contenders=[Contender("ddp.c", our_steps("off", batches=(64,))),
                      Contender("dense wall", ["{build}/bench/peak"])],
          note="The wall: what this machine's cores would do if every multiply-add of a dense, direct float32 step "
          "(4.58 GFLOP for 64 images, counted from the shapes in bench/peak.c: 89 % of it the second convolution) ran "
          "at the FMA rate measured here. Ours may pass it: it skips the zeros that pooling, relu and dropout leave in "
          "the gradients, and its forward convolution multiplies less (Winograd).", turns=3, seconds=20),
]
