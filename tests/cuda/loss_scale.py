#!/usr/bin/env python3
"""Usage: loss_scale.py show FILE | set FILE TEXT | moved FILE FILE TENSOR     Looks into checkpoints of --amp fp16."""
import array, json, struct, sys, zlib


def read(path):
    data = open(path, "rb").read()
    size = struct.unpack("<Q", data[:8])[0]
    return json.loads(data[8:8 + size]), data[8 + size:]


def numbers(path, name):
    header, data = read(path)
    begin, end = header[name]["data_offsets"]
    return array.array("f", data[begin:end])


what, path = sys.argv[1:3]
if what == "show":
    print(read(path)[0]["__metadata__"]["loss_scale"])
elif what == "set":
    header, data = read(path)
    metadata = header["__metadata__"]
    del metadata["metadata_checksum"]
    metadata["loss_scale"] = sys.argv[3]
    text = json.dumps(metadata, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    metadata["metadata_checksum"] = "%08x" % zlib.crc32(text.encode())
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + data)
else:  # the largest difference of two tensors' numbers
    print("%.3g" % max(abs(a - b) for a, b in zip(numbers(path, sys.argv[4]), numbers(sys.argv[3], sys.argv[4]))))
