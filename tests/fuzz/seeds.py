#!/usr/bin/env python3
# Usage: tests/fuzz/seeds.py DIR      Writes inputs for every target to DIR/TARGET, the same ones each time.
# First the bytes of a valid file, command line, store or peer, then damaged copies of them, from which the fuzzer
# starts. Needs the programs of step 01 (make 01). The corpus that is kept was grown from these.
import gzip
import hmac
import itertools
import json
import os
import random
import re
import struct
import subprocess
import sys
import tempfile
import zlib

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
folder = sys.argv[1]


made = {}  # inputs of each target


def seed(target, *pieces):
    os.makedirs(f"{folder}/{target}", exist_ok=True)
    inputs = made.setdefault(target, [])
    inputs.append(b"".join(p.encode() if isinstance(p, str) else p for p in pieces))
    with open(f"{folder}/{target}/seed{len(inputs):04}", "wb") as file:
        file.write(inputs[-1])


def part(data=b"", stays=False):
    return struct.pack("<H", len(data) | stays << 15) + data


def blob(data):
    data = data.encode() if isinstance(data, str) else data
    return struct.pack("<Q", len(data)) + data


def i64(value):
    return struct.pack("<q", value)


# Command lines, the configuration, the environment.
options = re.findall(r"^#([a-z_]+): ([^ \n]+)", open(f"{root}/config.yaml").read(), re.M)
seed("config", "".join(f"{name}: {value}\n" for name, value in options))
seed("config", "---\n{epochs: 3, 'lr': \"1e-3\"}\n...\n")
seed("config", "# nothing\n")
for name, value in options:
    seed("config", f"{name}: {value}\n")
    seed("args", bytes([len(name)]), f"--{name.replace('_', '-')}\n{value}\n")
    seed("args", b"\4", f"--{name}={value}\n--model\nlinear\n")
seed("args", b"\0", "50\n10\n--batch-size\n32\n--\n")
seed("args", b"\4", "$LOCAL_RANK=1\n--global-batch-size=30\n--optimizer\nadamw\n--local-rank=3\n--help\n")
flags = """nproc-per-node=2 nproc-per-node=gpu nproc-per-node=auto nnodes=2 nnodes=1:4 node-rank=1
    master-addr=::1 master-port=29501 rdzv-backend=c10d rdzv-endpoint=[::1]:1 rdzv-id=job rdzv-conf=timeout=3
    rdzv-conf=keep_alive_interval=1,keep_alive_max_attempt=9 rdzv-conf=join_timeout=9,last_call_timeout=1.5,is_host=1
    max-restarts=3 shutdown-timeout=2 role=r log-dir=x
    monitor-interval=0.5 redirects=3 tee=0:1,1:3 local-ranks-filter=0,1 log-line-prefix-template=${rank}
    start-method=spawn""".split()
for flag in flags:
    name, value = flag.split("=", 1)
    seed("flags", b"\1", f"--nproc-per-node=4\n--{flag}\ntrain\n1\n")
    seed("flags", b"\0", f"$PET_{name.upper().replace('-', '_')}={value}\n-r\n3\n-t1\ntrain.py\n")
seed("flags", b"\1", "--standalone\n-m\n--pass-local-rank\nmodule\n")
seed("flags", b"\1", "--nnodes=1:4\n--rdzv-endpoint=h:1\n--rdzv-conf=join_timeout=9,is_host=0\ntrain\n")
seed("flags", b"\1", "--nnodes=2\n--rdzv-backend=c10d\n--rdzv-endpoint=h\ntrain\n")
seed("flags", b"\1", "--no-python\n--nnodes\n2:3\n--\ntrain.py\n")
handshake = struct.pack("<I", 0x70696421)  # what getpid says there
ranks = {
    "RANK={r}\nWORLD_SIZE={w}\nLOCAL_RANK={r}\nLOCAL_WORLD_SIZE={w}\nGROUP_RANK=0": (1, 2),
    "OMPI_COMM_WORLD_RANK={r}\nOMPI_COMM_WORLD_SIZE={w}\nOMPI_COMM_WORLD_LOCAL_RANK={r}": (0, 1),
    "SLURM_PROCID={r}\nSLURM_STEP_NUM_TASKS={w}\nSLURM_LOCALID={r}\nSLURM_NODEID=3\n"
    "SLURM_STEP_TASKS_PER_NODE=2(x3),1\nSLURM_CPUS_PER_TASK=2": (0, 7),
    "PMI_RANK={r}\nPMI_SIZE={w}\nMPI_LOCALRANKID={r}\nMPI_LOCALNRANKS={w}": (1, 2),
}
for text, (r, w) in ranks.items():
    for rest in ["MASTER_ADDR=localhost\nMASTER_PORT=29500", "TORCHELASTIC_RUN_ID=x", "OMP_NUM_THREADS=2"]:
        lines = (text.format(r=r, w=w) + "\n" + rest).split("\n")
        seed("env", part(part(handshake + i64(1))), "".join(f"${line}\n" for line in lines))

# Files.
images = struct.pack(">4I", 0x803, 2, 3, 2) + bytes(range(12))
labels = struct.pack(">2I", 0x801, 3) + b"\1\2\3"
floats = struct.pack(">5I2f", 0xd04, 1, 1, 2, 1, 0.2, 1)
table = struct.pack(">3I8i", 0xc02, 1, 8, 7, *range(7))
for kind, file in [(1, images), (3, images), (0, labels), (2, labels), (0, gzip.compress(labels, mtime=0)), (5, images),
                   (1, floats), (7, floats), (0, table)]:
    seed("idx", bytes([kind]), file)
tensors = {"__metadata__": {"format": "pt"}, "d": {"dtype": "F64", "shape": [1, 2], "data_offsets": [0, 16]},
           "l": {"dtype": "I64", "shape": [], "data_offsets": [16, 24]},
           "f": {"dtype": "F32", "shape": [2], "data_offsets": [24, 32]},
           "h": {"dtype": "BF16", "shape": [0, 3], "data_offsets": [32, 32]},
           "u": {"dtype": "U8", "shape": [1, 1, 1], "data_offsets": [32, 33]}}
for names in [list(tensors), ["d"], ["__metadata__"], []]:
    header = json.dumps({name: tensors[name] for name in names}).encode()
    seed("safetensors", blob(header), bytes(33 if len(names) > 1 else 16 * (names == ["d"])))
others = {"b": {"dtype": "BOOL", "shape": [1], "data_offsets": [0, 1]},  # as other programs write them
          "f": {"dtype": "F32", "shape": [1], "data_offsets": [1, 5]},
          "q": {"dtype": "F4", "shape": [2, 3], "data_offsets": [5, 8]},
          "n": {"dtype": "F16", "shape": [1] * 9, "data_offsets": [8, 10]}}
seed("safetensors", blob(json.dumps(others).encode()), bytes(10))
with tempfile.TemporaryDirectory() as trained:
    command = f"{root}/01_single_gpu/train --model linear --momentum 0.9 --num-samples 16 --epochs 1 --batch-size 8"
    training = subprocess.run([*command.split(), "--checkpoint-dir", trained], capture_output=True, text=True)
    if training.returncode != 0:
        sys.exit(training.stderr)
    data = open(f"{trained}/linear_random.safetensors", "rb").read()
size = struct.unpack("<Q", data[:8])[0]
header, rest = data[8:8 + size], data[8 + size:]
header = re.sub(rb'("tensors_checksum": ?")[0-9a-f]*', rb"\1deadbeef", header).rstrip()
header = re.sub(rb',"metadata_checksum":"[0-9a-f]*"', b"", header)  # of the edited header it would be another
for kind in b"\0\1":
    seed("checkpoint", bytes([kind]), header, b"\n\n", rest)
weights = {"module.linear.weight": {"dtype": "F32", "shape": [1, 20], "data_offsets": [0, 80]},
           "module.linear.bias": {"dtype": "F32", "shape": [1], "data_offsets": [80, 84]}}
first = next(name for name in json.loads(header) if name.endswith("weight") and not name.startswith("optim"))
text = json.dumps(weights).replace("linear.weight", first).replace("linear.bias", first.replace("weight", "bias"))
seed("checkpoint", b"\n", b"{}")  # no tensors
seed("checkpoint", b"\0", text, b"\n\n", bytes(84))
names = json.loads(text)
files = [f"model-0000{i}-of-00002.safetensors" for i in (1, 2)]
for index in [{"metadata": {"total_size": 84}, "weight_map": dict(zip(names, files))}, {"weight_map": {name: files[1] for name in names}},
              {"weight_map": {first: "../" + files[0]}}, None]:
    index = json.dumps(index) if index else ""
    parts = [json.dumps({name: {**entry, "data_offsets": [0, entry["shape"][-1] * 4]}}) + "\n\n" + "\0" * 4 * entry["shape"][-1]
             for name, entry in names.items()]
    seed("checkpoint", b"\2", *(part(piece.encode()) for piece in [index, *parts]))
halves = text.replace("F32", "F16").replace("80", "40").replace("84", "42").replace("module.", "model._orig_mod.")
seed("checkpoint", b"\0", halves, b"\n\n", bytes(42))
seed("checkpoint", b"\1", header.replace(b"[1,20]", b"[20,1]"), b"\n\n", rest)
line = '{"epoch":0,"step":%d,"rank":0,"loss":2.3}\n'
seed("metrics", b"\2", *(line % step for step in (1, 2, 3)))
seed("metrics", b"\1", line % 1, '{"step":1e3}\n{"ste')


# Flight records of two ranks: header, entries, header, entries, and the ends of both headers.
def header(rank, attempt=7):
    head = struct.pack("<8sIiiiiiQqqq", b"ddpfly1", 0, rank, 2, 0, 1, 1, 1, 10**9, attempt, 5)
    return head + b"host".ljust(64, b"\0") + b"/train"


def end(disk_since, *progress):  # steps, steps of an epoch, step, loss
    return struct.pack("<q", disk_since) + b"/disk".ljust(512, b"\0") + struct.pack("<QQQd", *progress)


def call(op, kind=0, completed=9, failed=0, group=b""):
    head = struct.pack("<QQQqqqqiiii", op + 1, op, 10, 7, 8, completed, failed, kind, 0, 0, 0)
    return head + group.ljust(48, b"\0") + struct.pack("<12Q", *range(4, 16))


seed("flight", *(piece for rank in (0, 1) for piece in (part(header(rank)), part(call(0) + call(1)))))
seed("flight", part(header(0)), part(call(0) + call(1, 1, 0, 9)), part(header(1)), part(call(0)))
seed("flight", part(header(0)), part(call(0, 0, 0) + call(1, 8, 0)), part(header(1)), part(call(0, 5, 0)))
seed("flight", *(piece for rank in (0, 1) for piece in (part(header(rank)), part(b"".join(map(call, range(9)))))))
seed("flight", part(header(0, 0)), part(), part(header(1, 8)), part(call(0, group=b"node 0")))
for bad in ((3, 2, 4, 0.5), (3, 0, 1, float("nan")), (2**64 - 1, 1, 2**64 - 1, float("inf"))):
    seed("flight", *(piece for rank in (0, 1) for piece in (part(header(rank)), part(call(0)))), part(end(0, 40, 20, 3, 0.5)), part(end(9, *bad)))
# Pictures: a JSON request, PGM of each kind, PNG of each colour type.
def chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(width, height, depth, colour, rows, *chunks):
    head = struct.pack(">2I5B", width, height, depth, colour, 0, 0, 0)
    body = zlib.compress(b"".join(b"\0" + row for row in rows))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + b"".join(chunks) + chunk(b"IDAT", body) + chunk(b"IEND", b"")


seed("picture", b"\0", json.dumps({"pixels": [0] * 300 + [255, 128.5] + [0] * 482}))
seed("picture", b"\4", '{"pixels": [1, 2]}')
seed("picture", b"\1", "P2 # plain\n3 2\n15\n0 1 2 15 4 5\n")
seed("picture", b"\1", "P5\n3 2 255\n", bytes([255, 255, 255, 255, 0, 255]))
seed("picture", b"\1", "P5\n2 2 65535 ", bytes(6), b"\xff\xff")
seed("picture", b"\5", "P5\n28 28 255\n", bytes(400), b"\xff", bytes(383))
seed("picture", b"\2", png(3, 2, 8, 0, [b"\0\xff\0", b"\0\0\0"]))
seed("picture", b"\2", png(2, 2, 8, 2, [bytes(6), b"\xff\xff\xff\0\0\1"]))
seed("picture", b"\2", png(2, 2, 8, 6, [bytes(8), b"\0\0\0\xff" * 2]))
seed("picture", b"\2", png(8, 1, 1, 3, [b"\x81"], chunk(b"PLTE", bytes(3) + b"\xff" * 3)))
seed("picture", b"\2", png(1, 2, 16, 4, [bytes(4), b"\xff" * 4]))
seed("picture", b"\3", "text")

# The store: what clients ask, and what servers answer.
recorded = [json.loads(text) for text in open(f"{here}/../golden/tcpstore.jsonl")]
for _, some in itertools.groupby(recorded, lambda talk: talk["backend"]):
    talks = [talk for talk in some if talk.get("sent")]
    for start in range(0, len(talks), 8):
        service, server = [], [b"\0\0\0"]
        for talk in talks[start:start + 8]:
            sent = bytes.fromhex(talk["sent"])
            if len(sent) >= 1024:
                continue
            if sent[0] == 0:  # VALIDATE: two of the three clients have said it
                service.append(b"\2" + part(sent))
            else:
                service.append(bytes([talk["seq"] % 2]) + part(sent))
            server.append(bytes([2 + 4 * (talk["seq"] % 3)]) + part(sent))
        validate = b"".join(bytes([2 + 4 * i]) + part(b"\0\xce\xf7\x85\x3c") for i in range(3))
        seed("service", *service)
        seed("server", server[0], validate, *server[1:], b"\1")
answers = {
    "g": b"\0" + blob("value"), "G": b"\0" + blob("one") + blob("a longer value than fits"), "s": b"", "S": b"",
    "a": i64(7), "A": b"", "w": b"\0", "t": b"\0", "c": b"\0", "d": i64(1), "C": blob("new"), "p": b"dip!",
    "n": i64(3), "l": i64(2) + blob("/p/one") + blob("/other"), "q": i64(1) + blob("element"),
    "Q": b"\0" + i64(1) + blob("element"), "L": i64(2), "P": b"", "b": b"\0",
}
answers["p"] = handshake
for letter, answer in answers.items():
    seed("store", letter, "\n", answer)
    seed("store", letter, "w\n", answer, b"\0")
seed("store", ".t\n", b"")
seed("store", ".wg\n", b"\0")
seed("store", "".join(answers), "\n", b"".join(answers.values()))

# Peers: forming the group, and collectives.
key = b"r" * 32  # getrandom's, in a fuzzer's world
offers = [b"ddp.tcpA" + key, b"ddp.tcpB" + key]  # with extras, and without
closing = struct.pack("<ii", 2, 0) + bytes(80 + 512)


def calls(own, callers):
    """Of "20 21", rank 2 on channel 0 and 1, to rank `own`. With the data comes what they say of shared memory: the
    lower rank what it offers, the higher whether it has found that."""
    for rank, channel in (map(int, caller) for caller in callers.split()):
        head = b"w" if rank < own else key + struct.pack("<iii", rank, own, channel)  # a lower rank is called, and answers
        offer = struct.pack("<iiQ", 0, -1, 0) if rank < own else b"\0"
        yield part(head + (closing if channel else offer))


def got(text):
    return b"\0" + blob(text)


for service in 1, 2:  # the key of fuzz_handshake is zero
    hello = struct.pack("<4B3iq", 0xDD, 2, service, 0, 0, 0, 0, 0) + b"n" * 32
    hello += hmac.new(bytes(32), b"s" + hello + bytes(64), "sha512").digest()[:32]
    proof = hmac.new(bytes(32), b"c" + hello + b"r" * 32, "sha512").digest()[:32]
    seed("handshake", b"\1", part(hello), part(proof))
    seed("handshake", b"\1", part(hello[:100]), part(hello[100:]), part(proof[:5]), part(proof[5:]))
hello = struct.pack("<4B3iq", 0xDD, 2, 2, 0, 0, 0, 0, 0) + b"r" * 32
hello += hmac.new(bytes(32), b"s" + hello + bytes(64), "sha512").digest()[:32]
seed("handshake", b"\0", b"n" * 32, hmac.new(bytes(32), b"a" + hello + b"n" * 32, "sha512").digest()[:32], b"w")
seed("handshake", b"\0", b"HTTP/1.1 400 Bad Request")
seed("mesh", b"\0", part(), *calls(0, "10 11 20 21"))
seed("mesh", b"\0", part(), *calls(0, "10 10 00 11 21 20"))
for offer in offers:
    seed("mesh", b"\1", part(got(offer) + got("127.0.0.1 2000")), *calls(1, "00 01 20 21"))
    seed("mesh", b"\2", part(got(offer) + got("a 2") + got("b 3")), *calls(2, "00 01 10 11"))
kinds = [0, 6, 4, 0, 1, 1, 2, 3, 5]
for which, many, integer, rank in itertools.product(range(9), (0, 16), (0, 32), range(3)):
    what, shared = (next(n for n in range(first, 256) if n % 9 == which and n & 16 == many and n & 32 == integer)
                    for first in (0, 64))
    count = 30 if many else 3
    call = struct.pack("<QQ4i48x", 1, count, kinds[which], 3 if integer else 0, 0, 0)
    for size in (4 * count, 4 * count // 3):
        message = struct.pack("<Q", 0x6464702E74637032) + call + struct.pack("<Q", size) + bytes(size)
        seed("exchange", bytes([what, rank]), *(part(closing) + part(message * 4) for _ in range(2)))
        seed("exchange", bytes([what, rank]), *(part(b"", True) + part(message, True) for _ in range(2)))
        ring = message.ljust(-len(message) // 128 * -128, b"\0") * 4
        memory = part(struct.pack("<QQQ", len(ring), 0, 1) + ring)
        seed("exchange", bytes([shared, rank]), *(part(closing) + part(b"", True) + memory for _ in range(2)))
waiting = struct.pack("<ii", 0, 2) + struct.pack("<QQ4i48x", 1, 3, 0, 0, 0, 0) + bytes(512)
abort = struct.pack("<ii", 1, 0) + bytes(80) + b"rank 1 gives up".ljust(512, b"\0")
for notices in ([waiting], [abort], [waiting, closing], [waiting.replace(b"\3", b"\4"), abort]):
    seed("exchange", b"\0\0", *(part(b"".join(notices)) + part() for _ in range(2)))
    seed("exchange", b"\0\0", *(part(b"".join(notices), True) + part(b"", True) for _ in range(2)))

# A launcher's messages.
failure = {"status": 1, "signal": 9, "time": 1.5e9, "node": 1, "rank": 2, "local_rank": 0, "pid": 77,
           "host": "alpha", "message": "rank 2 \u00e4 fell", "log": "/tmp/log"}
seed("launch", b"\0", json.dumps(failure, ensure_ascii=False))
seed("launch", b"\0", json.dumps({**failure, "rank": -1, "message": "", "signal": 0}))
role = got(json.dumps({"role": "default", "rank": 0, "local_world_size": 2}))
place = b"\0" + got("[0, 6, 0, 6]")
begin = handshake + b"\1" + i64(1) + i64(1)
seed("launch", b"\1\0", part(begin + (b"\0" + role) * 3 + place))
seed("launch", b"\1\1", part(begin + place))
for text in ["0,1", "2,0,7", "GPU-8932f937,1", "-1", ""]:
    seed("launch", b"\2", f"CUDA_VISIBLE_DEVICES={text}")
seed("launch", b"\3", json.dumps({"message": {"message": "it fell \u00e4", "extraInfo": {}}}, ensure_ascii=False))
seed("launch", b"\3", json.dumps({"message": "it " + 200 * "fell "}))
for time in ["1e300", "9e18", "-1"]:  # such dates have once been told as they came
    seed("launch", b"\0", json.dumps(failure).replace("1500000000.0", time))
for node in [{"role": "default", "rank": 3, "local_world_size": 2}, {"role": "\u00e4", "local_world_size": 1024}]:
    seed("launch", b"\4", json.dumps(node))
seed("launch", b"\5", "[1, 2, 29500, 2, 4, 2, 4, 7, 3]")
seed("launch", b"\5", json.dumps({"status": 143, "reason": "the job at h:1 has ended \u00e4"}))
for depth in range(8, 200, 8):
    seed("launch", b"\3", depth * "[")
    seed("safetensors", blob(depth * '{"a": [' + "1"))

# Damaged copies: a fuzzer's first steps, which need no fuzzer.
NUM_DAMAGED = 100  # for each target
TOKEN = re.compile(rb"[A-Za-z]+|[0-9]+")
EXTREMES = [b"", b"0", b"-1", b"1e999", b"nan", b"0x7", b"9" * 19, b"9" * 40, b"a" * 300,
            b"[" * 30, b"[" * 100]


def damage(rng, data, others):
    """Replaces a token, cuts off the end, or replaces, doubles or removes a piece."""
    at, other = rng.randrange(len(data) + 1), rng.choice(others)
    end = min(len(data), at + rng.choice((1, 2, 4, 8, 30, 200)))
    tokens = list(TOKEN.finditer(data))
    what = rng.randrange(8)
    if what < 2 and tokens:
        token = rng.choice(tokens)
        new = rng.choice(TOKEN.findall(other) + EXTREMES)
        return data[:token.start()] + new + data[token.end():]
    start = rng.randrange(len(other) + 1)
    new = [data[at:end] * 2, b"", other[start:start + end - at], other[start:], bytes([rng.randrange(256)]),
           struct.pack("<q", rng.choice((-1, 1 << 40, (1 << 63) - 1, len(data))))[:end - at]]
    return data[:at] + (rng.choice(new) + data[end:] if what > 2 else b"")


for target in sorted(made):
    honest = list(made[target])
    rng = random.Random(target)
    for _ in range(NUM_DAMAGED):
        data = rng.choice(honest)
        for _ in range(rng.randrange(1, 4)):
            data = damage(rng, data, honest)
        seed(target, data)
