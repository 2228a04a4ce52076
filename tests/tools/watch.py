"""Usage: watch.py FOLDER shows|resumed|signals|refusals|strangers|crafted|viewers|ends|elsewhere      tools/watch as its clients see it,
at a real job."""
import contextlib
import http.client
import json
import math
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

DEADLINE = 200  # seconds: what takes longer never comes
with open(os.path.join(os.environ.get("BUILD", "build"), "parts")) as choices:
    LISTS_KEYS = "EXTRAS=1\n" in choices.read()  # extras/torch_store does


class Job:
    """For `with`: three ranks that train until they are stopped. They need 1 MB each. `pause`: milliseconds between two steps."""

    def __init__(self, folder, pause=5):
        self.dir, self.metrics = os.path.join(folder, "ck"), os.path.join(folder, "metrics")
        self.command = ["05_fault_tolerance/ddprun", "--nproc-per-node", "3", "--max-restarts", "2", "05_fault_tolerance/train",
                        "1000000", "0", "--model", "linear", "--threads", "1", "--timeout", "100", "--checkpoint-dir", self.dir,
                        "--metrics-dir", self.metrics, "--save-every-steps", "200"]
        if pause > 0:
            self.command += ["--inject", ",".join("slow:%d:1:%d@%d" % (rank, pause, attempt) for rank in range(3) for attempt in range(3))]

    def __enter__(self):
        with open(self.dir + ".log", "w") as log:
            self.process = subprocess.Popen(self.command, stdout=log, stderr=log)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(DEADLINE)


class Watch:
    """For `with`; .port and .token. It must end cleanly."""

    def __init__(self, what, *options):
        self.command = ["tools/watch", what, "--port", "0", *options]

    def __enter__(self):
        self.process = subprocess.Popen(self.command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        reply = self.process.stdout.readline()
        self.port = int(re.search(r"http://[\d.]+:(\d+)/", reply)[1])
        found = re.search(r"\?token=(\w+)", reply)
        self.token = found[1] if found else None
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGTERM)
        assert self.process.wait(DEADLINE) == 0
        self.process.stdout.close()

    def ask(self, method, path, body=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=DEADLINE)
        connection.request(method, path, body, headers or {})
        response = connection.getresponse()
        data = response.read()
        connection.close()
        return response.status, response.headers, data

    def signal(self, rank, action):
        status, _, data = self.ask("POST", "/rank?rank=%s&do=%s&token=%s" % (rank, action, self.token))
        return status, json.loads(data)


class Viewer:
    """For `with`: gets events. `slow`: a connection with a small buffer that is not read."""

    def __init__(self, watch, slow=False):
        self.socket = socket.socket()
        if slow:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        self.socket.settimeout(DEADLINE)
        self.socket.connect(("127.0.0.1", watch.port))
        self.socket.sendall(b"GET /events?token=%s HTTP/1.1\r\nHost: localhost\r\n\r\n" % watch.token.encode())

    def __enter__(self):
        self.file = self.socket.makefile("rb")
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def report(self):
        for line in self.file:
            if line.startswith(b"data: "):
                return json.loads(line[6:])
        raise AssertionError("the stream has ended")

    def until(self, condition):
        """The first report for which that holds."""
        deadline = time.monotonic() + DEADLINE
        while time.monotonic() < deadline:
            report = self.report()
            if condition(report):
                return report
        raise AssertionError("never: %s" % json.dumps(report)[:2000])


def trains(report):
    """Are all ranks there, past their first steps?"""
    ranks = report.get("ranks", [])
    return len(ranks) == 3 and all(rank["process"] == "running" for rank in ranks) and \
        all(len(losses) > 50 for losses in report["losses"]) and report["snapshots"]


def is_mean_loss(loss, metrics):
    """Is it the mean of the ranks' losses of a recent step that they logged? (Not while one has logged, and another not yet.)"""
    losses = []
    for rank in range(3):
        with open(os.path.join(metrics, "rank%d.jsonl" % rank)) as file:
            losses.append({line["step"]: line["loss"] for line in map(json.loads, file.read().splitlines()[:-1])})
    return any(math.isclose(loss, sum(own[step] for own in losses) / 3, rel_tol=1e-6)
               for step in losses[0] if all(step in own for own in losses) and (step - 1) % -(-2048 // (3 * 32)) % 10 == 0)


def shows(folder):
    """A report has what the ranks, their files and the launcher say; by folder and by port; none before the job."""
    with Job(folder, pause=0) as job, Watch(job.dir) as watch, Viewer(watch) as viewer:
        report = viewer.until(lambda report: trains(report) and report["store"] and (report["store"].get("keys") or not LISTS_KEYS))
        assert report["well"] and "The ranks go on" in report["verdict"], report["verdict"]
        assert (report["attempt"], report["max_restarts"], report["launcher"]) == (0, 2, job.process.pid)
        for number, rank in enumerate(report["ranks"]):
            assert (rank["rank"], rank["local_rank"], rank["node"], rank["host"]) == (number, number, 0, socket.gethostname())
            assert re.match(r"all_reduce #\d+ of \d+ float", rank["call"]) or "barrier" in rank["call"], rank
            with open("/proc/%d/cmdline" % rank["pid"]) as command:
                assert job.dir in command.read()
            with open(os.path.join(job.metrics, "rank%d.jsonl" % number)) as file:
                losses = {line["step"]: line["loss"] for line in map(json.loads, file.read().splitlines()[:-1])}
            assert all(losses.get(step, loss) == loss for step, loss in report["losses"][number])
        at = report["progress"]
        assert 50 < at["step"] <= at["steps"] == 1000000 * (-(-2048 // (3 * 32))) and at["epochs"] == 1000000, at
        assert at["epoch"] == (at["step"] - 1) // (at["steps"] // 1000000), at
        viewer.until(lambda report: is_mean_loss(report["progress"]["loss"], job.metrics))
        lane = report["lanes"][1]
        assert 20 <= len(lane) <= 24 and [call[0] for call in lane] == sorted(call[0] for call in lane)
        assert all(called <= begun <= done for _, called, begun, done, _ in lane if done), lane
        saved = {name for name, _, _ in report["snapshots"]}
        assert all(name.startswith("snapshot_e") for name in saved), saved
        assert not LISTS_KEYS or any("worker" in key or "rank" in key for key in report["store"]["keys"]), report["store"]
        port = report["store"]["address"].split(":")[1]
        with Watch(port) as by_port, Viewer(by_port) as other:
            assert other.report()["dir"] == os.path.realpath(job.dir)
        status, headers, page = watch.ask("GET", "/")
        with open("tools/watch.html", "rb") as file:
            assert status == 200 and page == file.read()
        assert headers["Content-Security-Policy"].startswith("default-src 'none'")


def resumed(folder):
    """Resumed between two logged steps, a job has the loss of the first step after that, and not 0."""
    kept = os.path.join(folder, "ck")
    for steps in "4", "6":
        subprocess.run(["05_fault_tolerance/ddprun", "--nproc-per-node", "2", "05_fault_tolerance/train", "1", "--model", "linear",
                        "--threads", "1", "--timeout", "100", "--checkpoint-dir", kept, "--metrics-dir", folder, "--save-every-steps", "4",
                        "--max-steps", steps], check=True, capture_output=True, timeout=DEADLINE)
    losses = []
    for rank in range(2):
        with open(os.path.join(folder, "rank%d.jsonl" % rank)) as file:
            losses += [line["loss"] for line in map(json.loads, file) if line["step"] == 5]
    with Watch(kept) as watch, Viewer(watch) as viewer:
        at = viewer.report()["progress"]
        assert (at["step"], at["steps"]) == (6, 6) and math.isclose(at["loss"], sum(losses) / 2, rel_tol=1e-6), (at, losses)


def signals(folder):
    """A rank is stopped: the others wait for it, and the doctor says so. It goes on; another is killed, and the job restarts."""
    with Job(folder) as job, Watch(job.dir) as watch, Viewer(watch) as viewer:
        first = viewer.until(trains)
        assert watch.signal(1, "stop")[0] == 200
        report = viewer.until(lambda report: [report["ranks"][rank]["waits_for"] for rank in (0, 2)] == [[1], [1]]
                              and "is stopped" in report["verdict"]) # they may also wait a moment for a slow one
        assert "wait for rank 1" in report["verdict"], report["verdict"]
        assert [rank["process"] for rank in report["ranks"]] == ["running", "stopped", "running"]
        assert watch.signal(1, "continue")[0] == 200
        viewer.until(lambda report: report["well"])
        assert watch.signal(2, "kill")[0] == 200
        report = viewer.until(lambda report: report.get("attempt") == 1 and trains(report))
        assert not {rank["pid"] for rank in report["ranks"]} & {rank["pid"] for rank in first["ranks"]}
        assert watch.signal(3, "kill") == (409, {"error": "there is no such rank"})


def refusals(folder):
    """Bad requests get a status and a sentence; no signal is sent without the token; the next viewer is served."""
    with Job(folder) as job, Watch(job.dir) as watch, Viewer(watch) as viewer:
        first = viewer.until(trains)
        token = watch.token
        assert re.fullmatch("[0-9a-f]{32}", token)
        wrong = ("0" if token[0] != "0" else "1") + token[1:]
        cases = [(404, "GET", "/etc/passwd"), (404, "GET", "/../tools/watch.c"), (405, "GET", "/rank?rank=0&do=kill&token=" + token),
                 (405, "POST", "/"), (405, "DELETE", "/events"), (405, "HEAD", "/events?token=" + token), (403, "POST", "/rank?rank=0&do=kill"),
                 (403, "POST", "/rank?rank=0&do=kill&token="), (403, "POST", "/rank?rank=0&do=kill&token=" + wrong),
                 (403, "POST", "/rank?rank=0&do=kill&token=" + token[:-1]), (403, "POST", "/rank?rank=0&do=kill&token=" + token + "0"),
                 (400, "POST", "/rank?token=" + token), (400, "POST", "/rank?rank=0&do=hang&token=" + token),
                 (400, "POST", "/rank?rank=-1&do=kill&token=" + token), (400, "POST", "/rank?rank=0x0&do=kill&token=" + token),
                 (400, "POST", "/rank?rank=99999999999999999999&do=kill&token=" + token),
                 (409, "POST", "/rank?rank=9999&do=kill&token=" + token)]
        for status, method, path in cases:
            got, _, data = watch.ask(method, path, b"" if method == "POST" else None)
            assert got == status, (method, path, got, data)
            assert method == "HEAD" or len(json.loads(data)["error"]) > 10, data
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            assert watch.ask("POST", "/rank", b"x" * 5000000)[0] == 413
        for garbage in (b"\0" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"POST /rank HTTP/1.1\r\n"
                        b"Content-Length: -5\r\n\r\n", b"GET /" + b"a" * 100000, b"A: b\r\n" * 5000):
            with socket.create_connection(("127.0.0.1", watch.port), DEADLINE) as client, contextlib.suppress(OSError):
                client.sendall(garbage)
                client.shutdown(socket.SHUT_WR)
                reply = client.recv(1 << 16)
                assert reply == b"" or b" 4" in reply[:12] or b" 505" in reply[:13], reply
        report = viewer.until(lambda report: True)
        assert [rank["pid"] for rank in report["ranks"]] == [rank["pid"] for rank in first["ranks"]]
        # Any user may have written a record, so invalid parts of it are left out.
        for rank in range(3):
            with open(os.path.join(job.dir, "flight", "rank%d.flight" % (rank + 3)), "wb") as file:
                file.write(b"ddpfly1\0" + os.urandom(5000))
        with open(os.path.join(job.metrics, "test.jsonl"), "ab") as file:
            file.write(b"\xff\xfe{[\n[1, 2\nnull\n7\n")
        report = viewer.until(lambda report: report.get("refused"))
        assert len(report["ranks"]) == 3


def strangers(folder):
    """A page of another site, whose name leads here, and a user who has not the token, get nothing of the job."""
    with Watch(folder) as watch:
        paths = [("GET", "/"), ("GET", "/events?token=" + watch.token), ("POST", "/rank?rank=0&do=kill&token=" + watch.token)]
        for host in ("evil.example", "evil.example:%d" % watch.port, "127.0.0.1.evil.example", "localhost.evil.example", "a@localhost", "[::1", ""):
            for method, path in paths:
                status, _, data = watch.ask(method, path, b"" if method == "POST" else None, {"Host": host})
                assert status == 403 and "Host" in json.loads(data)["error"], (host, method, path, status)
        for host in ("localhost", "LOCALHOST:9000", "127.0.0.1:%d" % watch.port, "[::1]:7"):
            assert watch.ask("GET", "/", headers={"Host": host})[0] == 200, host
        for token in ("", "?token=", "?token=" + "0" * 32, "?token=" + watch.token[:-1], "?token=%s0" % watch.token):
            status, _, data = watch.ask("GET", "/events" + token)
            assert status == 403 and "the URL" in json.loads(data)["error"], (token, status, data)


def crafted(folder):
    """A record that names another process: it is not ended, and nothing of it is shown."""
    with Job(folder) as job, Watch(job.dir) as watch, Viewer(watch) as viewer, contextlib.ExitStack() as stack:
        foreign = stack.enter_context(subprocess.Popen(["sleep", "1000"]))
        stack.callback(foreign.kill)
        viewer.until(trains)
        copied = os.path.join(folder, "copied")
        shutil.copytree(os.path.join(job.dir, "flight"), os.path.join(copied, "flight"))
        with open("/proc/%d/stat" % foreign.pid) as stat, open(os.path.join(copied, "flight", "rank1.flight"), "r+b") as record:
            record.seek(24)  # its pid; 32: when it started
            record.write(struct.pack("=i", foreign.pid))
            record.seek(32)
            record.write(struct.pack("=Q", int(stat.read().rsplit(")", 1)[1].split()[19])))
        with Watch(copied) as other, Viewer(other) as second:
            report = second.report()
            assert report["ranks"][1]["pid"] == foreign.pid and report["ranks"][1]["process"] == "running", report["ranks"]
            assert (report["launcher"], report["store"], report["max_restarts"]) == (0, None, -1), report
            for rank in 0, 1, 2:
                status, error = other.signal(rank, "kill")
                assert status == 409 and "mapped" in error["error"], (rank, status, error)
        assert foreign.poll() is None
        assert viewer.until(lambda report: report["ranks"])["attempt"] == 0


def viewers(folder):
    """Two viewers get every report; one that does not read is hung up on, and keeps nobody; of a crowd the oldest leave."""
    with Job(folder) as job, Watch(job.dir, "--request-timeout", "3") as watch, Viewer(watch) as one, Viewer(watch) as two:
        one.until(trains)
        before = sockets_of(watch.process.pid)
        with Viewer(watch, slow=True):
            times = [one.report()["time"] for _ in range(6)]
            assert all(700 < later - earlier for earlier, later in zip(times, times[1:])), times
            assert two.until(lambda report: report["time"] >= times[-1])
            one.until(lambda report: sockets_of(watch.process.pid) == before)  # the buffers are full, and its time is over
        with contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Viewer(watch)) for _ in range(32)]
            assert all(viewer.report() for viewer in crowd)
            for viewer in one, two:
                assert b"event: leave\n" in list(viewer.file), "it has not been told"
            assert all(viewer.report() for viewer in crowd)


def sockets_of(pid):
    links = [os.path.join("/proc/%d/fd" % pid, name) for name in os.listdir("/proc/%d/fd" % pid)]
    count = 0
    for link in links:
        with contextlib.suppress(OSError):
            count += os.readlink(link).startswith("socket:")
    return count


def ends(folder):
    """SIGTERM and SIGINT end it with status 0, viewers or not; without viewers it reads nothing."""
    for number in signal.SIGTERM, signal.SIGINT:
        with Watch(folder) as watch, Viewer(watch) as viewer:
            assert "ranks" not in viewer.report()
            watch.process.send_signal(number)
            assert watch.process.wait(DEADLINE) == 0
    with Watch(folder) as watch:
        with open("/proc/%d/io" % watch.process.pid) as file:
            before = file.read().split()[1]
        time.sleep(2.5)
        with open("/proc/%d/io" % watch.process.pid) as file:
            assert file.read().split()[1] == before


def elsewhere(folder):
    """Beyond loopback no signal is sent, unless that is asked for; on loopback it can be switched off."""
    for options, may_signal in ((["--bind", "0.0.0.0"], False), (["--bind", "0.0.0.0", "--control", "on"], True),
                                (["--control", "off"], False), ([], True)):
        with Watch(folder, *options) as watch, Viewer(watch) as viewer:
            assert viewer.report()["control"] == may_signal, options
            status = watch.ask("GET", "/", headers={"Host": socket.gethostname() + ":80"})[0]
            assert status == 200 or "--bind" not in options, (options, status)
            assert watch.signal(0, "kill")[0] == (409 if may_signal else 403), options
            for token in ("", "None", "0" * 32):
                assert watch.ask("POST", "/rank?rank=0&do=kill&token=" + token, b"")[0] == 403


if __name__ == "__main__":
    {case.__name__: case for case in (shows, resumed, signals, refusals, strangers, crafted, viewers, ends, elsewhere)}[sys.argv[2]](sys.argv[1])
