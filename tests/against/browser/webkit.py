"""Drives WebKitGTK's MiniBrowser over WebDriver, on a screen of its own that nobody sees (Xvfb).

https://www.w3.org/TR/webdriver2/ has the commands."""
import http.client, json, tempfile

import firefox

BINARY = "/usr/lib/x86_64-linux-gnu/webkit2gtk-4.1/MiniBrowser"


class Page(firefox.Page):
    """One window, for `with`."""

    def __enter__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.port = firefox.free_port()
        self.start(["xvfb-run", "-a", "-s", "-screen 0 1600x1400x24", "WebKitWebDriver", f"--port={self.port}"], self.port,
                   XDG_RUNTIME_DIR=self.folder.name, LIBGL_ALWAYS_SOFTWARE="1", GDK_BACKEND="x11")
        options = {"webkitgtk:browserOptions": {"binary": BINARY, "args": ["--automation"]}, "timeouts": {"script": 1000 * self.seconds, "pageLoad": 1000 * self.seconds}}
        self.session = ""
        self.session = "/" + self.request("POST", "", {"capabilities": {"alwaysMatch": options}})["sessionId"]
        return self

    def request(self, method, path, body):
        connection = http.client.HTTPConnection("localhost", self.port, timeout=self.seconds)
        connection.request(method, "/session" + self.session + path, body and json.dumps(body), {"Content-Type": "application/json"})
        answer = json.load(connection.getresponse())["value"]
        connection.close()
        assert not (isinstance(answer, dict) and "error" in answer), (path, answer)
        return answer

    def scheme(self, dark):
        assert not dark, "MiniBrowser has no such switch"

    def call(self, command, **params):
        """Marionette's commands that firefox.Page makes, by WebDriver's paths."""
        paths = {"WebDriver:ExecuteAsyncScript": "/execute/async", "WebDriver:Navigate": "/url", "WebDriver:SetWindowRect": "/window/rect",
                 "WebDriver:PerformActions": "/actions"}
        if command == "WebDriver:TakeScreenshot":
            return {"value": self.request("GET", "/screenshot", None)}
        answer = self.request("POST", paths[command], {k: v for k, v in params.items() if k not in ("newSandbox", "sandbox")})
        return answer if isinstance(answer, dict) else {"value": answer}
