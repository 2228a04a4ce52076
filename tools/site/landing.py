"""The first page of the site, made of README.md: its sentence, its command, four ranks (docs/moving/play.html) in a frame, the
recording of a terminal, the diff and the table of losses; the six ideas as cards; and for whom it is, below."""
import html
import json
import os
import re
import shutil
import subprocess

from diffs import ROOT, read

PLATE = ('<rect x="{x}" y="{y}" width="{w}" height="{w}" rx="8" style="fill:var(--rank-{r})"/>'
         '<text x="{tx}" y="{ty}" style="fill:var(--rank-{r}-on)">{r}</text>')


def plate(rank, x, y, w=34):
    return PLATE.format(r=rank, x=x, y=y, w=w, tx=x + w / 2, ty=y + w / 2 + 5)


def bar(x, y, width, colour, word="", height=16):
    return (f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="3" style="fill:var(--{colour})"/>' +
            (f'<text x="{x + width / 2}" y="{y + height - 4}" style="fill:var(--{colour}-on);font-size:11px">{word}</text>' if word else ""))


# Title, page, sentence, steps and drawing of each of the six ideas.
IDEAS = (
    ("01 One device", "01_single_gpu/README.html", "The trainer: data, model, loss, backward, optimizer, checkpoint.", ("01",),
     plate(0, 133, 20) + '<path class="l" d="M66 24h24v24h-24zM66 36h24M78 24v24M96 36h30m-6-5l6 5l-6 5M174 36h30m-6-5l6 5l-6 5M212 22v26h26M214 26c5 16 10 18 22 19"/>'),
    ("02 a to c: many devices", "02_multi_gpu_spawn/README.html", "`fork`, a process group, all-reduce, a sampler that deals out the rows.", ("02a", "02b", "02c"),
     plate(0, 86, 20) + plate(1, 180, 20) + '<path class="s" d="M124 30h50m-6-5l6 5l-6 5M176 44h-50m6-5l-6 5l6 5"/>'),
    ("02 The Reducer", "docs/02_multi_gpu_spawn.html#the-whole-step-the-reducer", "Gradients leave in buckets while the backward pass still runs.", ("02",),
     bar(22, 14, 76, "phase-forward", "forward") + bar(100, 14, 120, "phase-backward", "backward") + bar(246, 14, 30, "phase-optimizer") +
     "".join(bar(x, 42, 32, f"bucket-{i}", i) for i, x in enumerate((140, 174, 212)))),
    ("03 A launcher", "03_torchrun_env/README.html", "Five environment variables, and the program that sets them. Also the real torchrun.", ("03",),
     '<rect class="l" x="52" y="22" width="86" height="30" rx="8"/><text x="95" y="41">launcher</text><path class="l" d="M140 37c20 0 16 -20 36 -20M140 37c20 0 16 20 36 20"/>' +
     plate(0, 180, 4, 26) + plate(1, 180, 44, 26) + '<text x="243" y="22">RANK=0</text><text x="243" y="62">RANK=1</text>'),
    ("04 Several nodes", "04_slurm_multinode/README.html", "Slurm, Open MPI, ranks per node, data on each node's own disk.", ("04",),
     '<rect class="l" x="40" y="9" width="96" height="56" rx="10"/><rect class="l" x="164" y="9" width="96" height="56" rx="10"/><path class="l" d="M136 37h28"/>' +
     plate(0, 49, 20) + plate(1, 93, 20) + plate(2, 173, 20) + plate(3, 217, 20)),
    ("05 Fault tolerance", "05_fault_tolerance/README.html", "Snapshots, exact resume, a stop that all ranks agree on.", ("05",),
     bar(24, 14, 176, "rank-0") + bar(116, 44, 160, "rank-0") + '<path class="f" d="M208 16l12 12m0-12l-12 12"/><path class="l" stroke-dasharray="3 3" d="M116 6v62"/>'))


def inline(markdown):
    """Code, bold, emphasis and links of a sentence of the README, as HTML."""
    text = html.escape(markdown, quote=False)
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", text)
    text = re.sub(r"\[([^]]*)\]\(([^)#]*?)(?:\.md)?(#[^)]*)?\)", lambda link: f'<a href="{link[2].removeprefix("src:").removesuffix(".html")}.html{link[3] or ""}">{link[1]}</a>', text)
    text = re.sub(r"\*\*([^*]*)\*\*", r"<b>\1</b>", text)
    return re.sub(r"(?<!\w)\*([^*\s][^*]*)\*", r"<em>\1</em>", text)


def section(readme, title):
    return re.search(rf"^## {re.escape(title)}\n\n(.*?)(?=^## )", readme, re.M | re.S)[1]


def sentences(part):
    """The paragraphs of a section: not its tables, blocks and marks."""
    return [" ".join(p.split("\n")) for p in re.sub(r"^```.*?^```$|<!--.*?-->|^\|.*?$", "", part, flags=re.M | re.S).split("\n\n") if p.strip()]


def rows(part):
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in part.split("\n") if line.startswith("|") and "---" not in line]


def same(part):
    """The table of losses as cards, with a sign between two: equal."""
    out = []
    for name, *losses in rows(part)[1:]:
        ranks = re.match(r"(\d) rank", name)
        plates = "".join(f'<span style="background:var(--rank-{r});color:var(--rank-{r}-on)">{r}</span>' for r in range(int(ranks[1]) if ranks else 0))
        out.append(f'<div class="card"><p class="plates" aria-hidden="true">{plates or "<span class=torch>train.py</span>"}</p><h3>{name}</h3><ol>' +
                   "".join(f"<li>{loss}</li>" for loss in losses) + "</ol></div>")
    return '<i aria-hidden="true">=</i>'.join(out)


def cards(changed):
    """The six ideas. Below each: the lines it changes."""
    out = []
    for name, page, sentence, steps, drawing in IDEAS:
        sizes = " + ".join(str(changed[step]) for step in steps if step in changed)
        out.append(f'<li><a class="card" href="{page}"><svg viewBox="0 0 300 74" aria-hidden="true">{drawing}</svg>'
                   f'<h3>{name}</h3><p>{inline(sentence)}</p><p class="foot"><code>make {name[:2]}</code><b>{f"+ {sizes} lines" if sizes else "the start"}</b></p></a></li>')
    return "\n".join(out)


def picture_address(name):
    """Of a picture of docs/moving: from the top of the site, or whole where SITE_URL says where that is."""
    address = os.environ.get("SITE_URL", "").rstrip("/")
    return f"{address}/docs/moving/{name}".lstrip("/")


def on_site(page):
    """A page of docs/moving: its links lead to pages of the site, and its picture has a whole address if the site has one."""
    page = page.replace('href="../../README.md"', 'href="../../index.html"')
    page = re.sub(r'(<a href="\.\./\w+)\.md"', r'\1.html"', page).replace('data-ranks="../../build/play/', 'data-ranks="')
    if os.environ.get("SITE_URL"):
        page = re.sub(r'(og:image" content=")(\w+.png)', lambda found: found[1] + picture_address(found[2]), page)
    return page


def repository(citation, remote):
    """Where the project lies for everybody to read: what CITATION.cff names, else git's remote if it is on the web; else ''."""
    named = re.search(r"^repository-code: *[\"']?(https?://[^\s\"']+)", citation, re.M)
    web = re.fullmatch(r"(https?://)(?:[^@/]*@)?([\w.-]+(?::\d+)?/[\w./~-]+?)(?:\.git)?/?", remote)
    ssh = re.fullmatch(r"(?:ssh://(?:[\w.-]+@)?([\w.-]+)(?::\d+)?/|[\w.-]+@([\w.-]+):)([\w./~-]+?)(?:\.git)?/?", remote)
    found = web[1] + web[2] if web else f"https://{ssh[1] or ssh[2]}/{ssh[3]}" if ssh else ""
    return named[1] if named else found


def source_address():
    """The repository, or '' where nothing says where it is."""
    command = ["git", "remote", "get-url", "origin"]
    remote = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip() if shutil.which("git") else ""
    return repository(read("CITATION.cff"), remote)


def first_picture():
    """Four ranks at work where the programs are compiled for a browser (make play); else the walk."""
    if os.path.exists(os.path.join(ROOT, os.environ.get("BUILD", "build"), "play/ranks.js")):
        return "play.html", "one&amp;program=02b&amp;n=4&amp;lr=0.1&amp;batch=8", "Train on four ranks, here: strike out a line, and say what will happen", "With all programs, and hashes"
    return "walk.html", "one&amp;step=02b&amp;change=2", "From 01 to 05: each change of the code, and what it adds", "From 01 to 05, as a page to scroll"


def page(readme, steps):
    """README.md, with links for the site, as the first page; without its contents lists."""
    what, idea = re.search(r"^\*\*(.*?): (.*?)\*\*$", readme, re.M | re.S).groups()
    promise = re.search(r"\*\*\n\n(.*?)\n\n", readme, re.S)[1].replace("\n", " ")
    command, setup = re.search(r"^```sh\n(.*?)\n```\n\n(.*?) New here\?", readme, re.M | re.S).groups()
    source = source_address()
    command = command.replace("ADDRESS", source or "ADDRESS")
    one = section(readme, "One line makes it data parallel")
    equal = section(readme, "1 = 2 = 4 ranks = PyTorch")
    first_equal, last_equal = sentences(equal)
    which = " and ".join(head.removeprefix("step ") for head in rows(equal)[0][1:])
    parts = sentences(section(readme, "Who is it for?"))
    shown = re.search(r"^<figure.*?$", one, re.M)[0]
    changed = {step.name: sum(len(hunk.changed()) for hunk in step.hunks) for step in steps}
    picture, state, title, whole = first_picture()
    about = idea[0].upper() + " ".join(idea[1:].split())
    shared = {"description": about, "property=og:title": " ".join(what.split()), "property=og:description": about,
              "property=og:image": picture_address("walk.png")}
    return f"""---
hide-toc: true
myst:
  html_meta: {json.dumps(shared)}
---
# {" ".join(what.split())}

<div class="landing lead"><div><p>{inline(about)}</p><p>{inline(promise)}</p>
<p class="buttons"><a href="docs/ten_minutes.html">Ten minutes</a> <a href="{html.escape(source) or "01_single_gpu/train.c.html"}">Source</a></p></div>
<div><div class="highlight-sh notranslate"><div class="highlight"><pre>{html.escape(command)}</pre></div></div><p>{inline(setup)}</p></div></div>
<figure class="landing walk card"><iframe src="docs/moving/{picture}#{state}" title="{title}"></iframe>
<figcaption><a href="docs/moving/{picture}">{whole}</a></figcaption></figure>
<div class="landing two"><div><h2 id="kill">Kill a rank: the same bytes</h2><p>A recording of a terminal. Two ranks have equal losses; then rank 1 is killed. The launcher starts both again, they resume from a snapshot, and the result is byte for byte that of a run without a fault.</p>
<p><a href="docs/05_fault_tolerance.html">How step 05 does it</a></p></div>
<img src="docs/cast.svg" alt="A terminal: two ranks have equal losses, rank 1 is killed, the job resumes from a snapshot and ends with the same bytes"></div>
<div class="landing two"><div><h2 id="one-line">One line makes it data parallel</h2><p>{inline(sentences(re.sub("^<figure.*?$", "", one, flags=re.M))[0])}</p>
<p><a href="diffs/02b.html">The whole diff, {changed["02b"]} lines, with reasons</a></p></div>
{shown}</div>
<div class="landing"><h2 id="same">1 = 2 = 4 ranks = PyTorch</h2><p>{inline(first_equal.rstrip(":"))}. The losses of steps {which}:</p>
<div class="equal">{same(equal)}</div>
<p>{inline(last_equal)} <a href="docs/proof.html">The proof</a></p></div>
<div class="landing two"><div><h2 id="mixed">Rank 0 in PyTorch, rank 1 in C</h2><p>Two ranks in PyTorch train. Then one of them is a program of this book, which speaks Gloo's protocol, and PyTorch doesn't notice: the lines are the same.</p>
<p><a href="beyond/gloo/README.html">What it has to say, and when</a></p></div>
<img src="docs/gloo.svg" alt="A terminal: a job of two ranks in PyTorch, then one of a rank in PyTorch and one in C; the losses are the same"></div>
<div class="landing"><h2 id="ideas">Six ideas</h2><p>Read the first program from top to bottom. From then on, read only what changes.</p>
<ol class="cards">{cards(changed)}</ol></div>
<div class="landing"><h2 id="moving">Pictures that move, from real runs</h2><ul class="moving">
<li><a href="docs/moving/play.html">Four ranks in your browser: the programs themselves</a></li>
<li><a href="docs/moving/ring.html">The ring, message by message</a></li>
<li><a href="docs/moving/schedule.html">Write the ring's schedule: a lab</a></li>
<li><a href="docs/moving/overlap.html">Overlap: drag the bucket size</a></li>
<li><a href="docs/moving/recover.html">Kill a rank, lose a node</a></li>
<li><a href="docs/moving/sampler.html">The sampler deals the rows</a></li>
<li><a href="docs/moving/walk.html">From 01 to 05</a></li></ul></div>
<div class="landing"><h2 id="next">Who is it for?</h2>
{"".join(f"<p>{inline(part)}</p>" for part in parts)}
<p><a href="README.html">All of the README</a> · <a href="docs/README.html">The book</a> · <a href="diffs/index.html">The diffs</a></p></div>
"""
