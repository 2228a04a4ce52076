"""The pictures that move (docs/moving) in a real browser, from files: what their scripts compute, keys, sizes.
Usage: moving.py FOLDER_FOR_SCREENSHOTS"""
import os
import struct
import subprocess
import sys

import chromium

PAGES = "file://" + os.path.abspath("docs/moving") + "/"


def shards(n, rank, epoch, *options):
    command = ["tools/shards", "--size", "22", "--world-size", str(n), "--rank", str(rank), "--epoch", str(epoch), *options]
    return [int(row) for row in subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()]


# What a page that is shared needs: a way home and to its chapter, a description, and a picture of 1200 x 630 that is there.
SHARED = """(() => {
    const said = (query) => document.querySelector(query).content, faults = [];
    if ([...document.querySelectorAll('nav a')].map((a) => a.getAttribute('href')).join() !== '../../README.md,../%s.md') faults.push('links');
    if (said('[name=description]') !== said('[property="og:description"]') || said('[name=description]').length < 60) faults.push('description');
    if (said('[property="og:title"]') !== document.title) faults.push('title');
    const size = (query) => parseFloat(getComputedStyle(document.querySelector(query)).fontSize);
    if (!(size('h1') >= 1.4 * size('h2') && size('h2') >= 1.14 * size('header p'))) faults.push('h1, h2 and text are too alike');
    return faults;
})()"""
CHAPTER = {"ring": "all_reduce", "sampler": "02_multi_gpu_spawn", "overlap": "02_multi_gpu_spawn", "recover": "05_fault_tolerance", "walk": "README", "play": "02_multi_gpu_spawn", "schedule": "all_reduce"}


def fits(page, name, folder):
    picture = page.evaluate("document.querySelector('[property=\"og:image\"]').content")
    with open("docs/moving/" + picture, "rb") as file:
        assert struct.unpack(">II", file.read(24)[16:]) == (1200, 630), picture
    for how in ({}, {"dark": True}, {"phone": True}, {"phone": True, "dark": True}):
        width, height, scale = (390, 844, 2) if "phone" in how else (1440, 900, 1)
        page.resize(width, height, scale, **how)
        page.screenshot(f"{folder}/{name}_{'_'.join(how) or 'light'}.png")
        assert page.evaluate(SHARED % CHAPTER[name]) == [], (name, how, page.evaluate(SHARED % CHAPTER[name]))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (name, how)


def ring(page, folder):
    page.open(PAGES + "ring.html#way=ring&n=4&at=2")
    fits(page, "ring", folder)
    # Replayed, the messages of each algorithm end with the sum of all on all; the ring sends 2 (n - 1) / n of the array.
    for way in ("ring", "doubling", "star"):
        for n in range(2, 9):
            page.evaluate(f"choose('{way}', {n})")
            assert page.evaluate("stops.at(-1).have.every((own) => own.every((bits) => bits === (1 << n) - 1))"), (way, n)
            assert page.evaluate("stops.slice(1).every((stop) => { watched = stop.moves[0].rank; "
                                 "return [...$('code').children].some((l) => marked(stop).some((p) => p.test(l.textContent))); })"), (way, n)
            if way == "ring":
                sent = page.evaluate("stops.at(-1).sent.map((bytes) => bytes / (4 * data.elements))")
                assert all(abs(share - 2 * (n - 1) / n) < 1e-12 for share in sent), sent
    page.resize(1440, 900)
    page.open(PAGES + "ring.html")
    for key, code, then in (("5", 53, "n === 5"), ("s", 83, "way === 'star'"), ("End", 35, "at === stops.length - 1"),
                            ("ArrowLeft", 37, "at === stops.length - 2"), ("Home", 36, "at === 0"), ("ArrowRight", 39, "at === 1")):
        page.key(key, code)
        page.wait_for(then)
    for motion in ("reduce", "no-preference"):  # messages stand half way, or travel and have arrived
        page.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-reduced-motion", "value": motion}])
        page.evaluate("go(0, false); go(1)")
        page.wait_for("document.querySelectorAll('.got').length > 0 && "
                      f"(document.querySelectorAll('.move').length > 0) === {str(motion == 'reduce').lower()}")


def sampler(page, folder):
    page.open(PAGES + "sampler.html#n=4&epoch=1&round=6")
    fits(page, "sampler", folder)
    for n in range(1, 9):
        for epoch in (0, 3):
            for mark, options in (("", ()), ("&drop", ("--drop-last",)), ("&plain", ("--no-shuffle",))):
                page.evaluate(f"history.replaceState(0, '', '#n={n}&epoch={epoch}{mark}'); show()")
                dealt = page.evaluate("Array.from({length: n}, (_, r) => share(r).map((c) => c.row))")
                assert dealt == [shards(n, rank, epoch, *options) for rank in range(n)], (n, epoch, mark)
    for mark, says in (("own", "✕"), ("forgot&epoch=2", "!"), ("drop", "left out"), ("", "came again")):
        page.evaluate(f"history.replaceState(0, '', '#n=4&round=22&{mark}'); show()")
        assert says in page.evaluate("$('verdict').textContent"), mark
    page.evaluate("history.replaceState(0, '', '#n=4'); show()")  # makes no event, which might come after the key
    for key, code, then in (("ArrowRight", 39, "round === 1"), ("3", 51, "n === 3 && round === 0"), ("e", 69, "epoch === 1"),
                            ("ArrowRight", 39, "round === 1"), ("ArrowLeft", 37, "round === 0")):
        page.key(key, code)
        page.wait_for(then)


# Words that lie over a point of the plot, or over other words of the same drawing.
LIE_OVER = """['#plot', '#lanes'].flatMap((drawing) => {
    const boxes = (what) => [...document.querySelectorAll(`${drawing} ${what}`)].map((it) => [it.textContent || 'point', it.getBoundingClientRect()]);
    const over = (a, b) => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 2 && b.top < a.bottom - 2;
    const words = boxes('text'), others = [...words, ...boxes('circle')];
    return words.flatMap(([word, box], i) => others.slice(i + 1).filter(([, other]) => over(box, other)).map(([other]) => `${word} and ${other}`));
})"""


def overlap(page, folder):
    page.open(PAGES + "overlap.html#cap=1&rate=1")
    fits(page, "overlap", folder)
    # A legend names the colours, and the first bar has its name though it is narrow; no words lie over points.
    legend = page.evaluate("document.querySelector('.stage .legend').textContent")
    assert all(word in legend for word in ("forward", "backward", "optimizer", "bucket", "exposed")), legend
    for phone in (False, True):
        page.resize(390 if phone else 1440, 844 if phone else 900, phone=phone)
        for cap in (25, 1, 0.05):
            page.evaluate(f"set({cap}, 1, 2)")
            assert page.evaluate("[...document.querySelectorAll('#lanes text')].map((t) => t.textContent).filter((t) => t.startsWith('c') && t !== 'computes')[0]") == "conv1", (phone, cap)
            assert page.evaluate(LIE_OVER) == [], (phone, cap, page.evaluate(LIE_OVER))
    # The page plans the buckets that the Reducer planned (DDP_LOG=bucket), and the limits of its formula are right.
    assert page.evaluate("Object.entries(data.planned).every(([cap, planned]) => JSON.stringify(planned) === "
                         "JSON.stringify(plan(+cap).map((b) => [b.parameters.at(-1), b.parameters[0]])))")
    one, slow, fast = (page.evaluate(f"step({cap}, {rate}, 2)") for cap, rate in ((100, 3), (1, 0.3), (0.01, 1e9)))
    assert len(one["buckets"]) == 2 and abs(fast["exposed"] - 50) < 1e-3  # the last bucket's latency
    bits = 8 * sum(b["bytes"] for b in slow["buckets"])
    assert abs(slow["buckets"][-1]["to"] - slow["buckets"][0]["complete"] - bits / 300 - 100) < 1  # never idle
    assert abs(slow["blocking"] - slow["computed"] - bits / 300 - 50 - page.evaluate("data.optimizer_us")) < 1
    page.evaluate("set(1, 1, 2)")
    for key, code, then in (("b", 66, "cap === 1.5"), ("n", 78, "rate === 1.5")):
        page.key(key, code)
        page.wait_for(then)


def recover(page, folder):
    page.open(PAGES + "recover.html#run=kill&at=30")
    fits(page, "recover", folder)
    # Each run makes all steps, a step made twice has the same loss, and the kept ones have those of a run without a fault.
    for name in page.evaluate("NAMES"):
        page.evaluate(f"choose('{name}')")
        kept = page.evaluate("attempts.flatMap((a) => a.steps).filter((s) => !s.lost).map((s) => [s.step, s.loss])")
        assert kept == [[i + 1, loss] for i, loss in enumerate(page.evaluate("data.straight"))], name
        assert page.evaluate("attempts.flatMap((a) => a.steps).every((s) => s.loss === data.straight[s.step - 1])"), name
        assert page.evaluate("attempts.length === 2 && attempts[1].resumed % 8 === 0 && attempts[1].steps[0].step === attempts[1].resumed + 1"), name
    for key, code, then in (("2", 50, "name === 'both'"), ("End", 35, "at === events.length - 1"), ("ArrowLeft", 37, "at === events.length - 2"),
                            ("Home", 36, "at === 0"), ("ArrowRight", 39, "at === 1"), (" ", 32, "playing !== 0")):
        page.key(key, code)
        page.wait_for(then)
    page.wait_for("playing === 0 && document.getElementById('bytes').textContent.startsWith('✓')")  # played to the end


def walk(page, folder):
    page.open(PAGES + "walk.html#step=02&change=4")
    fits(page, "walk", folder)
    # Every part of the drawing comes with a change that is there, and what is drawn grows from step to step.
    assert page.evaluate("[...document.querySelectorAll('[data-since]')].flatMap((g) => [g.dataset.since, g.dataset.until])"
                         ".filter((place) => reached(place) < 0)") == []
    grown = page.evaluate("names.map((name) => { at = stops.findLastIndex((stop) => stop.step === name); show(); "
                          "return document.querySelectorAll('.on > *').length; })")
    assert grown == sorted(grown) and len(set(grown)) == 8, grown
    # The changes are those of the diffs that a terminal shows.
    for step in page.evaluate("data.steps"):
        shown = subprocess.run(["tools/stepdiff.sh", step["name"]], check=True, capture_output=True, text=True).stdout.splitlines()[2:]
        assert [line for hunk in step["hunks"] for line in hunk["lines"]] == [line for line in shown if line[:2] != "@@"], step["name"]
        assert all(hunk["why"] for hunk in step["hunks"]), step["name"]
    for phone in (False, True):
        page.resize(390 if phone else 1440, 844 if phone else 900, phone=phone)
        page.evaluate("go(0)")
        for key, code, then in (("ArrowRight", 39, "stops[at].step === '02a' && stops[at].number === 1"), ("5", 53, "stops[at].step === '02' && stops[at].key >= 0"),
                                ("ArrowLeft", 37, "stops[at].step === '02' && stops[at].key < 0"), ("End", 35, "at === stops.length - 1"), ("Home", 36, "at === 0")):
            page.key(key, code)
            page.wait_for(then)
        page.evaluate("stops[20].element.scrollIntoView()")  # as by hand
        page.wait_for("at === 20")
    # A step's button leads to a change that the drawing shows; 02a is two ranks.
    for step, ranks in (("02a", 2), ("02b", 2), ("02c", 2), ("02", 2), ("03", 2), ("04", 4), ("05", 4)):
        page.evaluate(f"[...$('rail').children].find((b) => b.textContent === '{step}').click()")
        assert page.evaluate("[document.querySelectorAll('.on > .b').length, document.querySelectorAll('.on.new').length > 0]") == [ranks, True], step
    # In a frame: one change at a time, without scrolling; the steps' buttons lead to their key changes.
    page.open("about:blank")
    page.open(PAGES + "walk.html#one&step=02&change=2")
    for width, height in ((1200, 560), (358, 600)):
        page.resize(width, height)
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight && "
                             "[...$('story').children].filter((e) => e.checkVisibility()).length === 2")
        for step, line in (("02b", "all_reduce(pg"), ("05", "snapshots_resume(")):
            page.evaluate(f"[...$('rail').children].find((b) => b.textContent === '{step}').click()")
            assert page.evaluate("""(() => { const pre = stops[at].element.lastChild, box = pre.getBoundingClientRect();
                return [...pre.children].some((l) => l.textContent.includes('%s') && l.getBoundingClientRect().bottom <= box.bottom + 1); })()""" % line), step
        page.evaluate("go(3)")
        page.evaluate("$('next').click()")
        assert page.evaluate("at") == 4
        page.key("ArrowLeft", 37)
        page.wait_for("at === 3")


def ended(table):
    """What each rank has at the end, computed here: {(rank, block): how often each rank's numbers}."""
    have = {(rank, block): [int(r == rank) for r in range(4)] for rank in range(4) for block in range(4)}
    for step, row in enumerate(table):
        sent = [list(have[rank, block]) for rank, (block, _) in enumerate(row)]
        for rank, (block, to) in enumerate(row):
            have[to, block] = [a + b for a, b in zip(have[to, block], sent[rank])] if step < 3 else sent[rank]
    return have


def schedule(page, folder):
    page.open(PAGES + "schedule.html")
    fits(page, "schedule", folder)
    assert page.evaluate("$('go').disabled"), "it runs an empty table"
    right = [[[(rank + 3 - step) % 4, (rank + 1) % 4] for rank in range(4)] for step in range(6)]  # tcp_algorithms.c
    tables = [right]
    for step, rank, block, to in ((0, 0, 1, 1), (2, 1, 0, 2), (3, 3, 0, 0), (5, 2, 3, 0), (1, 0, 2, 3), (4, 1, 3, 3)):
        wrong = [[list(message) for message in row] for row in right]
        wrong[step][rank] = [block, to]
        tables.append(wrong)
    for table in tables:
        page.evaluate("[...$('table').rows].forEach((row, s) => [...row.querySelectorAll('td')].forEach((cell, r) => "
                      f"[0, 1].forEach((i) => {{ cell.children[i].value = {table}[s][r][i]; }}))); show()")
        page.evaluate("run()")
        said, have = page.evaluate("$('now').textContent"), ended(table)
        faults = [(rank, block, whose, counts[whose]) for (rank, block), counts in have.items() for whose in range(4) if counts[whose] != 1]
        if faults:
            rank, block, whose, count = faults[0]
            assert said.startswith(f"✕ At the end block {block} on rank {rank} {'has' if count else 'lacks'} rank {whose}'s numbers"), (said, faults)
        else:
            assert said.startswith("✓"), (table, said)
    page.evaluate("$('table').rows[1].querySelector('select').focus()")  # by keys
    page.key("ArrowDown", 40)
    page.wait_for("document.activeElement.value !== ''")


def main():
    os.makedirs(sys.argv[1], exist_ok=True)
    with chromium.Page() as page:
        ring(page, sys.argv[1])
        sampler(page, sys.argv[1])
        overlap(page, sys.argv[1])
        recover(page, sys.argv[1])
        walk(page, sys.argv[1])
        schedule(page, sys.argv[1])
        bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown"]
        assert not bad, bad


if __name__ == "__main__":
    main()
