#!/usr/bin/env python3
"""Usage: tools/moving/record.py [--check]      (or: make moving)

Records real runs, and puts the recordings into the pages of docs/moving. --check only compares: a fresh recording must
have the messages and rows of the one in the page; times differ from run to run. Exit status 1 if they differ."""
import gzip
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))
ELEMENTS = 840 * 1400  # about the gradients of the CNN; 2 to 8 ranks divide it
ROWS = 22  # of the sampler's page: 4 ranks do not divide them
ORDERS = 16  # of epochs and seeds


def output(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=120).stdout


# ---- ring.html ----

def steps_of(calls):
    """The step of each call of exchange: one more than the rank's call before, and the same as that of the calls at the
    other ends of its messages. calls[rank] = [{to, from, ...}]."""
    partner, taken = {}, {}
    for rank, own in enumerate(calls):
        for i, call in enumerate(own):
            if call["to"] >= 0:  # the receiver's first call for this rank that has no sender yet
                theirs = [j for j, other in enumerate(calls[call["to"]]) if other["from"] == rank]
                j = theirs[taken.get((rank, call["to"]), 0)]
                taken[rank, call["to"]] = taken.get((rank, call["to"]), 0) + 1
                partner[rank, i] = (call["to"], j)
    step = {(rank, i): i for rank, own in enumerate(calls) for i in range(len(own))}
    for _ in range(100):
        before = dict(step)
        for (rank, i) in step:
            if i > 0:
                step[rank, i] = max(step[rank, i], step[rank, i - 1] + 1)
        for one, other in partner.items():
            step[one] = step[other] = max(step[one], step[other])
        if step == before:
            return step, partner
    raise SystemExit("record.py: messages wait for each other")


def messages(algorithm, n):
    """Rows of [rank, to, block, step, adds, microseconds until it had arrived], as the page wants them."""
    calls = [[] for _ in range(n)]
    for line in output(BUILD + "/tools/moving/messages", algorithm, str(n), str(ELEMENTS)).splitlines():
        rank, to, sender, sent, count, received, adds, _, ended = map(int, line.split())
        calls[rank].append({"to": to, "from": sender, "sent": sent, "count": count, "received": received,
                            "adds": adds, "ended": ended})
    step, partner = steps_of(calls)
    blocks = n if algorithm == "ring" else 1
    rows = []
    for (rank, i), (to, j) in partner.items():
        call, theirs = calls[rank][i], calls[to][j]
        assert call["count"] == ELEMENTS // blocks and theirs["received"] in (call["sent"], -1), call
        rows.append([rank, to, call["sent"] // call["count"], step[rank, i], theirs["adds"], theirs["ended"]])
    return sorted(rows, key=lambda row: (row[3], row[0]))


def code(path, first, last):
    """The lines from one that begins with `first` to the next that is `last`, without the shared indentation."""
    text = open(os.path.join(ROOT, path), encoding="utf-8").read()
    found = re.search(rf"^{re.escape(first)}.*?^{re.escape(last)}$", text, re.M | re.S)
    return {"file": path, "line": text[:found.start()].count("\n") + 1, "text": found[0]}


def ring():
    algorithms = "common/comm/tcp/tcp_algorithms.c"
    return {
        "elements": ELEMENTS,
        "fields": ["rank", "to", "block", "step", "adds", "us"],
        "messages": {name: {str(n): messages(name, n) for n in range(2, 9)} for name in ("ring", "doubling", "star")},
        "code": {"ring": [code(algorithms, "static void go_round", "}"), code(algorithms, "void ring_all_reduce", "}")],
                 "doubling": [code(algorithms, "void doubling_all_reduce", "}")],
                 "star": [code("tools/moving/messages.c", "static void star_all_reduce", "}")]},
    }


# ---- sampler.html ----

def shards(n, rank, epoch, *options):
    return [int(row) for row in output("tools/shards", "--size", str(ROWS), "--world-size", str(n), "--rank", str(rank),
                                       "--epoch", str(epoch), *options).split()]


def sampler():
    with gzip.open(os.path.join(ROOT, "data/digits.csv.gz"), "rt") as file:
        digits = [[int(x) for x in next(file).split(",")] for _ in range(ROWS)]
    return {
        "rows": [{"label": digit[-1], "pixels": "".join("0123456789abcdefg"[x] for x in digit[:-1])} for digit in digits],
        "orders": [shards(1, 0, epoch) for epoch in range(ORDERS)],  # of seed + epoch
        "code": [code("common/data/sampler.c", "void sampler_set_epoch", "}"), code("common/data/sampler.c", "size_t sampler_next", "}")],
    }


# ---- the pages ----

PAGES = {"ring": ring, "sampler": sampler}
DATA = re.compile(r'(<script type="application/json" id="data">\n).*?(\n</script>)', re.S)


def without_times(data):
    for runs in data.get("messages", {}).values():
        for rows in runs.values():
            rows[:] = [row[:-1] for row in rows]
    return data


def main():
    check = sys.argv[1:] == ["--check"]
    if sys.argv[1:] and not check:
        sys.exit(__doc__)
    differ = 0
    for name, record in PAGES.items():
        path = os.path.join(ROOT, f"docs/moving/{name}.html")
        page = open(path, encoding="utf-8").read()
        data = record()
        if check:
            same = without_times(json.loads(DATA.search(page)[0].split("\n", 1)[1].rsplit("\n", 1)[0])) == without_times(data)
            print(f"docs/moving/{name}.html: {'as recorded now' if same else 'differs from a recording: make moving'}")
            differ |= not same
            continue
        text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
        with open(path, "w", encoding="utf-8") as file:
            file.write(DATA.sub(lambda old: old[1] + text + old[2], page))
    sys.exit(differ)


if __name__ == "__main__":
    main()
