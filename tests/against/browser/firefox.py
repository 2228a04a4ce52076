"""Drives a headless Firefox over Marionette, its own protocol: a port, JSON with its length in front of each.

https://firefox-source-docs.mozilla.org/testing/marionette/Protocol.html has the format; the commands are WebDriver's."""
import base64, json, os, shutil, signal, socket, subprocess, tempfile, time


def find():
    return shutil.which("firefox-esr") or shutil.which("firefox")


def free_port():
    with socket.create_server(("localhost", 0)) as free:
        return free.getsockname()[1]


class Page:
    """One tab, for `with`, with the functions of chromium.Page that play.py calls."""

    def __init__(self, seconds=200):
        self.seconds, self.number, self.buffer, self.phone = seconds, 0, b"", False

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        port = free_port()
        with open(self.folder.name + "/user.js", "w", encoding="utf-8") as file:
            file.write(f'user_pref("marionette.port", {port});\nuser_pref("app.update.enabled", false);\n'
                       'user_pref("datareporting.policy.dataSubmissionEnabled", false);\nuser_pref("browser.shell.checkDefaultBrowser", false);\n')
        self.start([find(), "--headless", "--marionette", "--remote-allow-system-access", "--no-remote", "--profile", self.folder.name, "about:blank"],
                   port, MOZ_HEADLESS="1")
        self.receive()  # who it is
        self.call("WebDriver:NewSession", capabilities={"alwaysMatch": {"timeouts": {"script": 1000 * self.seconds, "pageLoad": 1000 * self.seconds}}})
        return self

    def start(self, command, port, **environment):
        """Starts the browser, or what drives it, and connects to its port."""
        self.process = subprocess.Popen(command, env={**os.environ, "HOME": self.folder.name, **environment}, stdout=subprocess.DEVNULL,
                                        stderr=subprocess.DEVNULL, start_new_session=True)
        deadline = time.monotonic() + self.seconds
        while True:
            try:
                self.socket = socket.create_connection(("localhost", port), timeout=self.seconds)
                break
            except ConnectionRefusedError:
                assert time.monotonic() < deadline and self.process.poll() is None, f"{command[0]} does not listen"
                time.sleep(0.1)

    def __exit__(self, *_):
        self.socket.close()
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self.folder.cleanup()

    def receive(self):
        while b":" not in self.buffer or len(self.buffer.split(b":", 1)[1]) < int(self.buffer.split(b":", 1)[0]):
            data = self.socket.recv(1 << 20)
            assert data, "the browser has ended"
            self.buffer += data
        length, rest = self.buffer.split(b":", 1)
        message, self.buffer = rest[:int(length)], rest[int(length):]
        return json.loads(message)

    def call(self, command, **params):
        self.number += 1
        message = json.dumps([0, self.number, command, params]).encode()
        self.socket.sendall(b"%d:%s" % (len(message), message))
        _, number, error, result = self.receive()
        assert number == self.number and error is None, (command, error)
        return result

    def evaluate(self, expression):
        script = "const [text, done] = arguments; Promise.resolve(window.eval(text)).then((value) => done([value ?? null]), (error) => done(String(error)));"
        value = self.call("WebDriver:ExecuteAsyncScript", script=script, args=[expression], newSandbox=False, sandbox=None)["value"]
        assert isinstance(value, list), value
        return value[0]

    def wait_for(self, expression, what=None):
        deadline = time.monotonic() + self.seconds
        while time.monotonic() < deadline:
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise AssertionError("never came: " + (what or expression))

    def open(self, url):
        self.call("WebDriver:Navigate", url=url)

    def resize(self, width, height, scale=1, phone=False, dark=False):
        """The inner size, whatever the window's frame takes."""
        self.scheme(dark)
        rect = self.call("WebDriver:SetWindowRect", width=width, height=height)
        frame = [rect["width"] - self.evaluate("innerWidth"), rect["height"] - self.evaluate("innerHeight")]
        self.call("WebDriver:SetWindowRect", width=width + frame[0], height=height + frame[1])

    def scheme(self, dark):
        self.call("Marionette:SetContext", value="chrome")
        self.call("WebDriver:ExecuteScript", script="Services.prefs.setIntPref('layout.css.prefers-color-scheme.content-override', arguments[0])", args=[0 if dark else 1])
        self.call("Marionette:SetContext", value="content")

    def key(self, key, _code):
        value = {"Enter": "\ue007", "Tab": "\ue004"}[key]
        self.call("WebDriver:PerformActions", actions=[{"type": "key", "id": "keys", "actions": [{"type": kind, "value": value} for kind in ("keyDown", "keyUp")]}])

    def screenshot(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("WebDriver:TakeScreenshot", full=False)["value"]))
