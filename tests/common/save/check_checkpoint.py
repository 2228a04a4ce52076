"""Usage: check_checkpoint.py FILE      Reads the checkpoint of a fresh run with nothing but struct
and json, as the format's description says, and compares its weights with PyTorch's initial ones
for the same model and seed (tests/golden/init.jsonl)."""

import hashlib
import json
import struct
import sys

content = open(sys.argv[1], "rb").read()
(length,) = struct.unpack("<Q", content[:8])
assert length % 8 == 0, "the data is not aligned"
header = json.loads(content[8 : 8 + length])
data = content[8 + length :]
metadata = header.pop("__metadata__")
assert all(isinstance(value, str) for value in metadata.values())
assert metadata["format"] == "pt"

SIZES = {"F32": 4, "I64": 8}
position = 0
for name, tensor in header.items():
    begin, end = tensor["data_offsets"]
    numel = 1
    for size in tensor["shape"]:
        numel *= size
    assert begin == position and begin % SIZES[tensor["dtype"]] == 0, name
    assert end - begin == numel * SIZES[tensor["dtype"]], name
    position = end
assert position == len(data)

for golden in map(json.loads, open("tests/golden/init.jsonl")):
    if golden["model"] == metadata["model"] and str(golden["seed"]) == metadata["seed"]:
        break
else:
    sys.exit("no golden values for this model and seed")
weights = [name for name in header if not name.startswith("optimizer.")]
assert weights == list(golden["params"]), weights
for name, expected in golden["params"].items():
    begin, end = header[name]["data_offsets"]
    assert header[name]["shape"] == expected["shape"], name
    assert hashlib.sha256(data[begin:end]).hexdigest() == expected["sha256_le_float32"], name
