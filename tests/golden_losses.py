#!/usr/bin/env python3
"""Usage: tests/golden_losses.py NAME RUN.SH...    e.g. digits_sgd_w2 03_torchrun_env/run.sh

Runs a program with the arguments of tests/golden/losses/NAME.rank*.json, and those in TEST_OPTIONS,
and compares each rank's loss at every step, and the final weights where there are any, with what
PyTorch gave. TEST_STEPS=N: the first N steps alone."""
import glob, json, os, struct, subprocess, sys, tempfile

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "golden", "losses")
FEW = int(os.environ.get("TEST_STEPS", "0"))


def tolerances(args):
    """(steps, relative tolerance): two correct programs drift apart as max pooling breaks ties."""
    if args["model"] == "linear":
        return [(None, 1e-6)]
    if args.get("bf16"):  # every activation is rounded to 8 bits
        return [(20, 2e-3), (None, 1e-2)]
    if args["optimizer"] == "sgd" and args["momentum"] == 0:
        return [(20, 1e-5), (None, 1e-3)]
    return [(8, 1e-5), (None, 5e-2)]


def options(golden, scratch, data_dir):
    args = golden["args"]
    dataset = args.get("dataset", "random" if args["model"] == "linear" else "mnist")
    given = {"model": args["model"], "dataset": dataset, "data-dir": data_dir, "epochs": args["epochs"],
             "max-steps": args["max_steps"], "batch-size": args["batch_size"], "lr": args["lr"],
             "optimizer": args["optimizer"], "seed": args["seed"], "threads": 1,
             "dropout": "on" if args["dropout"] else "off", "save-every": 0,
             "metrics-dir": scratch, "checkpoint-dir": scratch}
    if args["optimizer"] == "sgd":
        given["momentum"] = args["momentum"]
    return [word for name, value in given.items() for word in ("--" + name, str(value))] + (
        os.environ.get("TEST_OPTIONS", "").split())


def tensors(path):
    """Name -> floats of a safetensors file: a length, a JSON header, the numbers."""
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    header.pop("__metadata__", None)
    result = {}
    for name, entry in header.items():
        if entry["dtype"] == "F32":
            begin, end = (8 + length + offset for offset in entry["data_offsets"])
            result[name] = struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])
    return result


def worst(ours, theirs):
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))


def run_sh(program, world):
    """The command line of one of our programs, but for its options."""
    return [program] + ([] if "01_single_gpu" in program else [str(world)])


def compare(name, program, data_dir, start=run_sh):
    """Exits or asserts if the program's losses are not PyTorch's. Returns the largest relative difference."""
    goldens = {}
    for path in glob.glob(os.path.join(GOLDEN, name + ".rank*.json")):
        golden = json.load(open(path))
        if FEW:
            golden["args"]["max_steps"] = FEW
            golden["losses"] = golden["losses"][:FEW]
        goldens[golden["rank"]] = golden
    if not goldens:
        names = {os.path.basename(path).split(".")[0] for path in glob.glob(GOLDEN + "/*.json")}
        print("golden_losses.py: no run of PyTorch is called %s: name one of %s" % (
            name, " ".join(sorted(names))), file=sys.stderr)
        sys.exit(2)
    world = goldens[0]["world"]
    assert sorted(goldens) == list(range(world)), "golden files are missing"
    errors = []

    with tempfile.TemporaryDirectory() as scratch:
        command = start(program, world) + options(goldens[0], scratch, data_dir)
        done = subprocess.run(command, capture_output=True, text=True, timeout=3600)
        if done.returncode != 0:
            sys.exit("%s\nexit status %d\n%s" % (" ".join(command), done.returncode, done.stderr))
        for rank, golden in goldens.items():
            with open("%s/rank%d.jsonl" % (scratch, rank)) as file:
                losses = [json.loads(line)["loss"] for line in file]
            assert len(losses) == len(golden["losses"]), "%d steps, PyTorch made %d" % (
                len(losses), len(golden["losses"]))
            for steps, tolerance in tolerances(golden["args"]):
                error = worst(losses[:steps], golden["losses"][:steps])
                print("%s rank %d, %s steps: off by %.1e, allowed %.0e" % (
                    program, rank, len(losses[:steps]), error, tolerance))
                assert error <= tolerance
                errors.append(error)

        weights = os.path.join(GOLDEN, name + ".safetensors")
        if os.path.exists(weights) and not FEW:
            final, theirs = tensors(scratch + "/linear_random.safetensors"), tensors(weights)
            for tensor in theirs:
                assert worst(final[tensor], theirs[tensor]) <= 1e-6, tensor
    return max(errors)


if __name__ == "__main__":
    for run in sys.argv[2:]:
        compare(sys.argv[1], run, os.environ.get("MNIST", "data/mnist"))
