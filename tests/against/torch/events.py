"""Our event files as TensorBoard reads them, beside what the JSON files of the same run say."""
import glob
import json
import math
import os
import subprocess
import sys
import tempfile
import time

from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.backend.event_processing.plugin_event_accumulator import (
    EventAccumulator as PageAccumulator)

HERE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
work = tempfile.mkdtemp()
metrics = os.path.join(work, "metrics")


def command(*options):
    return [os.path.join(HERE, "03_torchrun_env", "run.sh"), "2", "--metrics-dir", metrics,
            "--checkpoint-dir", os.path.join(work, "checkpoints"), *options]


def train(*options):
    subprocess.run(command(*options), check=True, stdout=subprocess.DEVNULL)


def curves():
    events = EventAccumulator(metrics)
    events.Reload()
    return {tag: {e.step: e.value for e in events.Scalars(tag)} for tag in events.Tags()["scalars"]}


def loss_steps():
    """As the page has them (its Python reader), and as those who take each file by itself do."""
    page = PageAccumulator(metrics)
    page.Reload()
    alone = []
    for file in sorted(glob.glob(os.path.join(metrics, "events.out.tfevents.*"))):
        events = EventAccumulator(file)
        events.Reload()
        alone += [e.step for e in events.Scalars("train/loss")] if events.Tags()["scalars"] else []
    assert [e.step for e in page.Tensors("train/loss")] == alone, (page.Tensors("train/loss"), alone)
    return alone


def lines(name):
    with open(os.path.join(metrics, name)) as file:
        return [json.loads(line) for line in file]


def close(a, b):
    return math.isclose(a, b, rel_tol=1e-6)


def check_against_json(found):
    ranks = [{line["step"]: line["loss"] for line in lines(f"rank{rank}.jsonl")} for rank in (0, 1)]
    for step, loss in found["train/loss"].items():
        assert close(loss, (ranks[0][step] + ranks[1][step]) / 2), (step, loss)
    tests = lines("test.jsonl")
    assert list(found["test/accuracy"]) == [line["step"] for line in tests]
    for line in tests:
        assert close(found["test/accuracy"][line["step"]], line["accuracy"])
        assert close(found["test/loss"][line["step"]], line["loss"])


def run():
    train("--epochs", "2", "--lr", "0.02")
    found = curves()
    assert list(found["train/loss"]) == [1, 10, 20, 30, 40], found["train/loss"]
    assert all(close(lr, 0.02) for lr in found["train/lr"].values())
    assert all(0 < norm < 1000 for norm in found["train/gradient_norm"].values())
    assert all(speed > 10 for speed in found["speed/samples_per_second"].values())
    phases = [found["time/" + name] for name in ("data", "forward", "backward", "wait", "optimizer")]
    for step in (10, 20, 30, 40):  # they leave little of the time
        assert 50 < sum(phase[step] for phase in phases) <= 100.5, step
    check_against_json(found)


def resume():
    train("--epochs", "3", "--save-every", "1")
    time.sleep(1.1)  # a file's name has the second in which it was begun
    train("--epochs", "3", "--resume", os.path.join(work, "checkpoints", "epoch_1.safetensors"), "--lr", "0.005")
    assert len(glob.glob(os.path.join(metrics, "events.out.tfevents.*"))) == 2
    found = curves()
    assert list(found["train/loss"]) == [1, 10, 20, 30, 40, 50, 60]
    assert close(found["train/lr"][20], 0.01) and close(found["train/lr"][30], 0.005)
    check_against_json(found)
    assert loss_steps() == [1, 10, 20, 30, 40, 50, 60]
    time.sleep(1.1)
    train("--epochs", "1")  # from the beginning, in the same folder
    found = curves()
    assert list(found["train/loss"]) == loss_steps() == [1, 10, 20]
    check_against_json(found)


def live():
    process = subprocess.Popen(command("--epochs", "1000"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 300
        found = {}
        while 20 not in found.get("train/loss", {}) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.2)
            found = curves() if os.path.isdir(metrics) else {}
        assert 20 in found["train/loss"], found
    finally:
        process.terminate()
        process.wait(300)


{"run": run, "resume": resume, "live": live}[sys.argv[1]]()
