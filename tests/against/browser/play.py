"""docs/moving/play.html in a real browser: the hash of each offered setting, struck lines, kills, keys, sizes, memory.
Usage: play.py chromium|firefox|webkit FOLDER_FOR_SCREENSHOTS NATIVE_TREE [EVERY]      EVERY: only each n-th of the settings"""
import functools
import hashlib
import http.server
import os
import re
import subprocess
import sys
import tempfile
import threading

import chromium
import firefox
import moving
import webkit

sys.path.insert(0, "tools/moving")
import hashes  # noqa: E402

FILE = "file://" + os.path.abspath("docs/moving/play.html")
STRIKES = (("02", "broadcast", "differ"), ("02", "zero_grad", "equal"), ("02", "set_epoch", "equal"), ("02", "set_grad_hook", "error"),
           ("02", "reducer_finalize", "error"), ("02b", "all_reduce", "differ"), ("02b", "broadcast", "differ"), ("01", "set_epoch", "equal"))


def run(page, setting, struck=(), address=FILE, guess="equal", pace="fast"):
    """Runs a setting by the page's own buttons; returns what the hashes did, and the file's SHA-256."""
    program, n, lr, batch = setting
    page.open("about:blank")
    page.open(f"{address}#program={program}&n={n}&lr={lr}&batch={batch}&pace={pace}&struck={','.join(struck)}")
    assert page.evaluate("$('go').disabled"), "it starts without an answer"
    page.evaluate(f"document.querySelector('#guesses [data-is={guess}]').click(); $('go').click()")
    found, _, digest = page.wait_for("document.documentElement.dataset.done").partition(" ")
    assert page.evaluate("$('now').textContent").startswith("✓ As you said." if found == guess else "You said: "), page.evaluate("$('now').textContent")
    return found, digest


def table(page, browser, every):
    """Program by ranks: the browser's hash is the native one that the page has (tools/moving/hashes.py compares that)."""
    settings, _ = hashes.offered()
    for setting in settings[::every]:
        program, n, lr, batch = setting
        found, digest = run(page, setting)
        native = page.evaluate(f"native['{program}']['{n} {lr} {batch}']")
        print(f"{browser}: {program:>3}, {n} ranks, rate {lr}, batch {batch}: {digest[:16]} native {native[:16]}", flush=True)
        assert (found, digest) == ("equal", native), (setting, found, digest, native)
        assert "byte for byte" in page.evaluate("$('bits').textContent")


def natively(tree, program, struck, n, setting):
    """What tools/break.sh says and writes: the error, or the file's SHA-256."""
    with tempfile.TemporaryDirectory() as folder:
        ranks = [] if program == "01" else [str(n)]
        done = subprocess.run(["tools/break.sh", program, f"/{struck}(/d", *ranks, *hashes.offered()[1], "--lr", str(setting[2]), "--batch-size", str(setting[3]),
                               "--checkpoint-dir", folder], cwd=tree, capture_output=True, text=True, timeout=600, env={k: v for k, v in os.environ.items() if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL")})
        written = folder + "/cnn_digits.safetensors"
        return hashlib.sha256(open(written, "rb").read()).hexdigest() if os.path.exists(written) else re.findall(r"fatal: (.*)", done.stderr)


def strikes(page, tree):
    for program, struck, expected in STRIKES:
        n = 1 if program == "01" else 2
        setting = (program, n, 0.1, 16)
        found, digest = run(page, setting, [struck], guess="differ")
        native = natively(tree, program, struck, n, setting)
        print(f"{program} without {struck}: {found}", flush=True)
        assert found == expected, (program, struck, found)
        said = page.evaluate("[...$('said').children].map((e) => e.textContent).join('\\n')")
        if expected == "error":  # each rank ends by itself or by the other's reason
            assert native and set(re.findall("fatal: (.*)", said)) == {native[0]}, (native, said)
        else:
            # In 02b each rank writes the file; natively that of the last one stays.
            written = page.evaluate("Promise.all(ranks.filter((rank) => rank.file).map(async (rank) => sha256(await rank.file.data.arrayBuffer())))")
            assert digest == written[0] and native in written, (program, struck, written, native)
            assert len(set(written)) == (n if program == "02b" and expected == "differ" else 1), (program, struck, written)
            assert "byte for byte" not in page.evaluate("$('bits').textContent")


def kills(page):
    """Each rank, in the midst of a run: the others name it, and no worker is left."""
    for victim in range(4):
        page.open("about:blank")
        page.open(FILE + "#program=02&n=4&lr=0.1&batch=16")
        page.evaluate("document.querySelector('#guesses button').click(); $('go').click()")
        page.wait_for("ranks.length === 4 && ranks.every((rank) => rank.hashes.length > 1)")
        page.evaluate(f"document.querySelector('#node{victim} .kill').dispatchEvent(new KeyboardEvent('keydown', {{key: 'Enter'}}))")
        assert page.wait_for("document.documentElement.dataset.done") == "killed "
        said = page.evaluate("[...$('said').children].map((e) => e.textContent)")
        named = [line for line in said if re.fullmatch(rf"\[rank \d/4\] fatal: rank {victim} is gone: connection closed during (all_reduce|all_gather|barrier) #\d+.*", line)]
        assert len(named) == 3, said
        assert page.evaluate("ranks.every((rank) => rank.over) && document.querySelectorAll('.gone').length === 4")


def steps(page):
    """Step by step: no message arrives before the reader says so, and then one on each rank; fast again, it ends."""
    page.open("about:blank")
    page.open(FILE + "#program=02b&n=4&lr=0.1&batch=16&pace=step")
    page.evaluate("document.querySelector('#guesses button').click(); $('go').click()")
    page.wait_for("ranks.length === 4 && ranks.slice(1).some((rank) => rank.held)")
    for _ in range(12):
        page.wait_for("!$('next').disabled")
        before = page.evaluate("ranks.map((rank) => rank.taken)")
        page.evaluate("document.activeElement.blur(); dispatchEvent(Object.assign(new KeyboardEvent('keydown', {key: 'ArrowRight'})))")
        page.wait_for("!$('next').disabled")
        after = page.evaluate("ranks.map((rank) => rank.taken)")
        assert 1 <= sum(after) - sum(before) <= 4 and all(b - a <= 1 for a, b in zip(before, after)), (before, after)
    page.evaluate("document.querySelector('#paces [data-is=slow]').click()")
    page.wait_for("document.querySelectorAll('#moves text').length > 0", "a message with its bytes")
    page.evaluate("document.querySelector('#paces [data-is=fast]').click()")
    assert page.wait_for("document.documentElement.dataset.done").startswith("equal")


def keyboard(page):
    """A whole run by keys alone."""
    page.open("about:blank")
    page.open(FILE + "#program=01&n=1&lr=0.1&batch=16")
    page.evaluate("document.querySelector('#guesses button').focus()")
    page.key("Enter", 13)
    page.wait_for("guess === 'equal'")
    for _ in range(3):
        page.key("Tab", 9)
    page.wait_for("document.activeElement.id === 'go'")
    page.key("Enter", 13)
    assert page.wait_for("document.documentElement.dataset.done").startswith("equal")


def memory(page):
    """Ten runs leave no more behind than two: bytes of the browser's processes."""
    def used():
        page.open("about:blank")
        page.evaluate("new Promise((done) => setTimeout(done, 2000))")
        group, total = os.getpgid(page.process.pid), 0
        for number in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.getpgid(int(number)) == group:
                    total += int(re.search(r"^Pss: *(\d+)", open(f"/proc/{number}/smaps_rollup").read(), re.M)[1])
            except (OSError, TypeError):
                continue
        return total / 1024
    sizes = []
    page.open(FILE + "#program=02&n=4&lr=0.1&batch=16")
    for turn in range(12):
        page.evaluate("delete root.dataset.done; document.querySelector('#guesses button').click(); $('go').click()")
        page.wait_for("ranks.length === 4 && ranks.every((rank) => rank.hashes.length > 1)")
        page.evaluate("$('go').click()")
        page.wait_for("document.documentElement.dataset.done === 'stopped '")
        assert page.evaluate("ranks.every((rank) => rank.over)")
        if turn in (1, 11):
            sizes.append(used())
            page.open(FILE + "#program=02&n=4&lr=0.1&batch=16")
    print(f"MiB of the browser after 2 runs and after 12: {sizes[0]:.0f}, {sizes[1]:.0f}")
    assert sizes[1] < sizes[0] + 100, sizes  # a run that stayed would be 160 MiB


def served(page):
    """From an http server; and where the programs are not built, it says how to get them."""
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("localhost", 0), functools.partial(Quiet, directory=".")) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        address = f"http://localhost:{server.server_port}/docs/moving/play.html"
        assert run(page, ("02", 2, 0.1, 16), address=address)[0] == "equal"
        server.shutdown()
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cp", "-r", "docs", folder], check=True)
        page.open(f"file://{folder}/docs/moving/play.html")
        page.evaluate("document.querySelector('#guesses button').click(); $('go').click()")
        page.wait_for("$('now').textContent.includes('make play')")


# Not in the module: what no rank reaches, which is mnist, the store, sockets, the clock of waits, and reading JSON.
ABSENT = """gethostname idx_read json_delete json_dumpfd json_loadb json_object_iter json_object_iter_next json_object_iter_value json_object_key_to_iter
json_string_value net_raise_descriptors net_reserve_descriptors poll_awake seconds_awake store_add store_check store_check_secret store_compare_set
store_free store_get store_init store_set store_try_wait"""


def absent(page):
    missing = page.evaluate("WebAssembly.Module.imports(module).filter((one) => one.module === 'env' && !RegExp('\\\\b' + one.name + ' *[:(]').test(rankMain))"
                            ".map((one) => one.name).sort()")
    assert missing == ABSENT.split(), missing


def main():
    browser, folder, tree = sys.argv[1:4]
    os.makedirs(folder, exist_ok=True)
    with {"chromium": chromium, "firefox": firefox, "webkit": webkit}[browser].Page() as page:
        page.resize(1440, 1000)
        table(page, browser, int((sys.argv[4:] or [1])[0]))
        strikes(page, tree)
        kills(page)
        steps(page)
        memory(page)
        served(page)
        assert run(page, ("02a", 2, 0.1, 16), guess="differ")[0] == "differ"
        keyboard(page)
        if browser == "webkit":
            page.screenshot(folder + "/play.png")
        else:
            moving.fits(page, "play", folder)
        if browser == "chromium":
            absent(page)
            bad = [e["params"] for e in page.events if e["method"] == "Runtime.exceptionThrown"]
            assert not bad, bad


if __name__ == "__main__":
    main()
