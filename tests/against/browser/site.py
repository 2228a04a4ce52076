"""Usage: site.py SITE FOLDER      Looks at the pages of the site in headless Chromium, from files.

No page scrolls sideways at 390 and 1280 pixels; diffs stand side by side or unified; search, copy buttons and keys work;
pictures and colours follow light and dark; a page can be printed. Screenshots go to FOLDER."""
import base64, glob, json, os, re, sys
import chromium

# What is wider than the window, or than a box that does not scroll; code and tables may, in their own boxes.
WIDE = """(() => {
  const wide = document.documentElement.scrollWidth > innerWidth ? ['the page'] : [];
  for (const e of document.querySelectorAll('.content, .content *')) {
    if (e.closest('pre, .table-wrapper, svg, .headerlink, .back-to-top, .math') || !e.checkVisibility() || !e.textContent.trim() && e.tagName === 'SPAN') continue;
    const box = e.getBoundingClientRect();
    if (box.right > innerWidth + 1 && box.width > 0) wide.push(e.tagName + '.' + e.className + ': ' + e.textContent.slice(0, 40));
  }
  return wide.slice(0, 3);
})()"""
# Words that contrast less with their ground than WCAG AA asks for: 4.5.
PALE = """(() => {
  const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0.05);
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const pale = {};
  for (const e of document.querySelectorAll('body *')) {
    if (e.closest('svg') || !e.checkVisibility() || ![...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim())) continue;
    const [dark, bright] = [light(numbers(getComputedStyle(e).color)), light(ground(e))].sort((a, b) => a - b);
    if (bright / dark < 4.5) pale[e.tagName + '.' + e.className] = (bright / dark).toFixed(2) + ' ' + e.textContent.slice(0, 30);
  }
  return Object.entries(pale).slice(0, 5);
})()"""
# The words of a picture that leave the box around their middle, or cross another one, in this font.
LEAVE = """((font) => {
  const svg = document.documentElement, leave = [];
  svg.setAttribute('font-family', font);
  const boxes = [...svg.querySelectorAll('rect')].map((e) => e.getBBox());
  const area = (box) => box.width * box.height;
  for (const text of svg.querySelectorAll('text')) {
    if (!text.textContent.trim()) continue;
    const b = text.getBBox(), x = b.x + b.width / 2, top = b.y + 3, y = b.y + b.height / 2, bottom = b.y + b.height - 3, right = b.x + b.width;
    for (const r of boxes) {
      const inside = b.x > r.x && right < r.x + r.width && top > r.y && bottom < r.y + r.height;
      const apart = b.x >= r.x + r.width || right <= r.x || top >= r.y + r.height || bottom <= r.y;
      if (!inside && !apart) leave.push(text.textContent);
    }
  }
  return leave;
})"""
# The words of the page, not of its frames, that a visitor sees without scrolling: what has to be read first.
FIRST = """(() => {
  const words = [], walker = document.createTreeWalker(document.querySelector('.content'), NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const range = document.createRange();
    range.selectNode(node);
    const box = range.getBoundingClientRect(), shown = node.parentElement.checkVisibility({ visibilityProperty: true, opacityProperty: true });
    if (shown && box.height > 0 && box.top < innerHeight && !node.parentElement.closest('script, style')) words.push(...node.textContent.split(/\\s+/).filter((word) => /\\w/.test(word)));
  }
  return words;
})()"""
READING = 230 / 60  # words a second
LUMINANCE = "getComputedStyle(document.body).backgroundColor.match(/\\d+/g).reduce((a, b) => a + +b, 0) / 3"


class Site:
    def __init__(self, page, site, folder):
        self.page, self.site, self.folder = page, os.path.abspath(site), folder

    def open(self, path):
        self.page.open("file://%s/%s" % (self.site, path))

    def shot(self, name):
        self.page.screenshot("%s/site_%s.png" % (self.folder, name))

    def all_fit(self, pages):
        for path in pages:
            self.open(path)
            wide = self.page.evaluate(WIDE)
            assert not wide, (path, wide)
        print("%d pages fit" % len(pages), flush=True)

    def widths(self):
        pages = sorted(os.path.relpath(path, self.site) for path in glob.glob(self.site + "/**/*.html", recursive=True))
        sources = [path for path in pages if "." in os.path.basename(path)[:-5] or path.endswith("Makefile.html")]
        book = [path for path in pages if path not in sources]
        self.page.resize(1280, 800)
        self.all_fit(book[::6])
        self.page.resize(390, 844, phone=True)
        self.all_fit(book + sources[::40])

    def landing(self):
        """The first screen: sentence, command and the walk. Below: diff, losses, six cards, and last what was not run yet."""
        self.page.resize(1440, 900)
        self.open("index.html")
        places = self.page.evaluate("['h1', '.lead pre', '.walk iframe', '.rows.quoted .add', '.equal', '.cards'].map((q) => "
                                    "document.querySelector(q).getBoundingClientRect().bottom)")
        assert places == sorted(places) and places[2] < 900, places
        self.first_screen()
        said = self.page.evaluate("[...document.querySelectorAll('.landing p')].find((p) => /hasn't been run on a\\s+GPU yet/.test(p.textContent)).getBoundingClientRect().top")
        assert said > places[-1], "the benefit comes first"
        losses = self.page.evaluate("[...document.querySelectorAll('.equal ol')].map((ol) => [...ol.children].map((li) => li.textContent))")
        with open("README.md", encoding="utf-8") as file:
            table = [[cell.strip() for cell in row.split("|")] for row in re.findall(r"^\| (?:\d rank|PyTorch).*\|$", file.read(), re.M)]
        assert losses == [row[2:-1] for row in table] and len(losses) == 4, (losses, table)
        assert self.page.evaluate("document.querySelectorAll('.cards > li > a').length") == 6
        marks = self.page.evaluate("[...document.querySelectorAll('.landing p')].map((p) => p.textContent).filter((text) => /[*`]/.test(text))")
        assert not marks, f"marks of markdown that nobody should see: {marks}"
        self.shot("landing")

    def first_screen(self):
        """What has to be read before the first click, here and in README.md, takes 20 seconds at most."""
        with open("README.md", encoding="utf-8") as file:
            first = file.read().split("\n## ")[0]
        assert first.count("![") == 1 and "\n    ./setup.sh" in first, "a sentence, a picture and a command"
        readme = re.findall(r"\S*\w\S*", re.sub(r"!\[.*?\]\(.*?\)", "", first, flags=re.S))
        for name, words in ("index.html", self.page.evaluate(FIRST)), ("README.md", readme):
            print("first screen of %s: %d words, %.0f s" % (name, len(words), len(words) / READING))
            assert 10 < len(words) <= 20 * READING, (name, words)

    def themes(self):
        for dark in (False, True):
            self.page.resize(1280, 800, dark=dark)
            name = "dark" if dark else "light"
            self.open("docs/02_multi_gpu_spawn.html")
            assert (self.page.evaluate(LUMINANCE) < 80) == dark, name
            paper = self.page.evaluate("getComputedStyle(document.querySelector('svg.drawn rect')).fill")
            assert paper == ("rgb(24, 28, 35)" if dark else "rgb(255, 255, 255)"), paper
            self.open("docs/more_ddp.html")
            quoted = self.page.evaluate("getComputedStyle(document.querySelector('.rows.quoted .add')).backgroundColor")
            assert quoted == ("rgb(20, 53, 31)" if dark else "rgb(217, 245, 225)"), quoted
            self.open("docs/local_sgd.html")
            folded = "(() => { const d = document.querySelector('article details'); d.open = !d.open; return d.querySelector('.rows.quoted').checkVisibility(); })()"
            assert self.page.evaluate(folded) and not self.page.evaluate(folded)  # opened, then closed again
            self.open("docs/more_ddp.html")
            for path in ("index", "docs/02_multi_gpu_spawn", "docs/on_a_gpu", "diffs/02c", "02_multi_gpu_spawn/train.c", "docs/traps"):
                self.open(path + ".html")
                pale = self.page.evaluate(PALE)
                assert not pale, (name, path, pale)
            self.open("docs/02_multi_gpu_spawn.html")
            self.page.evaluate("document.querySelector('svg.drawn').scrollIntoView()")
            self.shot("chapter_" + name)
            self.open("diffs/02c.html")
            gone = self.page.evaluate("getComputedStyle(document.querySelector('.rows .del')).backgroundColor")
            assert gone == ("rgb(65, 33, 31)" if dark else "rgb(255, 227, 224)"), gone
            self.shot("diff_" + name)
        # The button chooses, whatever the system prefers: after auto comes light, or dark.
        self.open("docs/02_multi_gpu_spawn.html")
        seen = set()
        for _ in range(3):
            self.page.evaluate("document.querySelector('.theme-toggle-content button').click()")
            chosen = self.page.evaluate("document.body.dataset.theme")
            seen.add(chosen)
            dark = self.page.evaluate("getComputedStyle(document.querySelector('svg.drawn rect')).fill") == "rgb(24, 28, 35)"
            assert dark == (chosen != "light"), (chosen, dark)  # auto is dark here
        assert seen == {"auto", "light", "dark"}, seen

    def pictures(self):
        """Every word of a drawn picture stays in its box, in its first font and in the one that many machines have instead."""
        for path in sorted(glob.glob("docs/pictures/*.svg")):
            self.page.open("file://" + os.path.abspath(path))
            for font in ("DejaVu Sans", "Liberation Sans"):
                leave = self.page.evaluate("%s(%s)" % (LEAVE, json.dumps(font)))
                assert not leave, (path, font, leave)

    def diffs(self):
        place = "((q) => { const b = document.querySelector(q).getBoundingClientRect(); return [b.left, b.top, b.right]; })(%s)"
        hunk = "#hunk-4 .rows "
        for width, height, phone in ((1280, 800, False), (390, 844, True)):
            self.page.resize(width, height, phone=phone)
            self.open("diffs/02c.html")
            old, new, reason = (self.page.evaluate(place % json.dumps(q)) for q in
                                (hunk + ".del", hunk + ".add", "#hunk-4 .reason"))
            if phone:
                assert old[0] == new[0] and new[1] > old[1] and reason[1] < old[1], "not unified"
                self.page.evaluate("document.getElementById('hunk-4').scrollIntoView()")
                self.shot("diff_phone")
            else:
                assert new[0] >= old[2] - 1 and new[1] == old[1] and reason[0] >= new[2], "not side by side"
        assert self.page.evaluate("document.querySelectorAll('#hunk-4 mark').length") > 0
        # A number leads to the line in the file.
        link = self.page.evaluate("document.querySelector('#hunk-4 .add a.line').href")
        text = self.page.evaluate("document.querySelector('#hunk-4 .add code').innerText.slice(1)")
        self.page.open(link)
        line = self.page.evaluate("document.querySelector(':target').innerText")
        assert text.strip() and line.replace("\n", "").endswith(text), (text, line)

    def reading(self):
        """A diff's page: its key place is marked and near, headers and comments are folded, all lines come when asked for."""
        self.page.resize(1280, 800)
        self.open("diffs/02b.html")
        seen = "(q) => [...document.querySelectorAll(q)].filter((e) => e.checkVisibility()).length"
        assert self.page.evaluate("document.querySelector('.key .rows-of').innerText.includes('all_reduce(pg, model->grads')")
        assert "process_group.h" not in self.page.evaluate("[...document.querySelectorAll('.rows')].filter((e) => e.checkVisibility()).map((e) => e.innerText).join()")
        before = self.page.evaluate(f"({seen})('.rows .right')")
        self.page.evaluate("document.querySelector('button.all').click()")
        after = self.page.evaluate(f"({seen})('.rows .right')")
        with open("02_multi_gpu_spawn/train_b_all_reduce.c", encoding="utf-8") as file:
            assert before < after == len(file.readlines()), (before, after)
        self.page.evaluate("document.querySelector('button.all').click()")
        assert self.page.evaluate(f"({seen})('.rows .right')") == before
        self.open("diffs/02b.html")
        for key, code, place in (("n", 78, 1), ("n", 78, 2), ("n", 78, 3), ("p", 80, 2), ("p", 80, 1), ("k", 75, 2)):
            self.page.key(key, code)
            assert self.page.evaluate("document.activeElement.id") == f"hunk-{place}", (key, place)
            assert self.page.evaluate("(() => { const top = document.activeElement.getBoundingClientRect().top; return top >= 0 && top < innerHeight; })()"), key
        self.page.evaluate("[...document.querySelectorAll('.switch a')].find((a) => a.textContent === 'PyTorch').click()")
        self.page.wait_for("location.pathname.endsWith('diffs/twin-02b.html') && document.readyState === 'complete'")
        assert "dist.all_reduce" in self.page.evaluate("document.querySelector('.key .rows-of').innerText")
        self.open("diffs/05.html")
        assert self.page.evaluate("document.querySelectorAll('#hunk-5 .reason > p').length") > 4
        # The map: a diff stands right of the one that made the program that it starts from.
        self.open("diffs/index.html")
        at = self.page.evaluate("Object.fromEntries([...document.querySelectorAll('.map a')].map((a) => "
                                "[a.getAttribute('href'), [+a.querySelector('rect').getAttribute('x'), +a.querySelector('rect').getAttribute('y')]]))")
        for left, right in (("02a", "02b"), ("02", "03"), ("04", "05"), ("02", "zero1"), ("zero1", "zero2"), ("uneven", "join"), ("batchnorm", "syncbn")):
            assert at[left + ".html"][0] < at[right + ".html"][0], (left, right)
        assert at["zero1.html"][1] != at["03.html"][1] and len(at) == 34, at
        self.shot("map")

    def sources(self):
        """A source's page: outline, includes and names that lead to what they name, and the diffs that touch it."""
        self.open("02_multi_gpu_spawn/train.c.html")
        links = self.page.evaluate("Object.fromEntries([...document.querySelectorAll('.source a:not(.line)')].map((a) => [a.textContent, a.href]))")
        assert links['"common/comm/ddp.h"'].endswith("common/comm/ddp.h.html"), links
        touched = self.page.evaluate("[...document.querySelectorAll('.ways a')].map((a) => a.textContent)")
        assert {"02", "03", "dp", "zero1"} <= set(touched), touched
        if "run_batch" not in links:
            print("no ctags: no outline")
            return
        for name in ("reducer_finalize", "run_batch", "Reducer"):
            self.page.open(links[name])
            assert re.search(rf"\b{name}\b", self.page.evaluate("document.querySelector(':target').innerText")), name
        self.open("common/comm/ddp.c.html")
        self.page.evaluate("[...document.querySelectorAll('.toc-tree a')].find((a) => a.textContent === 'plan_buckets').click()")
        self.page.wait_for("document.querySelector(':target')?.innerText.includes('static void plan_buckets(')")
        self.shot("source")

    def blocks(self):
        """Commands look typed, outputs printed, diffs and sources different from both; a prompt is not copied."""
        self.page.resize(1280, 800)
        self.open("docs/answers/02_multi_gpu_spawn.html")
        look = "(q) => { const s = getComputedStyle(document.querySelector(q)); return [s.backgroundColor, s.borderLeftWidth, s.color].join(); }"
        kinds = [self.page.evaluate(f"({look})('{q}')") for q in (".highlight-sh .highlight", ".highlight-text .highlight", ".rows.quoted .add", ".rows.code")]
        assert len(set(kinds)) == 4, kinds
        assert self.page.evaluate("getComputedStyle(document.querySelector('.typed'), '::before').content") == '"$ "'
        place = self.page.evaluate("(() => { const q = document.querySelector('figure.quote:has(.code)'); "
                                   "return [q.querySelector('figcaption a').href, q.querySelector('code').innerText]; })()")
        self.page.open(place[0])
        assert self.page.evaluate("document.querySelector(':target').innerText").rstrip().endswith(place[1].rstrip()), place

    def quiz(self):
        """A prediction first: the experiment is folded until one is there, and then says whether it is right; a number or a word."""
        self.page.resize(390, 844)
        answer = """((number, word) => {
          const form = document.querySelectorAll('.quiz form')[number - 1];
          form.elements.answer.value = word;
          form.querySelector('button').click();
          return [form.querySelector('details').open, form.querySelector('.verdict').textContent];
        })"""
        for page, number, word, due in (("02_multi_gpu_spawn", 1, "", [False, "The experiment says 5."]),
                                        ("02_multi_gpu_spawn", 1, "no idea", [False, "The experiment says 5."]),
                                        ("02_multi_gpu_spawn", 1, "about 7", [True, "You said about 7, but the experiment says 5."]),
                                        ("02_multi_gpu_spawn", 4, "6.39", [True, "You said 6.39, the experiment says 6.4: right."]),
                                        ("03_torchrun_env", 4, "no", [True, "You said no, but the experiment says yes."]),
                                        ("03_torchrun_env", 4, "yes", [True, "You said yes, the experiment says yes: right."])):
            self.open(f"docs/{page}.html")
            said = self.page.evaluate(f"{answer}({number}, {json.dumps(word)})")
            assert said == due, (page, number, word, said)
        self.open("docs/02_multi_gpu_spawn.html")
        self.page.evaluate(f"{answer}(2, '3')")
        assert "rank 3: 5 8 1" in self.page.evaluate("document.querySelectorAll('.quiz form')[1].innerText")
        self.page.evaluate("document.querySelector('.quiz').scrollIntoView({ block: 'start', behavior: 'instant' })")
        self.shot("quiz")

    def sidebar(self):
        """Six chapters are bold and seen; four groups are folded, but for the one that has this page."""
        self.page.resize(1280, 800)
        for path, open_groups in ("docs/03_torchrun_env", 0), ("docs/zero", 1):
            self.open(path + ".html")
            folds = self.page.evaluate("[...document.querySelectorAll('.sidebar-tree details')].map((d) => d.open)")
            assert (len(folds), sum(folds)) == (4, open_groups), (path, folds)
            bold = self.page.evaluate("[...document.querySelectorAll('.sidebar-tree a')].filter((a) => a.checkVisibility() && +getComputedStyle(a).fontWeight >= 600 && !a.matches('.current > a')).length")
            assert 5 <= bold <= 6, (path, bold)

    def search(self):
        self.page.resize(1280, 800)
        self.open("index.html")
        self.page.key("/", 191, "/")  # the field has the focus now
        assert self.page.evaluate("document.activeElement.name") == "q"
        self.page.call("Input.insertText", text="reducer_finalize")
        self.page.key("Enter", 13)
        self.page.wait_for("location.pathname.endsWith('search.html') && document.readyState === 'complete'")
        self.page.wait_for("/found/.test(document.querySelector('.search-summary')?.innerText)")
        self.page.wait_for("document.querySelectorAll('ul.sources li').length")
        found = self.page.evaluate("[...document.querySelectorAll('ul.search li a')].map((a) => a.href)")
        for path in ("docs/02_multi_gpu_spawn.html", "diffs/02.html", "common/comm/ddp.c.html#L"):
            assert any(path in address for address in found), (path, found)
        groups = self.page.evaluate("[...document.querySelectorAll('ul.search li.group')].map((e) => e.textContent)")
        assert groups == ["The book", "The diffs", "Steps, tools and classes", "Answers"], groups
        shown = self.page.evaluate("[...document.querySelectorAll('ul.search p.context')].map((e) => e.textContent).join('\\n')")
        assert not re.search(r"<\w+ |\*\*|\]\(|^#|```", shown), shown
        said = self.page.evaluate("document.querySelector('ul.search li.kind-text').innerText")
        assert "reducer_finalize" in said, said  # an excerpt, not the title alone
        self.shot("search")

    def copy(self):
        self.page.resize(1280, 800)
        self.page.call("Browser.grantPermissions", permissions=["clipboardReadWrite", "clipboardSanitizedWrite"])
        self.open("docs/02_multi_gpu_spawn.html")
        self.page.evaluate("document.querySelector('.highlight-sh + .highlight-text').previousElementSibling.querySelector('button.copy').focus()")
        self.page.key("Enter", 13)
        self.page.wait_for("document.activeElement.textContent === 'Copied'")
        got = self.page.evaluate("navigator.clipboard.readText()")
        assert got == "01_single_gpu/run.sh --batch-size 64 --max-steps 21 | grep ^Train", got
        assert self.page.evaluate("[...document.querySelectorAll('.copy')].every((e) => e.closest('.highlight-sh'))")

    def keys(self):
        """The first tab reaches the link past the side bar; code that is too wide scrolls by keys; arrows turn pages."""
        self.page.resize(390, 844)
        self.open("docs/02_multi_gpu_spawn.html")
        self.page.key("Tab", 9)
        assert "Skip" in self.page.evaluate("document.activeElement.textContent")
        self.page.evaluate("document.querySelector('article pre[tabindex]').focus()")
        self.page.key("ArrowRight", 39)
        self.page.wait_for("document.activeElement.scrollLeft > 0")
        self.page.resize(1280, 800)
        self.open("docs/02_multi_gpu_spawn.html")
        self.page.key("ArrowRight", 39)
        self.page.wait_for("location.pathname.endsWith('docs/more_ddp.html')")

    def paper(self):
        self.page.resize(1280, 800, dark=True)
        for path in ("docs/03_torchrun_env.html", "diffs/03.html"):
            self.open(path)
            data = base64.b64decode(self.page.call("Page.printToPDF", printBackground=True)["data"])
            assert data[:4] == b"%PDF" and len(data) > 50000, len(data)
            with open("%s/site_%s.pdf" % (self.folder, os.path.basename(path)[:-5]), "wb") as file:
                file.write(data)
        self.page.call("Emulation.setEmulatedMedia", media="print")
        assert self.page.evaluate("[...document.querySelectorAll('.sidebar-drawer, .mobile-header, .skip-to-content')].every((e) => !e.checkVisibility())")
        assert self.page.evaluate(LUMINANCE) > 200, "dark paper"
        gone = self.page.evaluate("getComputedStyle(document.querySelector('.rows .del')).backgroundColor")
        assert gone == "rgb(255, 227, 224)", gone
        self.page.call("Emulation.setEmulatedMedia", media="")


def main():
    folder = sys.argv[2]
    os.makedirs(folder, exist_ok=True)
    with chromium.Page(seconds=60) as page:
        site = Site(page, sys.argv[1], folder)
        for part in (site.landing, site.themes, site.pictures, site.diffs, site.reading, site.sources, site.blocks, site.quiz, site.sidebar, site.search, site.copy, site.keys, site.paper, site.widths):
            part()
            print(part.__name__ + ": ok", flush=True)
        asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
        assert asked and all(u.startswith(("file://", "data:", "about:")) for u in asked), asked
        bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown" or
               e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
        assert not bad, bad


if __name__ == "__main__":
    main()
