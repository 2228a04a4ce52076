#!/usr/bin/env python3
"""Usage: tests/against/gpu/check.py [WORD...]     make check-gpu: everything that only a GPU can show.

One command, one log, one table: it needs a GPU, CUDA, a C compiler, make and this Python; what is
missing besides is said, and the rest is run. WORDs pick checks by their names. Each check is a
function below; what it returns stands in the table. Exit status 1 if one fails or there is no GPU."""
import os, re, subprocess, sys, tempfile, time

import case
import watch  # whose checks come first
from case import *
from machine import gpus, header, is_exclusive, missing, mnist

DEVICE_TESTS = ["device", "kernels", "conv", "optim", "model", "gradients", "plain"]


@check
def kernels_against_the_reference(scratch):
    """The C tests of the CPU's kernels, on the GPU."""
    bare = "" if header("cmocka.h") else "-Itests/against/gpu/bare"
    library = "" if bare else "-lcmocka"
    failed, passed = [], 0
    for name in DEVICE_TESTS:
        program = os.path.join(scratch, "test_" + name)
        run(["make", "-s", ARCH, "CPPFLAGS=-I. " + bare, "TRY_LIBS=" + library,
             "SOURCE=tests/common/nn/test_%s.c" % name, "PROGRAM=" + program, "gpu-test"])
        try:
            output = run([program], TEST_DEVICE="cuda", CMOCKA_MESSAGE_OUTPUT="TAP")
        except Failure:
            failed.append(name)
            continue
        passed += len(re.findall(r"^ok", output, re.M))
    expect(not failed, "failed: " + ", ".join(failed))
    return "%d tests%s" % (passed, ", without cmocka" if bare else "")


def golden(names, step, options, **environment):
    scripts = {"01": "01_single_gpu/run.sh", "03": "03_torchrun_env/run.sh"}
    most = 0
    for name in names:
        output = run(["python3", "tests/golden_losses.py", name, scripts[step]],
                     TEST_OPTIONS="--device cuda " + options, **environment)
        most = max([most] + [float(error) for error in re.findall(r"off by (\S+),", output)])
    return "off by %.1e at most" % most


@check
def golden_losses(scratch):
    """PyTorch's, step by step."""
    names = ["linear_sgd_w1", "digits_sgd_w1", "digits_momentum_w1"]
    if mnist():
        names += ["cnn_sgd_w1", "cnn_momentum_w1", "cnn_adadelta_w1"]
    return golden(names, "01", "", MNIST=mnist() or "")


@check
def golden_losses_as_a_graph(scratch):
    return golden(["digits_sgd_w1", "digits_momentum_w1"], "01", "--cuda-graph on")


@check
def golden_losses_of_two_ranks_that_share_a_gpu(scratch):
    share_a_gpu()
    first = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]  # perhaps a UUID, or a part of a GPU
    return golden(["digits_sgd_w2", "linear_sgd_w2"], "03", "--backend tcp", CUDA_VISIBLE_DEVICES=first)


@check
def every_optimizer_as_on_the_cpu(scratch):
    most = 0
    for optimizer in ["sgd", "adam", "adamw", "adadelta"]:
        both = [os.path.join(scratch, optimizer + device) for device in ("cuda", "cpu")]
        for folder, device in zip(both, ("cuda", "cpu")):
            train("01", folder, "--optimizer", optimizer, "--max-steps", 8, "--device", device)
        most = max(most, apart(losses(both[0]), losses(both[1])))
    expect(most < 5e-3, "losses are off by %.1e" % most)
    return "off by %.1e at most, dropout on" % most


@check
def same_bits_every_time_and_as_a_graph(scratch):
    for optimizer in ["sgd", "adam"]:
        folders = [os.path.join(scratch, optimizer + way) for way in ("a", "b", "graph")]
        for folder in folders:
            graph = "on" if folder.endswith("graph") else "off"
            train("01", folder, "--optimizer", optimizer, "--num-samples", 500, "--epochs", 2, "--cuda-graph", graph)
        expect(read(folders[0]) == read(folders[1]), "%s: two runs differ" % optimizer)
        expect(losses(folders[0]) == losses(folders[2]), "%s: a graph gives other losses" % optimizer)
    return "sgd and adam"


@check
def mixed_precision(scratch):
    ways = {"fp32": [], "tf32": ["--tf32", "on"], "bf16": ["--amp", "bf16"], "fp16": ["--amp", "fp16"]}
    if min(map(int, re.findall(r"sm_(\d+)", machine))) < 80:
        del ways["tf32"]  # GPUs before Ampere have none, and compute in float32
    for way, options in ways.items():
        train("01", os.path.join(scratch, way), "--dropout", "off", "--max-steps", 20, *options)
    exact, notes = losses(os.path.join(scratch, "fp32")), []
    for way in list(ways)[1:]:
        error = apart(losses(os.path.join(scratch, way)), exact)
        expect(error < 5e-2, "%s is off by %.1e" % (way, error))
        expect(error > 0, "%s gives the bits of fp32: it is not in use" % way)
        notes.append("%s %.0e" % (way, error))
    return "off fp32 by " + ", ".join(notes)


@check
def stopped_and_resumed(scratch):
    """Step 05 with device memory: a run in two parts ends with the bits of one that was never stopped."""
    for amp in ["off", "fp16"]:
        through, parts = (os.path.join(scratch, amp + name) for name in ("through", "parts"))
        options = SHORT + ["--epochs", 3, "--amp", amp, "--check-sync", 2]
        train("05", through, *options, "--resume", "none")
        train("05", parts, *options, "--max-steps", 4, "--save-every-steps", 2)
        train("05", parts, *options)
        expect(read(through) == read(parts), "--amp %s: other bits after a resume" % amp)
    return "fp32 and fp16"


@check
def compute_sanitizer(scratch):
    kinds = ["memcheck", "racecheck", "initcheck", "synccheck"]
    for kind in kinds:
        sees_the_control(kind)
        for options in ([], ["--amp", "fp16", "--optimizer", "adam"]):
            run([*sanitizer(kind), "01_single_gpu/train", "--device", "cuda", "--threads", "1", "--checkpoint-dir",
                 scratch, "--max-steps", "2", *SHORT, *options], limit=600)
    return ", ".join(kinds) + ", each of which reports a fault that was made for it"


@check
def ladder_of_convolutions(scratch):
    """The rungs of extras/gpu_ladder, compared with the plain device."""
    program = BUILD + "/bench/gpu_ladder"
    run(["make", "-s", ARCH, program])
    output = run([program, *os.environ.get("IMAGES", "").split()])  # as make gpu-ladder does
    rungs = re.findall(r"^(\w[\w, ]*?) +([\d.]+) +[\d.]+ +\S+$", output, re.M)
    return ", ".join("%s %s ms" % rung for rung in rungs)


@check
def ladder_of_all_reduces(scratch):
    """The rungs of extras/all_reduce_ladder on two GPUs: the sum on both."""
    if case.num_gpus < 2:
        raise Skip("six ways to sum over two GPUs: this machine has one")
    program = BUILD + "/bench/all_reduce_ladder"
    run(["make", "-s", ARCH, program])
    output = run([program, *os.environ.get("FLOATS", "").split()])  # as make gpu-ladder does
    rungs = re.findall(r"^(\w[\w, ]*?) +([\d.]+) +[\d.]+ +\S+$", output, re.M)
    return ", ".join("%s %s ms" % rung for rung in rungs)


@check
def accuracy_on_mnist(scratch):
    if not mnist():
        raise Skip("no MNIST in data/mnist: data/get_mnist.sh gets it")
    notes = []
    for step in ["01", "02", "03"]:
        # One rank of batch 32 ends at 98.3 in PyTorch, give or take: momentum makes it no matter of luck.
        momentum = ["--momentum", "0.9"] if step == "01" else []
        output = train(step, os.path.join(scratch, step), "--dataset", "mnist", "--data-dir", mnist(),
                       "--epochs", 2, "--log-interval", 500, *momentum,
                       *([] if step == "01" else ["--backend", "tcp"]), limit=600)
        accuracy = float(re.findall(r"Accuracy: ([0-9.]+)%", output)[-1])
        expect(accuracy >= 98.3, "%s: %.2f %%" % (step, accuracy))
        notes.append("%s %.2f" % (step, accuracy))
    return " %, ".join(notes) + " %"


def first_lines():
    """The machine; ends where there is no GPU, before anything takes long."""
    machine, useful = gpus("check-gpu", BUILD, ARCH), missing()[1]
    if useful:
        print("what needs these is left out: " + "; ".join(useful), flush=True)
    return machine


def result_of(function):
    """("ok", "skip" or "FAILED", a note, seconds)."""
    begin = time.monotonic()
    log.write("\n=== %s\n" % function.__name__)
    with tempfile.TemporaryDirectory() as scratch:
        try:
            if begin > END_AT:
                raise Skip("left out: %g minutes are over; MINUTES=30 make check-gpu takes more" % MINUTES)
            word, note = "ok", function(scratch)
        except Skip as missing:
            word, note = "skip", str(missing)
        except Exception as error:  # whatever it met: the other checks are run, and the table is printed
            word, note = "FAILED", str(error) or type(error).__name__
    log.write("=== %s: %s\n" % (word, note))
    log.flush()
    return word, note, time.monotonic() - begin


import nccl  # whose checks come last

MINUTES = float(os.environ.get("MINUTES", 10))  # after which no check begins

machine = first_lines()
case.num_gpus = len(re.findall("^GPU ", machine, re.M))
log.write(machine)
if is_exclusive():
    print("a GPU is in exclusive-process mode: checks in which ranks share one are left out; sudo nvidia-smi -c 0 ends it")
print(machine + "building (a minute or two) ...", flush=True)
chosen = [c for c in CHECKS if not sys.argv[1:] or any(word in c.__name__ for word in sys.argv[1:])]
try:
    run(["make", "-s", "-j", str(os.cpu_count()), ARCH, "01", "02", "03", "05"], limit=1800)
except Failure as failure:
    sys.exit("make check-gpu: it does not build: %s (%s)" % (failure, LOG))
END_AT = time.monotonic() + 60 * MINUTES
table = []
print("1..%d" % len(chosen))
for number, function in enumerate(chosen, 1):
    word, note, seconds = result_of(function)
    name = function.__name__.replace("_", " ")
    print("%sok %d %s%s%s # %.0f s" % ("not " if word == "FAILED" else "", number, name,
                                      " # SKIP " if word == "skip" else ": ", note, seconds), flush=True)
    table.append("| %s | %s | %.0f s | %s |" % (name, word, seconds, note))
text = "\n%s\n| check | result | time | |\n| --- | --- | --- | --- |\n%s\n" % (machine, "\n".join(table))
print(text + "\nEverything that was said: " + LOG)
log.write(text)
sys.exit(any("| FAILED |" in row for row in table))
