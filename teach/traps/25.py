"""Usage: LOCAL_RANK=R 25.py FILE      On which device does this rank put the tensors of a checkpoint, and new ones?

Runs without a GPU: PyTorch's FakeTensorMode follows the device of each tensor and computes nothing. The checkpoint says
that it was saved from GPU 0, as one of rank 0 does."""
import os, sys
import torch
from torch._subclasses.fake_tensor import FakeTensorMode


def save_from_gpu_0(path):
    """A file as rank 0 writes it: each tensor in it has the tag cuda:0."""
    torch.serialization.register_package(0, lambda storage: "cuda:0", lambda storage, location: None)
    torch.save({"weight": torch.zeros(4)}, path)
    torch.serialization._package_registry.pop(0)


local_rank = int(os.environ["LOCAL_RANK"])
save_from_gpu_0(sys.argv[1])
with FakeTensorMode():
    weight = torch.load(sys.argv[1])["weight"]
    sums = torch.zeros(2, device="cuda")
print(f"rank={local_rank} opens device {weight.device} for the checkpoint, {sums.device} for sums")
