#!/usr/bin/env python3
"""Usage: bench/milestones.py NAME start|PERCENT[,PERCENT...] COMMAND...

Starts a training program, ours or train_torch.py, and reads its lines. start: how long until the first step is
done, and the most memory the process ever had. PERCENT: how long until a test is that good; then ends it, and
notes in build/bench/milestones.json how many tests that took.

Where COMMAND begins with `computed`, a run that is too slow to be waited for: its time is computed from the
time of the steps and tests of one short run of it, times those that the last run of ours took."""
import json, os, re, subprocess, sys, tempfile, time

NOTES = os.path.join(os.environ.get("BUILD", "build"), "bench", "milestones.json")
IMAGES = 60000  # of an epoch
name, wanted, *command = sys.argv[1:]


def figure(case, value, unit):
    print(json.dumps({"case": "%s, %s" % (name, case), "value": value, "unit": unit}), flush=True)


def lines(command, folder):
    """The process, then (seconds since its start, line) for each line."""
    command = [word.replace("{folder}", folder) for word in command]
    begin = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        yield process
        for line in process.stdout:
            yield time.monotonic() - begin, line
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        yield usage.ru_maxrss * 1024 / 1e6  # it is in KiB
    if process.returncode not in (0, -15):
        sys.exit("%s ended with status %d" % (command[0], process.returncode))


def start(folder):
    *seen, memory = list(lines(command, folder))[1:]
    figure("first step", next(at for at, line in seen if line.startswith("Train Epoch")), "s")
    figure("peak memory", memory, "MB")


def reach(percents, folder):
    run, notes, tests = lines(command, folder), {}, 0
    process = next(run)
    for item in run:
        found = isinstance(item, tuple) and re.match(r"Test Epoch.*Accuracy: ([0-9.]+)%", item[1])
        if not found:
            continue
        tests += 1
        while percents and float(found[1]) >= percents[0]:
            notes["%g" % percents[0]] = tests
            figure("%g %%" % percents[0], item[0], "s")
            percents = percents[1:]
        if not percents:
            process.terminate()
    if percents:
        sys.exit("%g %% was not reached in %d epochs" % (percents[0], tests))
    with open(NOTES, "w", encoding="utf-8") as file:
        json.dump(notes, file)


def compute(percents, folder):
    """The first and the last "Train Epoch" line and the test of a short run tell what each part takes."""
    with open(NOTES, encoding="utf-8") as file:
        notes = json.load(file)
    *seen, _ = list(lines(command, folder))[1:]
    places = [(at, int(re.search(r"\[(\d+)/", line)[1])) for at, line in seen if line.startswith("Train Epoch")]
    (first, _), (begin, from_), (end, to) = places[0], places[1], places[-1]
    image = (end - begin) / (to - from_)
    test = next(at for at, line in seen if line.startswith("Test Epoch")) - end
    for percent in percents:
        figure("%g %%" % percent, first + notes["%g" % percent] * (IMAGES * image + test), "s")
    print("computed: %.3f ms an image, a test %.1f s" % (1e3 * image, test), file=sys.stderr)


with tempfile.TemporaryDirectory() as folder:
    if wanted == "start":
        start(folder)
    else:
        computed = command[0] == "computed"
        command = command[computed:]
        (compute if computed else reach)([float(percent) for percent in wanted.split(",")], folder)
