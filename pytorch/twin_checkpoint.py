"""The files of the steps' train.py: what common/save/checkpoint.c writes and reads, so each resumes the other's.

The model's tensors have their own names, the optimizer's states lie beside them, and all else is text."""
import json, os, sys, zlib
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from twin import MEAN, STD, log_print, usage_error

STATES = {"sgd": ["momentum_buffer"], "adam": ["exp_avg", "exp_avg_sq"], "adamw": ["exp_avg", "exp_avg_sq"],
          "adadelta": ["square_avg", "acc_delta"]}  # of each parameter


def checksum(tensors):
    """The sum of each tensor's CRC-32, over its name and numbers, so their order does not matter."""
    crcs = [zlib.crc32(tensor.contiguous().numpy().tobytes(), zlib.crc32(name.encode()))
            for name, tensor in tensors.items()]
    return "%08x" % (sum(crcs) % 2**32)


def read_file(path):
    """(tensors, metadata) of a file; ValueError if it is damaged."""
    with open(path, "rb") as file:
        data = file.read()
    try:
        tensors = load(data)
    except SafetensorError as error:
        raise ValueError(str(error)) from None
    header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
    metadata = header.pop("__metadata__", {})
    if "ddp_c_version" in metadata and metadata.get("tensors_checksum") not in (None, checksum(tensors)):
        raise ValueError("its tensors do not have the checksum it names")
    return tensors, metadata


def write_file(path, tensors, metadata):
    """Written aside, then renamed: nobody ever sees half a file under this name."""
    metadata["tensors_checksum"] = checksum(tensors)
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
    aside = "%s.%d.tmp" % (path, os.getpid())
    with open(aside, "wb") as file:
        file.write(save(tensors, metadata))
        os.fsync(file.fileno())
    os.replace(aside, path)


class Checkpoint:
    """The state of a run. `step` counts the optimizer's steps; the sampler knows the position in the epoch."""

    def __init__(self, args, model, optim, sampler, train_set, world_size):
        self.args, self.model, self.optim, self.sampler, self.step = args, model, optim, sampler, 0
        self.world_size, self.done = world_size, False
        self.states = STATES[args.optimizer] if args.optimizer != "sgd" or args.momentum > 0 else []
        is_cnn = args.model == "cnn"
        self.run = {  # what was run, and what inference needs
            "format": "pt", "ddp_c_version": "1", "model": args.model, "dataset": args.dataset,
            "num_samples": len(train_set), "seed": args.seed, "world_size": world_size,
            "global_batch_size": world_size * args.batch_size, "optimizer": args.optimizer, "lr": "%.15g" % args.lr,
            "momentum": "%.15g" % args.momentum, "weight_decay": "%.15g" % args.weight_decay, "dropout": args.dropout,
            "input_shape": "1,28,28" if is_cnn else "20", "class_labels": "0,1,2,3,4,5,6,7,8,9" if is_cnn else "",
            "mean": MEAN if is_cnn else 0, "std": STD if is_cnn else 1}

    def load(self):
        """All from --resume FILE, else the weights alone from --init-from FILE. Returns the epoch to begin with."""
        path = self.args.init_from if self.args.resume in ("none", "auto") else self.args.resume
        try:
            if path and path == self.args.init_from:
                self.load_weights({name.removeprefix("module."): value for name, value in read_file(path)[0].items()})
            elif path:
                self.restore(*read_file(path))
        except (OSError, ValueError, RuntimeError, KeyError) as error:
            usage_error("%s: %s: name another file" % (path, " ".join(str(error).split())))
        return self.sampler.epoch

    def load_weights(self, tensors):
        self.model.load_state_dict({name: tensors[name] for name in self.model.state_dict()})

    def restore(self, tensors, metadata):
        """Continues where the file's run stood."""
        for key in "model", "optimizer":
            if metadata.get(key) != self.run[key]:
                raise ValueError("it has the %s %s, this run %s" % (key, metadata.get(key), self.run[key]))
        self.step, self.sampler.epoch = tensors["optimizer.step"].item(), int(metadata["epoch"])
        position, rows = int(metadata["position"]), len(self.sampler.dataset)
        self.sampler.position = len(self.sampler) if position >= rows else position // self.world_size
        state = {}
        for i, (name, _) in enumerate(self.model.named_parameters()):
            state[i] = {key: tensors["optimizer.%s.%s" % (name, key)] for key in self.states}
            state[i]["step"] = torch.tensor(float(self.step))
        self.load_weights(tensors)
        self.optim.load_state_dict({**self.optim.state_dict(), "state": state})
        self.done = self.sampler.epoch >= self.args.epochs or self.step >= self.args.max_steps

    def next(self):
        """The position of the next batch: the epoch, and how many rows of it all ranks together have done."""
        if self.sampler.position == len(self.sampler):
            return self.sampler.epoch + 1, 0
        return self.sampler.epoch, self.sampler.position * self.world_size

    def write(self, name, epoch, position, kind="checkpoint"):
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            sys.exit("%s is not written: weights are nan or infinite" % name)
        tensors = {"optimizer.step": torch.tensor(self.step)}
        for parameter_name, parameter in self.model.named_parameters():
            state = self.optim.state.get(parameter, {})
            tensors[parameter_name] = parameter.detach().cpu()
            for key in self.states:  # there is none before the first step
                value = state.get(key, torch.zeros_like(parameter))
                tensors["optimizer.%s.%s" % (parameter_name, key)] = value.detach().cpu()
        path = "%s/%s.safetensors" % (self.args.checkpoint_dir, name)
        place = {"epoch": epoch, "position": position, "step": self.step}
        write_file(path, tensors, {key: str(value) for key, value in {**self.run, **place}.items()})
        ended = kind == "checkpoint" and position == 0 and epoch > 0
        log_print("Epoch %d | Training %s saved at %s" % (epoch - ended, kind, path))

    def save(self):
        """DIR/epoch_N after N epochs; nothing inside an epoch (--max-steps)."""
        epoch, position = self.next()
        if position == 0:
            self.write("epoch_%d" % epoch, epoch, position)

    def save_final(self):
        """DIR/MODEL_DATASET; the initial state, if no epochs are asked for at all, is epoch_0."""
        if self.args.epochs == 0:
            self.save()
        elif not self.done:
            self.write("%s_%s" % (self.args.model, self.args.dataset), *self.next())
