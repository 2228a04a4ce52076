"""What the checks of tests/against/gpu/check.py are made of: commands with a deadline and a log, and what they left."""
import glob, json, os, re, shutil, signal, subprocess

from machine import cuda_home, is_exclusive

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.chdir(ROOT)
BUILD = os.environ.get("BUILD", "build")
ARCH = "CUDA_ARCH=" + os.environ.get("CUDA_ARCH", "native")
SHORT = ["--num-samples", "96", "--batch-size", "32", "--epochs", "1", "--save-every", "0"]
LOG = os.path.join(BUILD, "check-gpu.log")
os.makedirs(BUILD, exist_ok=True)
log = open(LOG, "w")
CHECKS = []
num_gpus = 0  # check.py counts them


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
        raise Failure("%s took more than %d s" % (command[0], limit)) from None
    log.write(output)
    log.flush()
    last = output.strip().split("\n")[-1]
    expect(process.returncode == status, "%s: status %d: %s" % (command[0], process.returncode, last))
    return output


def train(step, folder, *options, ranks=2, status=0, limit=300, **environment):
    if step in ("02", "03") and ranks > num_gpus:
        share_a_gpu()
    program = {"01": ["01_single_gpu/run.sh"], "02": ["02_multi_gpu_spawn/run.sh", str(ranks)],
               "03": ["03_torchrun_env/run.sh", str(ranks)], "05": ["05_fault_tolerance/run.sh", "1"]}[step]
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


def share_a_gpu():
    """For checks in which ranks do."""
    if is_exclusive():
        raise Skip("a GPU is in exclusive-process mode, in which ranks cannot share it: sudo nvidia-smi -c 0 ends that")


def our_kernels(kind):
    """The sanitizer's options for kernels of common/nn alone, and for the control, in their middle: of cuBLAS's and NCCL's
    it reports hazards that are none. An option for each: names joined by commas would all have to be in one name."""
    source = "".join(open(path).read() for path in sorted(glob.glob("common/nn/cuda/*.cu")))
    names = re.findall(r"__global__ void (\w+)\(", source)
    names.insert(len(names) // 2, "control_" + kind)
    return [word for name in names for word in ("--kernel-name", "kns=" + name)]


def sanitizer(kind):
    """compute-sanitizer's command for one of its tools; of its findings the exit status is 9. racecheck and synccheck
    look at our kernels. memcheck looks at all of them, since others meet our addresses. So does initcheck, which must
    see all that is written; but not at NCCL's, whose buffers another GPU fills."""
    tool = shutil.which("compute-sanitizer") or os.path.join(cuda_home(), "bin", "compute-sanitizer")
    if not os.path.exists(tool):
        raise Skip("no compute-sanitizer: it is part of the CUDA toolkit")
    kernels = {"memcheck": [], "initcheck": ["--kernel-name-exclude", "kns=nccl"]}
    return [tool, "--tool", kind, *kernels.get(kind, our_kernels(kind)), "--error-exitcode", "9"]


def sees_the_control(kind):
    """The same command must report a kernel that has the tool's fault (control.cu)."""
    program = os.path.join(BUILD, "tests/against/gpu/control")
    run(["make", "-s", ARCH, program], limit=600)
    try:
        run([*sanitizer(kind), program, kind], status=9)
    except Failure as failure:
        raise Failure("%s does not report a kernel with a fault, so it says nothing about ours: %s" % (kind, failure)) from failure
