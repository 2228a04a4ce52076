#!/usr/bin/env python3
"""Usage: tools/moving/hashes.py [--check] [--tree DIR] [--run COMMAND] [--every N]

Puts into docs/moving/play.html what the native programs write for each setting that the page offers, as SHA-256. They are built
with FMA=0 in a copy of the tree, build/play/native. --check only compares. --tree: programs that are built there already; --run:
before each program, such as qemu-aarch64; --every N: each N-th setting."""
import argparse
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGE = os.path.join(ROOT, "docs/moving/play.html")
KEPT = re.compile(r'(?<=<script type="application/json" id="native">\n).*?(?=\n</script>)', re.S)
DATA = re.compile(r'(?<=<script type="application/json" id="data">\n).*?(?=\n</script>)', re.S)


def offered():
    """The settings of the page, as its script has them: (program, ranks, rate, batch); and the options that all share."""
    script = open(os.path.join(ROOT, "docs/moving/play.js"), encoding="utf-8").read()
    rates, batches = (json.loads(re.search(rf"\b{name} = (\[.*?\])", script)[1]) for name in ("RATES", "BATCHES"))
    rows, epochs = (re.search(rf"\b{name} = (\d+)", script)[1] for name in ("ROWS", "EPOCHS"))
    settings = [(program, n, rate, batch) for program in ("01", "02b", "02c", "02") for n in range(1, 2 if program == "01" else 5)
                for rate in rates for batch in batches]
    return settings, ["--device", "plain", "--num-samples", rows, "--epochs", epochs, "--save-every", "0"]


def build():
    tree = os.path.join(ROOT, "build/play/native")
    subprocess.run(["tests/copy_tree.sh", tree], cwd=ROOT, check=True)
    clean = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "BUILD")}
    subprocess.run(["make", "-s", "-j2", "FMA=0", "EXTRAS=0", "MPI=0", "CUDA=0", "PNG=0", "HTTP=0", "01", "02"], cwd=tree, check=True, env=clean)
    return tree


def written(tree, before, paths, setting, shared):
    program, n, rate, batch = setting
    with tempfile.TemporaryDirectory() as folder:
        ranks = [] if program == "01" else ["--nproc", str(n)]
        subprocess.run([*before, "./" + paths[program]["file"].removesuffix(".c"), *ranks, *shared, "--lr", str(rate), "--batch-size", str(batch),
                        "--checkpoint-dir", folder], cwd=tree, check=True, stdout=subprocess.DEVNULL, timeout=3600)
        with open(folder + "/cnn_digits.safetensors", "rb") as file:
            return hashlib.sha256(file.read()).hexdigest()


def main():
    words = argparse.ArgumentParser(usage=__doc__)
    words.add_argument("--check", action="store_true")
    words.add_argument("--tree")
    words.add_argument("--run", default="")
    words.add_argument("--every", type=int, default=1)
    args = words.parse_args()
    page = open(PAGE, encoding="utf-8").read()
    settings, shared = offered()
    kept, table, tree = json.loads(KEPT.search(page)[0]), {}, args.tree or build()
    for setting in settings[::args.every]:
        program, n, rate, batch = setting
        found = written(tree, args.run.split(), json.loads(DATA.search(page)[0]), setting, shared)
        table.setdefault(program, {})[f"{n} {rate} {batch}"] = found
        if args.check and kept[program].get(f"{n} {rate} {batch}") != found:
            sys.exit(f"hashes.py: {program} with {n} ranks, rate {rate}, batch {batch} writes {found}: tools/moving/hashes.py renews docs/moving/play.html")
    if args.check:
        print(f"{len(settings[::args.every])} settings of {len(settings)}: the hashes of docs/moving/play.html")
        return
    page = open(PAGE, encoding="utf-8").read()
    with open(PAGE, "w", encoding="utf-8") as file:
        file.write(KEPT.sub(json.dumps(table, separators=(",", ":")), page))


if __name__ == "__main__":
    main()
