"""Usage: many.py FOLDER      tools/watch at a job of 64 ranks: two viewers in Chromium, a client that reads a byte a second, and a
killed rank. Prints what it cost. Screenshots go to FOLDER."""
import os
import re
import socket
import sys
import threading
import time

import chromium
import watched

RANKS, SECONDS = 64, 20


class ByteASecond(threading.Thread):
    """A viewer with a small buffer that reads a byte a second."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.socket, self.closed = socket.socket(), False
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.connect(("127.0.0.1", port))
        self.socket.sendall(b"GET /events?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % token.encode())
        self.start()

    def run(self):
        while True:
            time.sleep(1)
            try:
                if not self.socket.recv(1):
                    break
            except OSError:
                break
        self.closed = True


def cost(pid):
    """Seconds of a processor, and the most memory, in MB."""
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    with open(f"/proc/{pid}/status") as file:
        peak = int(re.search(r"VmHWM:\s+(\d+)", file.read())[1]) / 1e3
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK"), peak


# Words that leave the window, or lie on others of their column; lanes that are not one below the other.
BAD = """(() => {
    const faults = [], lanes = document.getElementById('lanes'), names = [...lanes.querySelectorAll('text')].slice(0, -2);
    if (document.documentElement.scrollWidth > innerWidth) faults.push('scrolls sideways');
    const tops = names.map(it => it.getBoundingClientRect());
    if (names.length !== 64 || tops.some((box, i) => i > 0 && box.top < tops[i - 1].bottom - 4)) faults.push('lanes overlap');
    for (const it of document.querySelectorAll('td, li, p, h1, h2, text'))
        if (it.checkVisibility() && it.textContent.trim() && it.getBoundingClientRect().right > innerWidth + 1) faults.push(it.textContent.slice(0, 40));
    for (const row of document.querySelectorAll('#ranks tr')) {
        const cells = [...row.children].filter(it => it.checkVisibility() && it.textContent.trim()).map(it => it.getBoundingClientRect());
        if (innerWidth > 800 && cells.some((box, i) => i > 0 && box.left < cells[i - 1].right - 1)) faults.push('cells overlap');
    }
    return faults;
})()"""


def look(page, folder, name):
    for width, height, how in ((1440, 900, {}), (390, 844, {"phone": True})):
        page.resize(width, height, **how)
        page.wait_for("document.querySelectorAll('#lanes .send').length > 0 || document.getElementById('verdict').className === 'fault'")
        time.sleep(1.2)  # it is drawn again with the next report
        page.screenshot(f"{folder}/{name}_{width}.png")
        assert page.evaluate(BAD) == [], (width, page.evaluate(BAD))


def main():
    folder = sys.argv[1]
    os.makedirs(folder, exist_ok=True)
    options = ["1000000", "0", "--model", "linear", "--batch-size", "8", "--timeout", "200", "--save-every-steps", "50"]
    with watched.watched(RANKS, options, ["--request-timeout", "10"]) as (watch, url):
        slow = ByteASecond(int(re.search(r":(\d+)/", url)[1]), url.split("=")[1]) # a daemon: it ends with us
        with chromium.Page() as page, chromium.Page() as other:
            page.open(url)
            other.open(url)
            page.wait_for(f"document.querySelectorAll('#ranks tr').length === {RANKS} && document.querySelectorAll('#losses path').length === {RANKS}")
            look(page, folder, "many")
            count = "let seen = 0; events.addEventListener('message', e => { seen++; globalThis.size = e.data.length; }); globalThis.seen_ = () => seen"
            for viewer in page, other:
                viewer.evaluate(f"(() => {{ {count} }})()")
            before, began = cost(watch.pid), time.monotonic()
            time.sleep(SECONDS)
            after, passed = cost(watch.pid), time.monotonic() - began
            got = [viewer.evaluate("seen_()") for viewer in (page, other)]
            print("%d ranks: %.2f and %.2f reports a second of %.0f kB, %.1f %% of a processor, at most %.1f MB, load %.0f" % (
                RANKS, got[0] / passed, got[1] / passed, page.evaluate("size") / 1e3, 100 * (after[0] - before[0]) / passed, after[1], os.getloadavg()[0]), flush=True)
            assert min(got) >= SECONDS / 5 and after[1] < 100, (got, after)
            page.evaluate("[...document.querySelectorAll('#rank41 button')].find((b) => b.textContent === 'stop').click()")
            for viewer in page, other:
                viewer.wait_for("document.getElementById('verdict').textContent.includes('rank 41')")
            look(page, folder, "many_stopped")
            page.evaluate("[...document.querySelectorAll('#rank41 button')].find((b) => b.textContent === 'kill').click()")
            for viewer in page, other:
                viewer.wait_for("document.getElementById('about').textContent.includes('attempt 1')")
                viewer.wait_for("document.getElementById('verdict').className === 'ok'")
            look(page, folder, "many_again")
            print("the slow one was hung up on" if slow.closed else "the slow one is still served", flush=True)
            print("at the end %.1f MB at most" % cost(watch.pid)[1])
            assert cost(watch.pid)[1] < 100


if __name__ == "__main__":
    main()
