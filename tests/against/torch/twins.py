"""Usage: twins.py golden|mnist|stages|files      The steps' train.py, beside golden losses and our programs."""
import json, os, re, subprocess, sys, tempfile
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
import golden_losses, ours

SPAWN, FAULT = "02_multi_gpu_spawn/train", "05_fault_tolerance"
HALF, STEPS = 4, 8
os.environ.update(PYTHON_EXEC=sys.executable, PYTHONDONTWRITEBYTECODE="1")  # which python ddprun starts
RATES = {"sgd": 0.005, "adam": 0.0005}
TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node"]


def ddprun(step, world):
    return [step + "/ddprun", "--nproc-per-node", str(world)]


def start(program, world):
    """The command line of a twin; "05_fault_tolerance/train.py torchrun": by another launcher than its step's."""
    program, _, launcher = program.partition(" ")
    if program.startswith("01"):
        return [sys.executable, program]
    if program.startswith("02"):
        return [sys.executable, program, "--nproc", str(world)]
    return (TORCHRUN + [str(world)] if launcher else ddprun(program.split("/")[0], world)) + [program]


def golden(settings=(("linear_sgd_w1", "01_single_gpu/train.py"), ("linear_sgd_w2", SPAWN + "_c_sampler.py"),
                     ("linear_sgd_w4", "03_torchrun_env/train.py torchrun"),
                     ("digits_sgd_w1", "01_single_gpu/train.py"), ("digits_momentum_w1", "01_single_gpu/train.py"),
                     ("digits_sgd_w2", SPAWN + ".py"), ("linear_sgd_w2", "03_torchrun_env/train.py"),
                     ("digits_sgd_w4", "05_fault_tolerance/train.py torchrun"))):
    """Losses of each rank at each step; and the linear model's weights."""
    for name, program in settings:
        error = golden_losses.compare(name, program, os.environ.get("MNIST", "data/mnist"), start)
        print("%s, %s: off by %.1e at most" % (name, program, error), flush=True)


def mnist():
    golden((("cnn_sgd_w1", "01_single_gpu/train.py"), ("cnn_momentum_w1", "01_single_gpu/train.py"),
            ("cnn_adadelta_w1", "01_single_gpu/train.py"), ("cnn_sgd_w2", SPAWN + ".py"),
            ("cnn_adamw_w2", "05_fault_tolerance/train.py")))


def run(command, scratch, **options):
    """What a program of ours or a twin prints, and the losses [rank][step]; its files are in the folder."""
    given = {"dropout": "off", "threads": 1, "save-every": 0, "metrics-dir": scratch, "checkpoint-dir": scratch,
             **options}
    words = [word for name, value in given.items() for word in ("--" + name, str(value))]
    done = subprocess.run(command + words, capture_output=True, text=True, timeout=ours.ENDLESS)
    assert done.returncode == 0, "%s\n%s" % (command + words, done.stderr)
    losses = []
    while os.path.exists("%s/rank%d.jsonl" % (scratch, len(losses))):
        with open("%s/rank%d.jsonl" % (scratch, len(losses))) as file:
            losses.append([json.loads(line)["loss"] for line in file])
    return done.stdout, losses


def same_lines(here, there):
    """Both print the same lines, but for losses, accuracies, folders and whose line comes first."""
    shapes = [sorted(re.sub(r"\d+\.\d+|\d+/360|\S*/(?=\w+\.safe)", "#", text).splitlines()) for text in (here, there)]
    assert shapes[0] == shapes[1], "\n".join(["ours:"] + shapes[0] + ["the twin's:"] + shapes[1])


def stages():
    """a and b train on rows that no golden run has: our own programs' lines, and their losses, rank by rank."""
    def attempt(options):
        with tempfile.TemporaryDirectory() as here, tempfile.TemporaryDirectory() as there:
            output, losses = run([SPAWN + stage], here, **options)
            their_output, theirs = run([sys.executable, SPAWN + stage + ".py"], there, **options)
        same_lines(output, their_output)
        return zip(losses, theirs, strict=True)

    for stage in "_a_spawn", "_b_all_reduce":
        options = {"model": "cnn", "nproc": 2, "epochs": 1, "max-steps": STEPS, "lr": 0.005, "log-interval": 3}
        ours.agree(ours.dice(), options, attempt, stage)


def files():
    """C begins and the twin goes on, from inside an epoch; then the other way round: lines and losses of C alone."""
    def attempt(options):
        results, pairs = [], []
        for first, second in (c, c), (c, twin), (twin, c):
            with tempfile.TemporaryDirectory() as folder:
                resume = {"resume": folder + "/cnn_digits.safetensors"} if step == "01" else {}  # 05 finds it itself
                run(first, folder, **{**options, "max-steps": HALF})
                results.append(run(second, folder, **options, **resume))
            same_lines(results[0][0], results[-1][0])
            assert all(len(losses) == STEPS for losses in results[-1][1])
            pairs += zip(results[-1][1], results[0][1], strict=True)
        return pairs

    # An epoch has 5 steps, of two ranks 3.
    options = {"model": "cnn", "epochs": 3, "num-samples": 100, "batch-size": 20, "max-steps": STEPS, "log-interval": 1}
    for step, optimizer in ("01", "sgd"), ("05", "adam"):
        c, twin = ["01_single_gpu/train"], start("01_single_gpu/train.py", 1)
        if step == "05":
            c, twin = ddprun(FAULT, 2) + [FAULT + "/train"], start(FAULT + "/train.py", 2)
        kind = {"optimizer": optimizer, "lr": RATES[optimizer]}
        ours.agree(ours.dice(), {**options, **kind}, attempt, "%s, %s" % (step, optimizer))


if __name__ == "__main__":
    {case.__name__: case for case in (golden, stages, files, mnist)}[sys.argv[1]]()
