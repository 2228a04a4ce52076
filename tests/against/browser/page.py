"""Usage: page.py MODEL [FOLDER]      Draws digits on the page of tools/serve, in headless Chromium.

A 7 and a 3 with the mouse, a 7 with a finger; keyboard; phone and desktop, light and dark. Screenshots
go to FOLDER (build/browser)."""
import contextlib, os, re, signal, struct, subprocess, sys
import chromium

# Strokes in a square of side 1, as people draw them; the 7 with a bar: without, this model hesitates.
SEVEN = [[(0.28, 0.22), (0.72, 0.22), (0.62, 0.45), (0.52, 0.62), (0.44, 0.82)],
         [(0.36, 0.52), (0.68, 0.52)]]
THREE = [[(0.30, 0.26), (0.42, 0.17), (0.56, 0.17), (0.66, 0.25), (0.66, 0.36), (0.57, 0.45),
          (0.44, 0.48), (0.57, 0.50), (0.68, 0.59), (0.69, 0.70), (0.60, 0.80), (0.45, 0.83),
          (0.30, 0.75)]]
ANSWER = "document.getElementById('sentence').textContent"


@contextlib.contextmanager
def server(model):
    process = subprocess.Popen(["tools/serve", model, "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        yield re.search(r"http://\S+/", process.stdout.readline())[0]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(200) == 0, "the server did not end cleanly"
        process.stdout.close()


def between(points, steps=6):
    """The points with others between them, as a hand passes them."""
    for (x0, y0), (x1, y1) in zip(points, points[1:]):
        for i in range(steps):
            yield x0 + (x1 - x0) * i / steps, y0 + (y1 - y0) * i / steps
    yield points[-1]


def draw(page, strokes, finger=False):
    box = page.evaluate("(({x, y, width, height}) => [x, y, width, height])"
                        "(document.getElementById('drawing').getBoundingClientRect())")
    for stroke in strokes:
        path = [(box[0] + x * box[2], box[1] + y * box[3]) for x, y in between(stroke)]
        if finger:
            page.touch("touchStart", path[0])
            for point in path[1:]:
                page.touch("touchMove", point)
            page.touch("touchEnd")
        else:
            page.mouse("mousePressed", *path[0])
            for point in path[1:]:
                page.mouse("mouseMoved", *point)
            page.mouse("mouseReleased", *path[-1])
    # The answer to the whole drawing is the one after which nothing is asked any more.
    page.wait_for("!asking && !changed && !%s.startsWith('Nothing')" % ANSWER)


def expect(page, digit):
    sentence = page.evaluate(ANSWER)
    print("drawn: %s; said: %s" % (digit, sentence), flush=True)
    assert sentence.startswith("It is %s," % digit), sentence
    percents = page.evaluate("[...document.querySelectorAll('#bars span')].map((e) => parseFloat(e.textContent))")
    assert len(percents) == 10 and 99 <= sum(percents) <= 101 and max(percents) == percents[int(digit)]
    seen = page.evaluate("[...document.getElementById('seen').getContext('2d')"
                         ".getImageData(0, 0, 28, 28).data].filter((_, i) => i % 4 === 0)")
    assert len(seen) == 784 and max(seen) == 255 and 40 < sum(s > 128 for s in seen) < 300
    assert page.evaluate("document.querySelector('[aria-live]').innerText").strip().endswith("sure")
    assert ".safetensors, epoch " in page.evaluate("document.getElementById('model').textContent")


def fits(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"


def picture(path):
    """Its width and height; a screenshot of one colour would be far smaller than this."""
    with open(path, "rb") as file:
        data = file.read()
    assert data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) > 5000, path
    return struct.unpack(">2I", data[16:24])


def main():
    folder = sys.argv[2] if len(sys.argv) > 2 else "build/browser"
    os.makedirs(folder, exist_ok=True)
    with server(sys.argv[1]) as url, chromium.Page() as page:
        def shot(name):
            page.screenshot("%s/%s.png" % (folder, name))
            return picture("%s/%s.png" % (folder, name))

        page.resize(1100, 760)
        page.open(url)
        shot("empty")
        draw(page, SEVEN)
        expect(page, "7")
        assert shot("seven") == (1100, 760)
        fits(page)

        page.key("Escape", 27)
        page.wait_for("%s === 'Nothing drawn yet'" % ANSWER)
        page.resize(1100, 760, dark=True)
        draw(page, THREE)
        expect(page, "3")
        shot("three_dark")

        # The first thing that the tab key reaches clears, by the enter key.
        page.evaluate("document.activeElement.blur()")
        page.key("Tab", 9)
        assert page.evaluate("document.activeElement.id") == "clear"
        page.key("Enter", 13)
        page.wait_for("%s === 'Nothing drawn yet'" % ANSWER)

        page.resize(390, 844, 2, phone=True)
        draw(page, SEVEN, finger=True)
        expect(page, "7")
        assert shot("phone") == (780, 1688)
        fits(page)
        assert page.evaluate("scrollY") == 0, "the finger moved the page"
        page.resize(390, 844, 2, phone=True, dark=True)
        shot("phone_dark")

        # The page sends requests only to its own server, and logs no errors.
        asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
        assert asked and all(u.startswith((url, "data:", "about:")) for u in asked), asked
        bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown" or
               e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
        assert not bad, bad


if __name__ == "__main__":
    main()
