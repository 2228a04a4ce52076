"""Drives a headless Chromium over the DevTools protocol, on a pipe: JSON, a zero byte behind each.

https://chromedevtools.github.io/devtools-protocol/ names the commands and events."""
import base64, json, os, select, shutil, signal, subprocess, tempfile, time

NAMES = ("chromium", "google-chrome", "chromium-browser")


def find():
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Page:
    """One tab, for `with`. Whatever the browser does not answer within `seconds` fails."""

    def __init__(self, seconds=200):
        self.seconds, self.number, self.session, self.buffer, self.events = seconds, 0, None, b"", []

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_read, self.to = os.pipe()
        self.from_, to_write = os.pipe()
        command = [find(), "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
                   "--no-first-run", "--disable-background-networking", "--touch-events=enabled",
                   "--remote-debugging-pipe", "--user-data-dir=" + self.folder.name, "about:blank"]

        def become_3_and_4():  # where Chromium listens and speaks
            pipes = os.dup(to_read), os.dup(to_write)
            for number, pipe in enumerate(pipes, 3):
                os.dup2(pipe, number)

        self.process = subprocess.Popen(command, close_fds=False, preexec_fn=become_3_and_4,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(domain + ".enable")
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        os.close(self.to)
        os.close(self.from_)
        self.folder.cleanup()

    def receive(self, deadline):
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.from_], [], [], max(0, deadline - time.monotonic()))
            assert ready, "the browser does not answer"
            data = os.read(self.from_, 1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        message, self.buffer = self.buffer.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **params):
        self.number += 1
        message = {"id": self.number, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + self.seconds
        while True:
            answer = self.receive(deadline)
            if answer.get("id") == self.number:
                assert "error" not in answer, "%s: %s" % (method, answer["error"])
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        answer = self.call("Runtime.evaluate", expression=expression, awaitPromise=True,
                           returnByValue=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def wait_for(self, expression, what=None):
        """The first value of the expression that is true."""
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            try:
                value = self.evaluate(expression)
            except AssertionError as error:
                if "navigated or closed" not in str(error):  # the page that was asked has been left
                    raise
                value = None
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError("never came: " + (what or expression))

    def open(self, url):
        self.call("Page.navigate", url=url)
        self.wait_for("location.href.startsWith(%r) && document.readyState === 'complete'" % url)

    def resize(self, width, height, scale=1, phone=False, dark=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=scale, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce"}])  # a picture shows the end

    def mouse(self, kind, x, y):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1,
                  buttons=0 if kind == "mouseReleased" else 1)

    def touch(self, kind, *points):
        self.call("Input.dispatchTouchEvent", type=kind,
                  touchPoints=[{"x": x, "y": y} for x, y in points])

    def key(self, key, code, text=None):
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key,
                      windowsVirtualKeyCode=code, **({"text": text or "\r"} if (text or key == "Enter") and kind == "keyDown" else {}))

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", format="png")["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))
