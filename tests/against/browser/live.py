"""Usage: live.py [FOLDER]      The page of tools/watch in headless Chromium, while a rank is stopped, goes on and is killed.

Desktop and phone, light and dark, two viewers. Screenshots go to FOLDER (build/browser)."""
import os
import sys

import chromium
import watched

TEXT = "document.getElementById('%s').textContent"


def press(page, rank, action):
    page.evaluate("[...document.querySelectorAll('#rank%d button')].find((b) => b.textContent === '%s').click()" % (rank, action))


def fits(page):
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "wider than the window"


def main():
    folder = sys.argv[1] if len(sys.argv) > 1 else "build/browser"
    os.makedirs(folder, exist_ok=True)
    with watched.watched(4, ["1000", "5", "--timeout", "100", "--save-every-steps", "20"]) as (_, url):
        with chromium.Page() as page, chromium.Page() as other:
            page.resize(1200, 940)
            page.open(url)
            other.open(url.split("?")[0])
            other.wait_for(TEXT % "verdict" + ".includes('no token')")
            assert other.evaluate("document.querySelectorAll('#ranks tr').length") == 0, "a report without a token"
            other.open(url)
            page.wait_for("document.querySelectorAll('#ranks tr').length === 4 && document.querySelectorAll('#losses path').length === 4")
            page.wait_for("document.querySelectorAll('#saved small').length > 0 && document.querySelectorAll('#keys li').length > 3")
            assert page.evaluate("document.querySelectorAll('#lanes .send').length") > 40
            assert page.evaluate(TEXT % "verdict").startswith("✓ The ranks go on")
            # First what a visitor looks for, which moves; last, and folded, the store's keys.
            page.wait_for("/^[0-9.]+ (s|min|h)$/.test(%s)" % (TEXT % "left"))
            loss, epoch, step = (page.evaluate(TEXT % name) for name in ("loss", "epoch", "step"))
            assert 0 < float(loss) < 4 and epoch.endswith(" of 1000") and step.endswith(" of %d000" % -(-1437 // (4 * 32))), (loss, epoch, step)
            page.wait_for("parseInt(%s) > %d" % (TEXT % "step", int(step.split()[0])))
            tops = page.evaluate("['title', 'progress', 'verdict', 'ranks', 'lanes', 'losses', 'store'].map((id) => document.getElementById(id).getBoundingClientRect().top)")
            assert tops == sorted(tops), tops
            assert not page.evaluate("document.getElementById('keys').checkVisibility()")
            page.screenshot(folder + "/live.png")
            fits(page)

            press(page, 2, "stop")
            for viewer in page, other:
                # the first reports may find another rank between two calls, which is missing, too
                viewer.wait_for("document.getElementById('verdict').className === 'fault' && "
                                + TEXT % "verdict" + ".includes('wait for rank 2.')")
                viewer.wait_for("document.querySelector('#rank0 td:nth-child(5)').textContent.trim() === '2'")
            page.wait_for("parseFloat(document.getElementById('lanes').lastChild.textContent) > 3")
            page.screenshot(folder + "/live_stopped.png")
            page.resize(1200, 940, dark=True)
            page.screenshot(folder + "/live_dark.png")
            press(page, 2, "continue")
            page.wait_for("document.getElementById('verdict').className === 'ok'")
            press(page, 1, "kill")
            page.wait_for("%s.includes('attempt 1')" % (TEXT % "about"))
            page.wait_for("document.getElementById('verdict').className === 'ok'")
            page.resize(390, 844, 2, phone=True)
            page.wait_for("document.querySelectorAll('#lanes .send').length > 0")
            fits(page)
            page.screenshot(folder + "/live_phone.png")

            asked = [e["params"]["request"]["url"] for e in page.events if e["method"] == "Network.requestWillBeSent"]
            assert asked and all(u.startswith((url.split("?")[0], "data:", "about:")) for u in asked), asked
            bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown" or
                   e["method"] == "Log.entryAdded" and e["params"]["entry"]["level"] == "error"]
            assert not bad, bad


if __name__ == "__main__":
    main()
