"""Usage: launchers_lines.py FOLDER DDPRUN_03 DDPRUN_05 <LINES

Runs each command line under torchrun and under both ddprun, in FOLDER, and prints a table of the first lines that came out.
Fails where the outputs differ. Before a line: "REFUSED: ", all three refuse it; "NOT 03: ", step 03 does. VARIABLE=VALUE
before the flags is set. torchrun is imported once, since that takes seconds: each line has a fork of this process.
"""
import contextlib, os, re, subprocess, sys

from torch.distributed import run as torchrun


def finished(child, read_end):
    with os.fdopen(read_end) as pipe:
        output = pipe.read()
    _, status = os.waitpid(child, 0)
    return sorted(output.splitlines()) if status == 0 else ["refused"]


def under_torchrun(variables, words):
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.environ.update(variables)
        os.dup2(write_end, 1)
        os.dup2(os.open("torchrun.err", os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)
        status = 1
        with contextlib.suppress(BaseException):
            torchrun.main(["--log-dir", "logs", *words])
            status = 0
        os._exit(status)
    os.close(write_end)
    return finished(child, read_end)


def under_ddprun(program, variables, words):
    done = subprocess.run([program, "--log-dir", "logs", *words], env=os.environ | variables, timeout=200, text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return sorted(done.stdout.splitlines()) if done.returncode == 0 else ["refused"]


def main():
    folder, *programs = sys.argv[1:]
    programs = [os.path.abspath(program) for program in programs]
    os.chdir(folder)
    differ = 0
    print("| command line | torchrun | 03's ddprun | 05's ddprun |\n| --- | --- | --- | --- |")
    for line in sys.stdin.read().splitlines():
        kind, words = re.fullmatch(r"(?:(REFUSED|NOT 03): )?(.*)", line).groups()
        variables = {}
        words = words.split()
        while re.match("[A-Z_]+=", words[0]):
            name, variables[name] = words.pop(0).split("=", 1)
        theirs = under_torchrun(variables, words)
        ours = [under_ddprun(program, variables, words) for program in programs]
        wanted = [["refused"] if kind == "NOT 03" else theirs, theirs]
        fits = ours == wanted and (theirs == ["refused"]) == (kind == "REFUSED")
        differ += not fits
        print("|", " | ".join([f"`{line}`", *(output[0] if output else "" for output in [theirs, *ours])]), "|" if fits else "| DIFFERS")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
