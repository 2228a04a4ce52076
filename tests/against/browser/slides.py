#!/usr/bin/env python3
"""Usage: tests/against/browser/slides.py SLIDES PICTURES     The folder that make slides writes, looked at in Chromium."""
import base64
import re
import sys
from pathlib import Path

import chromium

# Of each slide: does all of it fit, and are the letters of what it shows large enough (a hundredth of the slide's width is --u)?
BAD = """[...document.querySelectorAll('.slide')].flatMap((slide, i) => {
    const inside = element => {
        const box = element.getBoundingClientRect(), room = element.parentElement.getBoundingClientRect();
        return box.left >= room.left - 1 && box.right <= room.right + 1 && box.top >= room.top - 1 && box.bottom <= room.bottom + 1;
    };
    const size = element => parseFloat(getComputedStyle(element).fontSize) * 100 / slide.clientWidth;
    const faults = [];
    if (slide.scrollHeight > slide.clientHeight + 1 || slide.scrollWidth > slide.clientWidth + 1) faults.push('too much');
    if (![...slide.children, ...slide.querySelectorAll('figure > :not(.full)')].every(inside)) faults.push('something sticks out');
    if ([...slide.querySelectorAll('pre, table, td code, li, footer')].some(it => size(it) < 1.59)) faults.push('small letters');
    for (const pre of slide.querySelectorAll('pre')) { // the generator breaks lines that are too long, the browser none
        const style = getComputedStyle(pre), height = pre.clientHeight - parseFloat(style.paddingTop) - parseFloat(style.paddingBottom);
        if (height > parseFloat(style.lineHeight) * (pre.textContent.split('\\n').length + 0.5)) faults.push('a line wraps');
        if (innerWidth >= 1280 && slide.clientWidth >= 1280 && parseFloat(style.fontSize) < 20) faults.push('code smaller than 20 px');
    }
    if ([...slide.querySelectorAll('img')].some(image => !image.complete || image.naturalWidth < 100)) faults.push('no picture');
    return faults.map(fault => `slide ${i + 1}: ${fault}`);
})"""

# Of each frame with a picture that moves: does all of it fit, in letters that the last row can read? Words in a drawing may be smaller: 1.2 hundredths.
FRAMES = """[...document.querySelectorAll('.moving iframe')].flatMap(frame => {
    const inner = frame.contentDocument, u = frame.closest('.slide').clientWidth / 100, faults = [], root = inner.documentElement;
    const shown = query => [...inner.querySelectorAll(query)].filter(it => it.checkVisibility());
    if (root.scrollWidth > root.clientWidth || root.scrollHeight > root.clientHeight) faults.push('scrolls');
    for (const it of shown('.now, button, label, pre, #verdict, svg, .card-row')) {
        const box = it.getBoundingClientRect();
        if (box.left < -1 || box.top < -1 || box.right > root.clientWidth + 1 || box.bottom > root.clientHeight + 1) faults.push(`${it.tagName} sticks out`);
        if (it.tagName !== 'svg' && parseFloat(frame.contentWindow.getComputedStyle(it).fontSize) < 1.59 * u) faults.push(`${it.tagName}: small letters`);
    }
    for (const it of shown('svg text'))
        if (parseFloat(frame.contentWindow.getComputedStyle(it).fontSize) * it.getScreenCTM().a < 1.2 * u) faults.push(`small: ${it.textContent}`);
    if (inner.querySelectorAll('svg rect, canvas').length < 4) faults.push('is empty');
    return faults.map(fault => `${frame.title}: ${fault}`);
})"""
# The walk goes on to one of its stops: from 04 on its drawing is wider.
WALK = """for (const frame of document.querySelectorAll('.moving iframe')) if (frame.title === 'From 01 to 05') frame.contentWindow.eval("%s")"""
# What the right arrow changes in each picture, once it has the focus, and a key that is its own.
ARROW = {"All-reduce, message by message": ("at", "s", 83, "way === 'star'"), "Who gets which rows?": ("round", "4", 52, "n === 4"),
         "What overlap saves": (None, "b", 66, "cap === 1.5"), "Kill and recover": ("at", "2", 50, "name === 'both'"),
         "From 01 to 05": ("at", "5", 53, "stops[at].step === '02'")}


def pages(page, **paper):
    """How many pages the browser prints."""
    pdf = base64.b64decode(page.call("Page.printToPDF", printBackground=True, **paper)["data"])
    return len(re.findall(rb"/Type\s*/Page\b", pdf))


def moves(page, path, folder):
    """The pictures that move: keys while one has the focus, and the slides' keys; larger and back; still on paper and without motion."""
    for title in page.evaluate("[...document.querySelectorAll('iframe')].map(frame => frame.title)"):
        frame = f"[...document.querySelectorAll('iframe')].find(frame => frame.title === '{title}')"
        inside = "%s.contentWindow.eval(\"%s\")" % (frame, "%s")
        number = page.evaluate(f"(() => {{ const at = {frame}.closest('section'); at.scrollIntoView({{behavior: 'instant'}}); {frame}.focus(); return at.id; }})()")
        arrow, key, code, then = ARROW[title]
        if arrow:
            before = page.evaluate(inside % arrow)
            page.key("ArrowRight", 39)
            page.wait_for(inside % f"{arrow} === {before + 1}")
        page.key(key, code)
        page.wait_for(inside % then)
        assert page.evaluate("slides[here()].id") == number, "an arrow of the picture turned the slide"
        assert page.evaluate("document.querySelectorAll('.whole').length") == 0
        page.screenshot(folder / f"{path.stem}_{number}.png")
        page.key("f", 70)
        page.wait_for("document.querySelectorAll('.whole').length === 1")
        page.wait_for(inside % "!onSlide() && document.documentElement.scrollWidth <= innerWidth")
        page.key("Escape", 27)
        page.wait_for(inside % "onSlide()" + " && document.querySelectorAll('.whole').length === 0")
        page.evaluate(f"{frame}.focus()")
        page.key("PageUp", 33)
        page.wait_for(f"slides[here()].id === '{int(number) - 1}' && document.activeElement === document.body")
        page.key("PageDown", 34)
        page.wait_for(f"slides[here()].id === '{number}'")
    paper = "[...document.querySelectorAll('.moving')].every(it => it.querySelector('img').checkVisibility({visibilityProperty: true}) && !it.querySelector('iframe').checkVisibility({visibilityProperty: true}))"
    page.call("Emulation.setEmulatedMedia", media="print")
    assert page.evaluate(paper), "paper has the still picture"
    page.call("Emulation.setEmulatedMedia", media="")
    page.resize(390, 844, phone=True)
    assert page.evaluate(paper), "and so has a phone, until the picture has the whole window"
    page.resize(960, 540)
    page.call("Emulation.setScriptExecutionDisabled", value=True)
    page.call("Page.reload")
    page.wait_for("document.readyState === 'complete' && document.documentElement.className === ''")
    assert page.evaluate(paper), "and a browser without scripts"
    page.call("Emulation.setScriptExecutionDisabled", value=False)


def look_at(page, path, folder):
    url = path.resolve().as_uri()
    page.open(url)
    number = page.evaluate("document.querySelectorAll('section').length")
    for width, height in (1280, 720), (1024, 768), (1920, 1080):
        page.resize(width, height)
        assert page.evaluate(BAD) == [], (path.name, width, page.evaluate(BAD))
        assert page.evaluate(FRAMES) == [], (path.name, width, page.evaluate(FRAMES))
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"
    for stop in "goStep('02a')", "goStep('04')", "go(stops.length)":
        page.evaluate(WALK % stop)
        assert page.evaluate(FRAMES) == [], (path.name, stop, page.evaluate(FRAMES))
    page.resize(960, 540)
    page.open("about:blank")
    page.open(url)

    # The keys: to the next slide, to the last, back, and the notes on and off; the same slide stays in view.
    shown = "slides[here()].id"
    for key, code, expected in (("ArrowRight", 39, "2"), ("PageDown", 34, "3"), ("ArrowLeft", 37, "2"), ("End", 35, str(number)),
                                ("ArrowRight", 39, str(number)), ("Home", 36, "1")):
        page.key(key, code)
        page.wait_for(f"{shown} === '{expected}'", f"{path.name}: slide {expected} after {key}")
    page.key("ArrowRight", 39)
    visible = "document.querySelector('section:nth-of-type(2) aside').offsetWidth > 100"
    assert not page.evaluate(visible)
    page.key("n", 78)
    page.wait_for(visible)
    assert page.evaluate(shown) == "2" and page.evaluate(BAD) == [], page.evaluate(BAD)
    page.screenshot(folder / f"{path.stem}_notes.png")
    assert pages(page, preferCSSPageSize=True) == number, "printed with notes"
    page.key("n", 78)
    page.wait_for(f"!({visible})")
    page.screenshot(folder / f"{path.stem}.png")

    # The window with the notes and a clock follows the slides, and its keys turn them.
    page.key("w", 87)
    page.wait_for("speaker && speaker.document.getElementById('clock')?.textContent.match(/^00:0/)")
    page.key("ArrowRight", 39)
    assert page.evaluate("speaker.document.querySelector('h1').textContent.startsWith('3 of')")
    assert page.evaluate("speaker.document.getElementById('notes').textContent === slides[2].querySelector('aside').textContent")
    page.evaluate("speaker.document.dispatchEvent(new speaker.KeyboardEvent('keydown', {key: 'ArrowLeft'}))")
    assert page.evaluate(shown) == "2"
    page.evaluate("speaker.close()")
    assert pages(page, preferCSSPageSize=True) == number, "printed"
    moves(page, path, folder)
    return number


def main():
    slides, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True, exist_ok=True)
    with chromium.Page() as page:
        decks = sorted(slides.glob("0*.html"))
        assert len(decks) == 5
        assert {title for path in decks for title in re.findall('<iframe title="([^"]*)"', path.read_text())} == set(ARROW)
        for path in decks:
            print(f"{path.name}: {look_at(page, path, folder)} slides fit, and are as many pages")
        page.open((slides / "handout.html").resolve().as_uri())
        assert page.evaluate("document.querySelector('figure svg rect') && document.querySelector('figure svg').clientWidth > 200"), "no picture"
        for name, width, height in ("A4", 8.27, 11.69), ("Letter", 8.5, 11):
            assert pages(page, paperWidth=width, paperHeight=height) == 1, f"the hand-out is longer than a page of {name}"
        asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
        assert all(url.startswith(("file:", "data:", "about:")) for url in asked), asked
        bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown"]
        assert not bad, bad


if __name__ == "__main__":
    main()
