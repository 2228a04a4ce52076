"""What the checks of tests/against/gpu/check.py are made of: commands with a deadline and a log, and what they left."""
import json, os, signal, subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.chdir(ROOT)
BUILD = os.environ.get("BUILD", "build")
ARCH = "CUDA_ARCH=" + os.environ.get("CUDA_ARCH", "native")
LOG = os.path.join(BUILD, "check-gpu.log")
os.makedirs(BUILD, exist_ok=True)
log = open(LOG, "w")
CHECKS = []


class Skip(Exception):
    """What is missing, in a line."""


class Failure(Exception):
    """What is wrong, in a line."""


def check(function):
    CHECKS.append(function)
    return function


def expect(condition, text):
    if not condition:
        raise Failure(text)


def run(command, status=0, limit=300, **environment):
    """The output of a command that ends with this status in time; its process group is left to nobody."""
    log.write("\n$ %s %s\n" % (" ".join("%s=%s" % pair for pair in environment.items()), " ".join(command)))
    log.flush()
    process = subprocess.Popen(command, env=dict(os.environ, **environment), text=True, start_new_session=True,
                               stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    try:
        output, _ = process.communicate(timeout=limit)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        log.write(output)
        raise Failure("%s took more than %d s" % (command[0], limit))
    log.write(output)
    log.flush()
    last = output.strip().split("\n")[-1]
    expect(process.returncode == status, "%s: status %d: %s" % (command[0], process.returncode, last))
    return output


def train(step, folder, *options, status=0, limit=300, **environment):
    program = {"01": ["01_single_gpu/run.sh"], "02": ["02_multi_gpu_spawn/run.sh", "2"],
               "03": ["03_torchrun_env/run.sh", "2"], "05": ["05_fault_tolerance/run.sh", "1"]}[step]
    return run(program + ["--device", "cuda", "--checkpoint-dir", folder, "--metrics-dir", folder,
                          *map(str, options)], status, limit, **environment)


def losses(folder, rank=0):
    with open("%s/rank%d.jsonl" % (folder, rank)) as file:
        return [json.loads(line)["loss"] for line in file]


def read(folder, name="cnn_digits.safetensors"):
    with open(os.path.join(folder, name), "rb") as file:
        return file.read()


def apart(ours, theirs):
    expect(len(ours) == len(theirs) > 0, "%d steps beside %d" % (len(ours), len(theirs)))
    expect(None not in ours + theirs, "a loss is no number")  # null in the file
    return max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
