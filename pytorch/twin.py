"""What the train.py of the steps share: options, data, model and the lines they print. Files: twin_checkpoint.py.
They are our programs in PyTorch (make twin-03 shows both): the same rows, initial weights, lines and files."""
import argparse, gzip, json, math, os, sys
ROOT = os.path.join(os.path.dirname(os.path.realpath(__file__)), "..")
sys.path.append(ROOT + "/docs")
try:
    import torch
    import torch.nn.functional as F
    from load_in_pytorch import Net, digits  # which also needs safetensors
    from torch import nn, optim
    from torch.utils.data import TensorDataset, distributed
except ImportError as error:
    sys.exit(f"{sys.argv[0]}: {error}: tests/against/torch/venv.sh gets it, or pip install torch numpy safetensors")

MEAN, STD = 0.1307, 0.3081  # of MNIST's pixels
LABEL = {"cpu": "CPU", "cuda": "GPU"}  # of a device
OPTIMIZERS = {"sgd": optim.SGD, "adam": optim.Adam, "adamw": optim.AdamW, "adadelta": optim.Adadelta}
OPTIONS = dict(  # a tuple: the choices, the default first; nan: the default depends on the others
    model=("cnn", "linear"), dataset=("", "random", "digits", "mnist"), dataset_size=2048, data_dir="data/mnist",
    num_samples=0, init_from="", epochs=10, batch_size=32, optimizer=tuple(OPTIMIZERS), lr=math.nan, momentum=math.nan,
    weight_decay=math.nan, dropout=("on", "off"), seed=0, max_steps=0, log_interval=10, save_every=5, timeout=300,
    checkpoint_dir="checkpoints", resume="none", metrics_dir="", device=("auto", "cpu", "cuda"), threads=0)


def usage_error(text):
    print("%s: %s" % (sys.argv[0], text), file=sys.stderr)
    sys.exit(2)


def env_int(name):
    return int(os.environ.get(name) or usage_error("%s is not set: start this by torchrun or ddprun" % name))


def args_parse(**more):
    """The options of the C programs that PyTorch has a counterpart for, and those that a step adds or sets."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.error = lambda text: usage_error(text + "; --help lists the options")
    for name in "total_epochs", "save_every_epochs":
        parser.add_argument(name, nargs="?", type=int)
    for name, value in {**OPTIONS, **more}.items():
        choices, value = (value, value[0]) if isinstance(value, tuple) else (None, value)
        parser.add_argument(*{"--" + name.replace("_", "-"), "--" + name}, dest=name, type=type(value), default=value,
                            choices=choices)
    args = parser.parse_args()
    for name, given in ("epochs", args.total_epochs), ("save_every", args.save_every_epochs):
        setattr(args, name, getattr(args, name) if given is None else given)
    is_cnn, is_sgd = args.model == "cnn", args.optimizer == "sgd"
    if not is_sgd and args.momentum >= 0:
        usage_error("--momentum belongs to --optimizer sgd")
    args.dataset = args.dataset or ("digits" if is_cnn else "random")
    for name, value in (("lr", {"sgd": 0.01 if is_cnn else 1e-3, "adadelta": 1.0}.get(args.optimizer, 1e-3)),
                        ("momentum", 0.9 * is_cnn * is_sgd), ("weight_decay", 0.01 * (args.optimizer == "adamw"))):
        setattr(args, name, value if math.isnan(getattr(args, name)) else getattr(args, name))
    if (args.dataset == "random") == is_cnn or min(args.batch_size, args.log_interval, args.timeout) < 1:
        usage_error("the cnn takes images, linear random rows; batch size, log interval and timeout are 1 or more")
    args.max_steps = args.max_steps or sys.maxsize
    return args


def device_init(args, local_rank, local_world_size=1):
    """The GPU of the local rank where each rank has one, else the CPU with the rank's share of the cores."""
    cores = os.environ.get("OMP_NUM_THREADS") or os.cpu_count() // local_world_size or 1
    torch.set_num_threads(args.threads or int(cores))
    if args.device == "cpu" or (args.device == "auto" and torch.cuda.device_count() < local_world_size):
        return torch.device("cpu", 0)  # a number, as device_id needs it
    torch.backends.cudnn.allow_tf32 = False  # else the CNN multiplies float32 in 19 bits
    torch.cuda.set_device(local_rank)
    return torch.device("cuda", local_rank)


def mnist_file(path, header_bytes):
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as file:
        return torch.tensor(bytearray(file.read()[header_bytes:]), dtype=torch.uint8)


def dataset_init(args, split):
    """The rows to "train" or to "test" with. The random ones come from the generator; none of them are for tests."""
    if args.dataset == "random":
        rows = [(torch.rand(20), torch.rand(1)) for _ in range(args.dataset_size if split == "train" else 0)]
        inputs, targets = map(torch.stack, zip(*rows)) if rows else (torch.empty(0), torch.empty(0))
    elif args.dataset == "digits":
        images, labels = digits(ROOT + "/data/digits.csv.gz")
        chosen = (torch.arange(len(labels)) % 5 == 0) == (split == "test")
        inputs, targets = (images[chosen] - MEAN) / STD, labels[chosen]
    else:
        path = args.data_dir + {"train": "/train", "test": "/t10k"}[split]
        images = mnist_file(path + "-images-idx3-ubyte", 16).reshape(-1, 1, 28, 28)
        inputs, targets = (images / 255 - MEAN) / STD, mnist_file(path + "-labels-idx1-ubyte", 8).long()
    rows = slice(args.num_samples or None) if split == "train" else slice(None)
    return TensorDataset(inputs[rows], targets[rows])


class DistributedSampler(distributed.DistributedSampler):
    """PyTorch's, and what it lacks: its position, the number of rows that this rank has done in the epoch."""
    position = 0

    def set_epoch(self, epoch):
        self.position = self.position if epoch == self.epoch else 0  # a resumed run continues inside its epoch
        super().set_epoch(epoch)

    def __iter__(self):
        for row in list(super().__iter__())[self.position:]:
            self.position += 1
            yield row


def model_init(args):
    if args.model == "linear":
        return nn.Linear(20, 1)
    model = Net()
    model.dropout1.p, model.dropout2.p = (0.25, 0.5) if args.dropout == "on" else (0, 0)
    return model


def model_loss(outputs, targets):
    return F.mse_loss(outputs, targets) if targets.is_floating_point() else F.nll_loss(outputs, targets)


def optim_init(args, model):
    more = {"momentum": args.momentum} if args.optimizer == "sgd" else {}
    return OPTIMIZERS[args.optimizer](model.parameters(), lr=args.lr, weight_decay=args.weight_decay, **more)


def log_print(text):
    print(text + "\n", end="", flush=True)  # in one write: the ranks share a pipe


def check_divergence(loss):
    if not math.isfinite(loss):
        sys.exit("%s: the loss is %s: stopped; try a lower --lr" % (sys.argv[0], loss))


class Metrics:
    """DIR/rankR.jsonl, a line for each step; and the line of a test."""

    def __init__(self, args, rank, step):
        self.rank, self.file = rank, None
        if args.metrics_dir:
            os.makedirs(args.metrics_dir, exist_ok=True)
            self.file = open("%s/rank%d.jsonl" % (args.metrics_dir, rank), "a+", buffering=1)
            self.file.seek(0)
            kept = [line for line in self.file if json.loads(line)["step"] <= step]  # a resumed run repeats the others
            self.file.truncate(0), self.file.writelines(kept)

    def step(self, epoch, step, loss):
        if self.file:  # else the loss is not needed, and the host need not wait for the device
            self.file.write(json.dumps({"epoch": epoch, "step": step, "rank": self.rank, "loss": loss.item()}) + "\n")

    def test(self, epoch, loss, correct, size):
        log_print(f"Test Epoch: {epoch} Loss: {loss:.4f} Accuracy: {correct / size:.2%} ({correct:.0f}/{size})")
