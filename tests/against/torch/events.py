"""Our event files as TensorBoard reads them, beside what the JSON files of the same run say."""
import glob
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request

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


class Page:
    """The real page over a folder, with one of its two readers, for `with`; asks for JSON."""

    def __init__(self, fast):
        self.words = [sys.executable, "-m", "tensorboard.main", "--logdir", metrics, "--port", "0", "--load_fast", fast]

    def __enter__(self):
        self.process = subprocess.Popen(self.words, stderr=subprocess.PIPE, text=True)
        self.url = next(found[0] for found in (re.findall(r"http://\S+:\d+/", line) for line in self.process.stderr) if found)
        return self

    def __exit__(self, *_):
        self.process.terminate()
        self.process.communicate(timeout=300)

    def ask(self, path, message=None):
        body = None if message is None else json.dumps(message).encode()
        request = urllib.request.Request(self.url + "data/plugin/" + path, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)


def settings():
    """Two runs side by side in the HParams tab, and where their ranks were in the Text tab."""
    for lr, name in ("0.02", "a"), ("0.005", "b"):
        subprocess.run([*command("--epochs", "1", "--lr", lr), "--metrics-dir", os.path.join(metrics, name)],
                       check=True, stdout=subprocess.DEVNULL)
    for fast in "false", "true":
        with Page(fast) as page:
            deadline = time.monotonic() + 300
            while len(page.ask("text/tags")) < 2:  # it reads the files after it has begun to answer
                assert time.monotonic() < deadline
                time.sleep(0.5)
            experiment = page.ask("hparams/experiment", {})
            infos = {info["name"]: info for info in experiment["hparamInfos"]}
            assert [name for name, info in infos.items() if info.get("differs")] == ["lr"], infos
            assert infos["lr"]["type"] == "DATA_TYPE_FLOAT64" and infos["model"]["type"] == "DATA_TYPE_STRING"
            assert "metrics-dir" not in infos and len(infos) > 20
            assert {"train/loss", "test/accuracy"} <= {info["name"]["tag"] for info in experiment["metricInfos"]}
            groups = page.ask("hparams/session_groups", {"startIndex": 0, "sliceSize": 10, "allowedStatuses": ["STATUS_UNKNOWN"]})
            runs = {group["sessions"][0]["name"]: group["hparams"] for group in groups["sessionGroups"]}
            assert {name: run["lr"] for name, run in runs.items()} == {"a": 0.02, "b": 0.005}, runs
            assert all((run["world-size"], run["optimizer"]) == (2, "sgd") for run in runs.values())
            assert page.ask("text/tags") == {"a": ["topology"], "b": ["topology"]}
            text = page.ask("text/text?run=a&tag=topology")[0]["text"]
            cells = re.findall(r"<td>(.*?)</td>", text)
            assert len(cells) == 4 and cells[::2] == ["0", "1"] and "cpu, cores" in cells[1], text


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


{"run": run, "resume": resume, "settings": settings, "live": live}[sys.argv[1]]()
