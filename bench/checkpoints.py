#!/usr/bin/env python3
"""Usage: bench/checkpoints.py [--crc] FOLDER...     What checkpoints.c measures, with PyTorch and safetensors.

--crc: and with a checksum of all tensors, computed when saving and checked when loading, as ours has it."""
import json
import os
import statistics
import sys
import tempfile
import time
import zlib

import torch
from safetensors import safe_open
from safetensors.torch import save_file

torch.set_num_threads(1)
with_crc = sys.argv[1:2] == ["--crc"]
TIMES = 15
SHAPES = {"conv1.weight": (32, 1, 3, 3), "conv1.bias": (32,), "conv2.weight": (64, 32, 3, 3), "conv2.bias": (64,),
          "fc1.weight": (128, 9216), "fc1.bias": (128,), "fc2.weight": (10, 128), "fc2.bias": (10,)}
tensors = {name: torch.randn(shape) for name, shape in SHAPES.items()}
for name, shape in SHAPES.items():
    for state in "exp_avg", "exp_avg_sq":
        tensors[f"optimizer.{name}.{state}"] = torch.randn(shape)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def checksum(of):
    crc = 0
    for tensor in of.values():
        crc = zlib.crc32(tensor.numpy(), crc)
    return crc


def save(path):
    save_file(tensors, path + ".tmp", metadata={"crc32": str(checksum(tensors) if with_crc else "")})
    sync(path + ".tmp")
    os.rename(path + ".tmp", path)
    sync(os.path.dirname(path))


def load(path):
    loaded = {}
    with safe_open(path, "pt") as file:
        for name in file.keys():
            loaded[name] = file.get_tensor(name)
        crc = file.metadata()["crc32"]
    if with_crc and crc != str(checksum({name: loaded[name] for name in tensors})):
        sys.exit("checkpoints.py: the checksum does not fit")
    for name, tensor in loaded.items():
        tensors[name].copy_(tensor)


for where in sys.argv[1 + with_crc:]:
    with tempfile.TemporaryDirectory(dir=where) as folder:
        times = {save: [], load: []}
        for _ in range(TIMES + 1):
            for act in times:
                begin = time.monotonic()
                act(folder + "/cnn.safetensors")
                times[act].append(time.monotonic() - begin)
        for act, case in (save, "save to"), (load, "load from"):
            print(json.dumps({"case": f"{case} {where}", "value": 1e3 * statistics.median(times[act][1:]),
                              "unit": "ms"}))
