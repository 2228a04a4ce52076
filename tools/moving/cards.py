#!/usr/bin/env python3
"""Usage: tools/moving/cards.py      (make moving calls it where there is a Chromium)

Draws docs/moving/NAME.png, the picture that others see where a page of docs/moving is shared: its title and its drawing,
1200 x 630 pixels."""
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/against/browser"))
import chromium  # noqa: E402

STATES = {"ring": "way=ring&n=4&at=2", "sampler": "n=4&epoch=1&round=4", "overlap": "cap=1&rate=1", "recover": "run=kill&at=60",
          "walk": "step=02&change=3", "play": "program=02&n=4&lr=0.1&batch=8&pace=step", "schedule": "new"}
STYLE = """body { padding: 26px 48px; height: 630px; overflow: hidden; } header, main { width: 100%; } nav { font-size: 24px; } nav a + a { display: none; }
h1 { font-size: 40px; margin-bottom: 12px; } main { display: block; } .stage { padding: 0; background: none; border: 0; box-shadow: none; }
header p, .side, .story, .controls, .keys, .now, .rail, .turn { display: none !important; } svg, #ring svg { height: 450px; max-height: none; } .legend ~ div svg { height: 350px; }
.stage h2, .legend { font-size: 20px; } .wide, .stage .buttons:has(#go) { display: none; } #states { zoom: 1.45; margin-top: 70px; }"""


def main():
    with chromium.Page() as page:
        page.resize(1200, 630)
        for name, state in STATES.items():
            page.open(f"file://{ROOT}/docs/moving/{name}.html#{state}")
            if name == "play":  # at work: some messages into the first all-reduce
                page.evaluate("document.querySelector('#guesses button').click(); $('go').click()")
                for _ in range(20):
                    page.wait_for("!$('next').disabled")
                    page.evaluate("next()")
            page.evaluate(f"document.head.append(Object.assign(document.createElement('style'), {{textContent: `{STYLE}`}})); scrollTo(0, 0)")
            page.screenshot(f"{ROOT}/docs/moving/{name}.png")


if __name__ == "__main__":
    if chromium.find():
        main()
    else:
        print("docs/moving/*.png are not drawn anew: no Chromium (./setup.sh --browser installs it)")
