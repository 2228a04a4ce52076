#!/usr/bin/env python3
"""Usage: tests/class/try_cheats.py [--sample SEED] [NAME]...
Hands in each way to fool the grader (cheats.txt, and folders and zips that are made here), all or these. Each must get 0
points, and change nothing in our tree or the grader's folder of results. --sample: two of them, none that loads the machine."""
import json
import os
import random
import re
import stat
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

sys.dont_write_bytecode = True
TOP = Path(__file__).resolve().parents[2]
BEFORE, OURS = "02_multi_gpu_spawn/train_a_spawn.c", "02_multi_gpu_spawn/train_b_all_reduce.c"
LOADS = re.compile(r"\w*(bomb|memory|disk|forever|endless|huge|slow|big|kill|daemon|execv_other)\w*")  # nothing else should run beside these
SKELETONS = "ring", "ring5", "sampler", "reducer", "snapshot", "reconfigure"
MORE_HEADERS = "".join(f"#include <{name}.h>\n" for name in ("fcntl", "signal", "stdio", "stdlib", "string", "sys/mman", "sys/socket", "sys/syscall", "unistd"))
HEADERS = "#include <signal.h>\n#include <string.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <sys/stat.h>\n#include <unistd.h>\n"


def program(where, code):
    """[(lab, name, text)]: the program before the step, with the code in it; or skeletons of library labs."""
    code = re.sub(r"(?<![A-Z_])TOP\b", str(TOP), code).replace("// NEWLINE ", "\n")
    if where == "ring":
        text = (TOP / "teach/lab/ring/ring.c").read_text()
        return [("ring", "ring.c", re.sub(r"^void lab_all_reduce\(.*?^}", lambda _: code, text, flags=re.M | re.S))]
    if where in ("skeletons", "functions") or where in SKELETONS:
        skeletons = {lab: (TOP / f"teach/lab/{lab}/{lab}.c").read_text() for lab in SKELETONS if where in ("skeletons", "functions", lab)}
        if where == "functions":  # each that is to be written
            skeletons = {lab: re.sub(r'die\("rung .*\);', lambda _: code, text) for lab, text in skeletons.items()}
            code = ""
        return [(lab, f"{lab}.c", f"{MORE_HEADERS}{text}\n{code}\n") for lab, text in skeletons.items()]
    text = (TOP / BEFORE).read_text()
    if where == "top":
        return [("02b", "train.c", text + f"\n{code}\n" if not code.startswith("#") else f"{HEADERS}{code}\n{text}")]
    return [("02b", "train.c", HEADERS + re.sub(r"^(int main\(.*\)\n{)", lambda found: f"{found[1]}\n{code}\n", text, flags=re.M))]


def write(folder, lab, name, text):
    path = folder / lab / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def pack(folder, *entries):
    """A zip of (name, text, mode)."""
    path = folder / "handed.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text, mode in entries:
            info = zipfile.ZipInfo(name)
            info.external_attr, info.compress_type = mode << 16, zipfile.ZIP_DEFLATED
            archive.writestr(info, text)
    return path


def specials():
    """{name: a function that makes the submission in a folder and returns its path}"""
    ours = (TOP / OURS).read_text()
    secret = TOP / OURS

    def copied(text):
        def make(folder):
            write(folder, "02b", "train.c", text)
            return folder
        return make

    def linked(folder):
        (folder / "02b").mkdir()
        (folder / "02b/train.c").symlink_to(secret)
        return folder

    def linked_folder(folder):
        (folder / "elsewhere").mkdir()
        write(folder, "elsewhere", "train.c", ours)
        (folder / "02b").symlink_to("elsewhere")
        return folder

    def piped(folder):
        (folder / "02b").mkdir()
        os.mkfifo(folder / "02b/train.c")
        return folder

    def makefile(folder):
        [(lab, name, text)] = program("main", "return 0;")
        write(folder, lab, name, text)
        for other in "Makefile", "GNUmakefile", "rules.mk", "config.yaml":
            write(folder, lab, other, f"all:\n\ttouch {TOP}/cheated\n$(shell touch {TOP}/cheated)\n")
        return folder

    return {
        "copy": copied(ours),
        "copy_without_comments": copied(re.sub(r"/\*.*?\*/", "", ours, flags=re.S)),
        "copy_renamed": copied(re.sub(r"\b(run_batch|evaluate|train|loader|optim)\b(?![./_])", r"my_\1", ours)),
        "copy_reformatted": copied(re.sub(r"\n\n+", "\n", ours.replace("    ", "\t"))),
        "link": linked, "link_to_folder": linked_folder, "pipe": piped, "makefile": makefile,
        # A scanner must not begin anew at each of these.
        "many_comments": copied("/*" * 120_000), "many_quotes": copied('"' * 250_000), "many_escapes": copied('"' + "\\" * 250_000),
        "many_apostrophes": copied("'a" * 125_000), "many_splices": copied("\\ " * 125_000), "many_hashes": copied("#" * 250_000),
        "many_digits": copied("1e" * 125_000), "many_spaces": copied("#" + " " * 250_000), "many_includes": copied("#include" + " " * 250_000),
        "zip_bomb": lambda folder: pack(folder, ("02b/train.c", b" " * (1 << 30), 0o100644)),
        "zip_link": lambda folder: pack(folder, ("02b/train.c", str(secret), stat.S_IFLNK | 0o777)),
        "zip_outside": lambda folder: pack(folder, ("../../../../tmp/cheated", "x", 0o100644), ("/tmp/cheated", "x", 0o100644)),
        "zip_twice": lambda folder: pack(folder, ("02b/train.c", "int main(void) { return 0; }", 0o100644), ("x/02b/train.c", ours, 0o100644)),
        "zip_many": lambda folder: pack(folder, *((f"{i}/a", "", 0o100644) for i in range(10_001))),
        "no_zip": lambda folder: (folder / "handed.zip").write_bytes(b"PK\3\4" + b"\0" * 100) and folder / "handed.zip",
        "no_text": lambda folder: (write(folder, "02b", "train.c", ""), (folder / "02b/train.c").write_bytes(b"\xff\0"), folder)[2],
        "large_source": lambda folder: (write(folder, "02b", "train.c", "/" * 300_000), folder)[1],
    }


def fingerprint():
    """Of our tree: what git sees, and that nothing has been put beside it."""
    return subprocess.run(["git", "status", "--porcelain"], cwd=TOP, capture_output=True, text=True).stdout, Path("/tmp/cheated").exists()


def main():
    rows = {}
    for line in (TOP / "tests/class/cheats.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, where, code = line.split(maxsplit=2)
            rows[name] = (lambda folder, where=where, code=code: ([write(folder, *file) for file in program(where, code)], folder)[1])
    rows.update(specials())
    if sys.argv[1:2] == ["--sample"]:
        sys.argv[1:] = random.Random(sys.argv[2]).sample(sorted(name for name in rows if not LOADS.match(name)), 2)
    chosen = sys.argv[1:] or list(rows)
    before, failed = fingerprint(), 0
    for name in chosen:
        with tempfile.TemporaryDirectory() as place:
            folder = Path(place) / "handed"
            folder.mkdir()
            begin = time.monotonic()
            handed = rows[name](folder)
            labs = [path.parent.name for path in folder.glob("*/*.c") if path.parent.name in SKELETONS] or ["02b", "ring"]
            done = subprocess.run(["teach/class/grade", handed, "--labs", " ".join(labs), "--format", "gradescope", "--minutes", "4"],
                                  cwd=TOP, capture_output=True, text=True, timeout=400, env={**os.environ, "LAB_SECONDS": os.environ.get("LAB_SECONDS", "30")})
            seconds = time.monotonic() - begin
        try:
            result = json.loads(done.stdout)
            output = "\n".join(test["output"].strip() for test in result["tests"] if test["output"] and "there is no " not in test["output"])
            reason = next((line for line in output.splitlines() if line.startswith("no ")), output[:100])
            good = result["score"] == 0 and "time was up" not in output
        except ValueError:
            good, reason = False, done.stdout + done.stderr
        if fingerprint() != before:
            good, reason = False, f"it has changed our tree: {fingerprint()}"
        print(f"{'ok' if good else 'WRONG'}  {name}  {reason[:110]}  ({seconds:.1f} s)", flush=True)
        if not good:
            print(done.stdout, done.stderr)
        failed += not good
    print(f"{len(chosen)} cheats, {failed} with points or harm")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
