"""What the ranks of a run wrote with DDP_JOURNAL (extras/watch/README.md lists the lines)."""
import re
from collections import namedtuple
from pathlib import Path

Entry = namedtuple("Entry", "word about values")  # "start", ["5", "all_reduce"], {"count": "10", ...}
Batch = namedtuple("Batch", "rows trained entries")  # the entries up to the next batch or step
Step = namedtuple("Step", "number epoch rows entries values")  # entries: those since the step before


def parse(line):
    word, *rest = line.split()
    return Entry(word, [w for w in rest if "=" not in w], dict(w.split("=", 1) for w in rest if "=" in w))


class Journal:
    """One start of one rank."""

    def __init__(self, entries):
        self.entries = entries
        self.pid = int(entries[0].values["pid"])
        self.steps, self.evaluations = [], []  # an evaluation is a list of batches
        piece, was_trained = [], True
        for number, entry in enumerate(entries):
            if entry.word == "batch":
                after = self.until(number + 1, ("batch", "step", "end"))
                batch = Batch([int(row) for row in entry.values["rows"].split(",")],
                              any(e.word == "backward" for e in after), after)
                if not batch.trained:
                    if was_trained:
                        self.evaluations.append([])
                    self.evaluations[-1].append(batch)
                was_trained = batch.trained
                entry = batch if batch.trained else None
            if isinstance(entry, Entry) and entry.word == "step":
                rows = [b.rows for b in piece if isinstance(b, Batch)]
                self.steps.append(Step(int(entry.about[0]), int(entry.values["epoch"]), sum(rows, []),
                                       [e for e in piece if isinstance(e, Entry)], entry.values))
                piece = []
            elif entry is not None:
                piece.append(entry)

    def until(self, number, words):
        after = []
        while number < len(self.entries) and self.entries[number].word not in words:
            after.append(self.entries[number])
            number += 1
        return after

    def all(self, *words):
        return [entry for entry in self.entries if entry.word in words]

    def one(self, word):
        """The values of the first such entry; none: {}."""
        return next((entry.values for entry in self.entries if entry.word == word), {})

    def epochs(self):
        """{epoch: the rows of all its steps, in order}"""
        rows = {}
        for step in self.steps:
            rows.setdefault(step.epoch, []).extend(step.rows)
        return rows

    def collectives(self):
        """The calls on the group of all ranks, as text: "all_reduce of 10 float32 (mean)"."""
        return [describe(entry) for entry in self.all("start") if entry.values["group"] == "all"]

    def waits_for(self):
        """The collective that the last line waits for; or None."""
        last = self.entries[-1]
        if last.word != "wait":
            return None
        return next((describe(e) for e in reversed(self.all("start")) if e.about[0] == last.about[0]), None)


def describe(start):
    values = start.values
    if start.about[1] == "barrier":
        return "barrier"
    op = f" ({values['op']})" if "op" in values else ""
    return f"{start.about[1]} of {values['count']} {values['type']}{op}"


def read(folder):
    """{rank: [its starts]}"""
    ranks = {}
    for path in Path(folder).glob("rank*.txt"):
        starts = []
        for line in path.read_text().splitlines():
            if line.startswith("open "):
                starts.append([])
            starts[-1].append(parse(line))
        ranks[int(re.search(r"rank(\d+)", path.name).group(1))] = [Journal(entries) for entries in starts]
    return dict(sorted(ranks.items()))
