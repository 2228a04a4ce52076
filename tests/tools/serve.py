"""Usage: serve.py MODEL answers|refusals|late|crowd|ends      tools/serve as its clients see it."""
import contextlib, http.client, json, re, signal, socket, subprocess, sys, time
import pictures

DEADLINE = 200  # seconds: what takes longer never comes
PNG, PGM, JSON = "image/png", "image/x-portable-graymap", "application/json"


class Server:
    """For `with`; .port. It must end cleanly, unless it is expected to be gone."""

    def __init__(self, *options):
        self.command = ["tools/serve", sys.argv[1], "--port", "0", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, text=True)
        self.port = int(re.search(r"http://127\.0\.0\.1:(\d+)/", self.process.stdout.readline())[1])
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE) == 0
        self.process.stdout.close()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), DEADLINE)

    def ask(self, method, path, body=None, type=None, connection=None):
        """The status, the headers and the body, as JSON where it is that."""
        own = connection or http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        own.request(method, path, body, {"Content-Type": type} if type else {})
        response = own.getresponse()
        data = response.read()
        if connection is None:
            own.close()
        if response.headers["Content-Type"] == JSON and method != "HEAD":
            data = json.loads(data)
        return response.status, response.headers, data


def predicted(answer):
    status, _, data = answer
    assert status == 200, answer
    assert data["labels"] == list("0123456789") and abs(sum(data["probabilities"]) - 1) < 1e-4
    best = data["probabilities"].index(max(data["probabilities"]))
    assert data["label"] == data["labels"][best]
    return data


def answers():
    """The same digit as JSON, PGM and PNG, over one connection; the page; a look at its health."""
    _, rows = next(pictures.digits())
    large = pictures.enlarge(rows, 10)
    with Server() as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
        connection.connect()
        own = connection.sock.getsockname()
        paper = pictures.on_paper(large, 30)
        reply = predicted(server.ask("POST", "/predict?seen=1", pictures.pgm(paper), PGM, connection))
        assert reply["label"] == "0" and len(reply["seen"]) == 784
        pixels = json.dumps({"pixels": reply["seen"]})
        again = predicted(server.ask("POST", "/predict", pixels, JSON + "; charset=utf-8", connection))
        assert "seen" not in again and again["probabilities"] == reply["probabilities"]
        halves = json.dumps({"pixels": [0.4, 0.6, 254.6] + [0] * 781})
        assert predicted(server.ask("POST", "/predict?seen=1", halves, "Application/JSON"))["seen"][:3] == [0, 1, 255]
        status, _, data = server.ask("POST", "/predict", pictures.png(paper), PNG, connection)
        assert status == 200 and data["probabilities"] == reply["probabilities"] or \
            "without libpng" in data["error"]

        status, headers, page = server.ask("GET", "/", connection=connection)
        with open("tools/serve.html", "rb") as file:
            assert status == 200 and page == file.read()
        assert headers["Content-Type"].startswith("text/html")
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert (headers["X-Content-Type-Options"], headers["Cache-Control"]) == ("nosniff", "no-store")
        assert server.ask("PUT", "/")[1]["Allow"] == "GET, HEAD, POST"
        status, _, health = server.ask("GET", "/healthz", connection=connection)
        assert (status, health["status"]) == (200, "ok") and health["file"].endswith(".safetensors"), health
        assert int(health["epoch"]) >= 0 and int(health["step"]) > 0, health
        status, headers, page = server.ask("HEAD", "/", connection=connection)
        assert (status, page) == (200, b"") and int(headers["Content-Length"]) > 1000
        assert connection.sock.getsockname() == own, "not over one connection"
        connection.close()


def refusals():
    """Every bad request has a status and a sentence, and the next good one is answered."""
    zeros = [0] * 784
    _, rows = next(pictures.digits())
    png = pictures.png(rows)
    cases = [
        (404, "GET", "/etc/passwd", None, None), (404, "GET", "/../tools/serve.c", None, None),
        (405, "GET", "/predict", None, None), (405, "DELETE", "/", None, None),
        (405, "POST", "/healthz", b"", None), (405, "PUT", "/predict", b"{}", JSON),
        (415, "POST", "/predict", b"{}", None), (415, "POST", "/predict", b"{}", "text/plain"),
        (415, "POST", "/predict", b"{}", "application/jsonp"), (415, "POST", "/predict", b"", "image/gif"),
        (400, "POST", "/predict", b"", JSON), (400, "POST", "/predict", b"{", JSON),
        (400, "POST", "/predict", b"[1]", JSON), (400, "POST", "/predict", b"{}", JSON),
        (400, "POST", "/predict", b"[" * 60000, JSON), (400, "POST", "/predict", b"\xff\xfe", JSON),
        (400, "POST", "/predict", b'{"pixels": 7}', JSON),
        (400, "POST", "/predict", json.dumps({"pixels": [255] + zeros[1:]})[:-1] + ', "a": 1, "a": 2}', JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros[1:]}), JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros + [0]}), JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros[1:] + [256]}), JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros[1:] + [-0.1]}), JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros[1:] + ["1"]}), JSON),
        (400, "POST", "/predict", json.dumps({"pixels": zeros[1:] + [None]}), JSON),
        (400, "POST", "/predict", b'{"pixels": [1e999]}', JSON),
        (422, "POST", "/predict", json.dumps({"pixels": zeros}), JSON),
        (400, "POST", "/predict", b"GIF89a", PNG), (400, "POST", "/predict", png[:40], PNG),
        (400, "POST", "/predict", b"P5 4096 4096 255\n", PGM), (400, "POST", "/predict", b"", PGM),
        (400, "POST", "/predict", b"x" * 65536, PNG),
        (413, "POST", "/predict", b"x" * 65537, PNG), (413, "POST", "/predict", b"x" * 5000000, JSON),
        (413, "POST", "/predict", (b"x" * 1000 for _ in range(70)), PGM),  # chunked
    ]
    good = json.dumps({"pixels": [0] * 300 + [255] * 60 + [0] * 424})
    with Server() as server:
        for status, method, path, body, type in cases:
            try:
                got, _, data = server.ask(method, path, body, type)
            except (BrokenPipeError, ConnectionResetError):
                assert status == 413  # it need not listen to what it has refused
                continue
            assert got == status, (method, path, type, got, data, status)
            assert len(data["error"]) > 10, data
        for garbage in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /predict HTTP/1.1\r\n"
                        b"Content-Length: -5\r\n\r\n", b"GET /" + b"a" * 100000, b"A: b\r\n" * 5000):
            with server.connect() as client, contextlib.suppress(OSError):
                client.sendall(garbage)
                client.shutdown(socket.SHUT_WR)
                reply = client.recv(1 << 16)
                assert reply == b"" or b" 4" in reply[:12] or b" 505" in reply[:13], reply
        for host in b"evil.example", b"127.0.0.1.evil.example:%d" % server.port: # a page of another site, by DNS rebinding
            with server.connect() as client:
                client.sendall(b"GET / HTTP/1.1\r\nHost: %s\r\n\r\n" % host)
                assert client.recv(1 << 16).startswith(b"HTTP/1.1 403 "), host
                client.sendall(b"GET /healthz HTTP/1.0\r\n\r\n")  # who looks whether it runs gives no name
                assert client.recv(1 << 16).startswith(b"HTTP/1."), host
        predicted(server.ask("POST", "/predict", good, JSON))


def closed_after(client, seconds_from, seconds_to):
    begin = time.monotonic()
    with contextlib.suppress(ConnectionResetError):
        while client.recv(1 << 16):
            pass
    took = time.monotonic() - begin
    assert seconds_from <= took <= seconds_to, took


def late():
    """Who says nothing, or too little, or a byte now and then, is hung up on; others are served."""
    head = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: image/png\r\nContent-Length: 1000\r\n\r\n"
    with Server("--request-timeout", "1.5") as server:
        clients = [server.connect() for _ in range(4)]
        clients[1].sendall(b"GET / HT")
        clients[2].sendall(head + b"x" * 10)
        begin = time.monotonic()
        with contextlib.suppress(OSError):  # one that never stops sending
            while time.monotonic() - begin < DEADLINE:
                clients[3].sendall(b"G")
                assert server.ask("GET", "/healthz")[0] == 200
                time.sleep(0.05)
        assert time.monotonic() - begin < DEADLINE, "never hung up"
        for client in clients:
            closed_after(client, 0, DEADLINE)
            client.close()

        while not keeps_its_connection(server):
            pass


def keeps_its_connection(server):
    """Who goes on asking in time does. False where this machine was too slow for us to be in time."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=DEADLINE)
    connection.connect()
    own, begin = connection.sock.getsockname(), time.monotonic()
    latest = begin
    while latest - begin < 2.5:
        try:
            assert server.ask("GET", "/healthz", connection=connection)[0] == 200
            assert connection.sock and connection.sock.getsockname() == own
        except (AssertionError, OSError, http.client.HTTPException):
            if time.monotonic() - latest < 1:
                raise
            return False
        latest = time.monotonic()
    connection.close()
    return True


def crowd():
    """More connections than are served at once: the rest wait their turn, and get it."""
    with Server("--request-timeout", "2") as server:
        idle = [server.connect() for _ in range(90)]
        assert server.ask("GET", "/healthz")[0] == 200
        for client in idle:
            client.close()
        assert server.ask("GET", "/healthz")[0] == 200


def ends():
    """SIGTERM and SIGINT end it with status 0, clients or not; a port in use is one line."""
    for number in signal.SIGTERM, signal.SIGINT:
        with Server() as server, server.connect() as client:
            client.sendall(b"POST /predict HTTP/1.1\r\n")
            server.process.send_signal(number)
            assert server.process.wait(DEADLINE) == 0
    with Server() as server:
        taken = subprocess.run(["tools/serve", sys.argv[1], "--port", str(server.port)],
                               capture_output=True, text=True, timeout=DEADLINE)
        assert taken.returncode == 1 and taken.stderr.count("\n") == 1, taken
        assert "Address already in use" in taken.stderr, taken


if __name__ == "__main__":
    {case.__name__: case for case in (answers, refusals, late, crowd, ends)}[sys.argv[2]]()
