#!/usr/bin/env python3
"""Usage: tests/attack/attack.py job SECRET PORT OUT | elastic PORT PID | impostor | idle PORT PID | far SECRET PORT flood|peace | nowhere SECRET FILE...

What strangers do to a job that has a secret, and that each is refused. It has its own implementation of the handshake
(common/comm/store/handshake.h), in Python. Prints a line for each attack; ends with 1 where one got in.

  job       three ranks at PORT: rank 0 runs; this starts the others, with the commands on its standard input, while
            it attacks the store and the ranks. It knows SECRET, to put itself between ranks 0 and 1 and to record them;
            no attack uses it. Losses and logs lie in OUT.
  elastic   a job of step 05 whose endpoint is at PORT and whose launcher is PID
  idle      960 strangers at PORT of process PID ask one CHECK each, and stay; of 1,024 descriptors they get an eighth
  far       rank 0 of two runs at PORT; this starts rank 1, with the command on its standard input, at the end of a line
            that takes 0.1 s, while 500 strangers a second call rank 0; prints how long and how often rank 1 had to call
  impostor  a server that speaks TCPStore without the secret; prints its port
  nowhere   the secret is in none of these files
"""
import base64
import hashlib
import hmac
import os
import queue
import re
import socket
import struct
import subprocess
import sys
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)) + "/../steps")
from attacker import ports_of  # noqa: E402

VALIDATE = struct.pack("<BI", 0, 0x3C85F7CE)
SET, COMPARE_SET, GET, ADD, WAIT, DELETE, APPEND, QUEUE_PUSH, LIST_KEYS = 1, 2, 3, 4, 6, 8, 9, 14, 17
STORE, BACKEND = 1, 2
PURPOSE = {STORE: b"ddp.c store none", BACKEND: b"ddp.c backend none"}
HELLO_BYTES, PROOF_BYTES = 88, 32
SECONDS = 120
KEY = "/ddp.c/none/0/group 1/"


def blob(data):
    data = data if isinstance(data, bytes) else data.encode()
    return struct.pack("<Q", len(data)) + data


def mac(key, data):
    return hmac.new(key, data, "sha512").digest()[:32]


def service_key(secret, service):
    return mac(hashlib.sha512(open(secret, "rb").read()).digest()[:32], PURPOSE[service])


def hello_of(service, caller=0, answerer=0, channel=0, version=2, group=0, attempt=0, key=None):
    """Sealed by who has the key; a stranger guesses the seal."""
    hello = struct.pack("<4B3iq", 0xDD, version, service, channel, caller, answerer, attempt, group) + os.urandom(32)
    return hello + (mac(key, b"s" + hello + bytes(64)) if key else os.urandom(32))


def connect(port):
    connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


def receive(connection, count):
    """As many bytes, or fewer where it is closed."""
    data = b""
    try:
        while len(data) < count:
            part = connection.recv(count - len(data))
            if not part:
                break
            data += part
    except ConnectionError:
        pass
    return data


def challenge(port, hello):
    """Says hello. Returns the connection, and nonce and proof of the answerer, or b'' where it hangs up."""
    connection = connect(port)
    connection.sendall(hello)
    return connection, receive(connection, 64)


def refused(name, connection, data=b""):
    """Sends data, and must be hung up on without a welcome."""
    try:
        connection.sendall(data)
    except ConnectionError:
        pass
    answer = receive(connection, 1)
    connection.close()
    if answer:
        sys.exit(f"{name}: NOT refused, the answer begins with {answer}")
    print(f"{name}: refused", flush=True)


class Store:
    """A client of the store; with a secret, one that is let in."""

    def __init__(self, port, secret=None):
        self.socket = connect(port)
        if secret:
            key = service_key(secret, STORE)
            hello = hello_of(STORE, key=key)
            self.socket.sendall(hello)
            answer = receive(self.socket, 64)
            assert hmac.compare_digest(answer[32:], mac(key, b"a" + hello + answer[:32])), "not the job's store"
            self.sent = hello, mac(key, b"c" + hello + answer[:32])
            self.socket.sendall(self.sent[1])
            assert receive(self.socket, 1) == b"w", "not welcome"
        self.socket.sendall(VALIDATE)

    def number(self):
        return struct.unpack("<q", receive(self.socket, 8))[0]

    def text(self):
        return receive(self.socket, self.number())

    def set(self, key, value):
        self.socket.sendall(bytes([SET]) + blob(key) + blob(value))

    def get(self, key, wait=True):
        if wait:
            self.socket.sendall(bytes([WAIT]) + struct.pack("<Q", 1) + blob(key))
            assert receive(self.socket, 1) == b"\0"
        self.socket.sendall(bytes([GET]) + blob(key))
        return self.text()

    def add(self, key, amount):
        self.socket.sendall(bytes([ADD]) + blob(key) + struct.pack("<q", amount))
        return self.number()

    def keys(self):
        self.socket.sendall(bytes([LIST_KEYS]))
        return [self.text() for _ in range(self.number())]


class Recorder:
    """Between two ranks: passes everything on, and keeps what callers say first."""

    def __init__(self, port):
        self.port, self.records = port, []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1 {self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            caller, answerer = self.listener.accept()[0], connect(self.port)
            for end in caller, answerer:
                end.settimeout(None)
            record = bytearray()
            self.records.append(record)
            threading.Thread(target=self.copy, args=(caller, answerer, record), daemon=True).start()
            threading.Thread(target=self.copy, args=(answerer, caller, None), daemon=True).start()

    @staticmethod
    def copy(source, target, record):
        try:
            while data := source.recv(1 << 16):
                if record is not None and len(record) < HELLO_BYTES + PROOF_BYTES:
                    record += data
                target.sendall(data)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass


def attack_store(port, secret):
    outsider, ours = Store(port), Store(port, secret)
    assert any(b"line of rank 0" in key for key in ours.keys()), "the job's keys are not there"
    if outsider.keys():
        sys.exit(f"lists keys: NOT refused: {outsider.keys()}")
    print("lists keys: sees none")
    for key in "tcp version 0", "tcp address 0", "line of rank 0", "process of rank 0":
        if outsider.get(KEY + key, wait=False):
            sys.exit(f"reads {key}: NOT refused")
    print("reads the backend's token, addresses, lines: there are none")
    for rank in range(3):  # before the ranks 1 and 2 have come
        outsider.set(f"/ddp.c/none/0/group 0/process of rank {rank}", "a stranger")
        outsider.add(f"/ddp.c/none/0/group 0/rank {rank}", 7)
        outsider.set(f"{KEY}line of rank {rank}", "--backend mpi")
        outsider.set(f"{KEY}tcp address {rank}", "127.0.0.1 9")
    print("takes the places of all ranks in the store: in a table that they do not see")
    hello, proof = ours.sent
    connection, _ = challenge(port, hello)
    refused("replays a client's handshake at the store", connection, proof)
    connection, answer = challenge(port, hello_of(STORE))
    refused("reflects the store's proof", connection, answer[32:])
    refused("says an older version to the store", *challenge(port, hello_of(STORE, version=1)))
    refused("guesses a proof at the store", challenge(port, hello_of(STORE))[0], os.urandom(32))


def attack_rank(port, answerer, others, when):
    """Calls a rank's port. others: (port, rank) of listening ranks whose proofs may be of use."""
    for caller in 1, 2, 0, 3, -1, 1 << 30:
        for channel in 0, 1:
            hello = hello_of(BACKEND, caller, answerer, channel, group=1)
            refused(f"guesses rank {caller} {when}", challenge(port, hello)[0], os.urandom(32))
    hello = hello_of(BACKEND, 2, answerer, group=1)
    connection, answer = challenge(port, hello)
    assert len(answer) == 64
    refused(f"reflects the proof of rank {answerer} {when}", connection, answer[32:])
    first, answer = challenge(port, hello)
    second, more = challenge(port, hello)
    refused(f"opens parallel sessions {when}", first, more[32:])
    refused(f"opens parallel sessions {when}", second, answer[32:])
    for other_port, other in others:
        connection, answer = challenge(port, hello)
        oracle, proof = challenge(other_port, hello_of(BACKEND, 2, other, group=1))
        refused(f"lets rank {other} prove for it {when}", connection, proof[32:])
        oracle.close()
    refused(f"says an older version {when}", *challenge(port, hello_of(BACKEND, 2, answerer, version=1, group=1)))
    refused(f"says the old hello {when}", connect(port), b"ddp.tcp2" + bytes(16) + struct.pack("<ii", 2, 0) + bytes(152))
    refused(f"speaks TCPStore {when}", connect(port), VALIDATE + bytes([LIST_KEYS]) + bytes(179))


def flood(services, stop, caller=2):
    """500 half-open connections a second to {port: service}: silent ones, half hellos, and hellos without a proof."""
    held, count, begun = [], 0, time.monotonic()
    while not stop.is_set():
        for port, service in services.items():
            try:
                connection = socket.create_connection(("127.0.0.1", port), timeout=5)
                hello = hello_of(service, caller, 0, group=1)
                connection.sendall((b"", hello[:40], hello)[count % 3])
                held.append(connection)
                count += 1
            except OSError:
                pass  # the ranks have met: their ports are closed
        for connection in held[:-300]:
            connection.close()
        held = held[-300:]
        time.sleep(max(0, begun + count / 500 - time.monotonic()))
    print(f"floods with {count} half-open connections, {count / (time.monotonic() - begun):.0f} a second")


def attack_job(secret, port, out):
    commands = [line.rstrip("\n") for line in sys.stdin]

    def start(rank):
        return subprocess.Popen(commands[rank - 1], shell=True, stdin=subprocess.DEVNULL)

    ours = Store(port, secret)
    ours.get(KEY + "line of rank 0")
    attack_store(port, secret)
    ours.set(f"{KEY}agreement 0", "")  # so that rank 0 goes on, and waits for their connections
    address = ours.get(KEY + "tcp address 0").split()
    port_0 = int(address[1])
    recorder = Recorder(port_0)
    ours.set(KEY + "tcp address 0", recorder.address)
    attack_rank(port_0, 0, [], "before it came")
    ranks = [start(1)]
    port_1 = int(ours.get(KEY + "tcp address 1").split()[1])
    deadline = time.time() + SECONDS
    while sum(len(record) >= HELLO_BYTES + PROOF_BYTES for record in recorder.records) < 2:  # data and notices
        assert time.time() < deadline, "rank 1 did not connect"
        time.sleep(0.05)
    attack_rank(port_0, 0, [(port_1, 1)], "after rank 1 came")
    for record in list(recorder.records):
        connection, _ = challenge(port_0, bytes(record[:HELLO_BYTES]))
        refused("replays rank 1's handshake at rank 0", connection, bytes(record[HELLO_BYTES:][:PROOF_BYTES]))
        refused("replays it at rank 1", *challenge(port_1, bytes(record[:HELLO_BYTES])))
    stop = threading.Event()
    flooder = threading.Thread(target=flood, args=({port: STORE, port_0: BACKEND, port_1: BACKEND}, stop))
    flooder.start()
    time.sleep(1)
    ranks.append(start(2))
    status = [rank.wait() for rank in ranks]
    stop.set()
    flooder.join()
    if any(status):
        sys.exit(f"the ranks 1 and 2 ended with {status}")


class FarLine:
    """A line to a port on which everything takes DELAY seconds, in both directions."""

    DELAY = 0.1

    def __init__(self, port):
        self.port, self.calls, self.accepted = port, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = self.listener.getsockname()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            caller = self.listener.accept()[0]
            self.calls.append(time.monotonic())
            threading.Thread(target=self.carry, args=(caller,), daemon=True).start()

    def carry(self, caller):
        """The caller's first bytes come with the last part of the connection's own handshake, as over a real line."""
        first = caller.recv(1 << 16)
        time.sleep(self.DELAY)
        answerer = connect(self.port)
        answerer.settimeout(None)
        if first:
            answerer.sendall(first)
        for source, target in (caller, answerer), (answerer, caller):
            parts = queue.Queue()
            threading.Thread(target=self.read, args=(source, parts, source is answerer), daemon=True).start()
            threading.Thread(target=self.write, args=(target, parts), daemon=True).start()

    def read(self, source, parts, counts):
        count, data = 0, b"-"
        while data:
            try:
                data = source.recv(1 << 16)
            except OSError:
                data = b""
            parts.put((time.monotonic() + self.DELAY, data))
            if counts and count < 65 <= count + len(data):  # nonce, proof, welcome
                self.accepted.append(time.monotonic() + self.DELAY)
            count += len(data)

    @staticmethod
    def write(target, parts):
        while True:
            due, data = parts.get()
            time.sleep(max(0, due - time.monotonic()))
            try:
                if not data:
                    return target.shutdown(socket.SHUT_WR)
                target.sendall(data)
            except OSError:
                return None


def attack_far(secret, port, kind):
    command = sys.stdin.readline()
    ours = Store(port, secret)
    ours.get(KEY + "line of rank 0")
    ours.set(f"{KEY}agreement 0", "")  # so that rank 0 goes on, and waits for rank 1
    port_0 = int(ours.get(KEY + "tcp address 0").split()[1])
    line, stop = FarLine(port_0), threading.Event()
    ours.set(KEY + "tcp address 0", "%s %d" % line.address)
    flooder = threading.Thread(target=flood, args=({port_0: BACKEND}, stop, 1))
    if kind == "flood":
        flooder.start()
        time.sleep(1)
    rank = subprocess.Popen(command, shell=True, stdin=subprocess.DEVNULL)
    deadline = time.time() + SECONDS
    while len(line.accepted) < 2 and rank.poll() is None and time.time() < deadline:  # data and notices
        time.sleep(0.01)
    stop.set()
    if kind == "flood":
        flooder.join()
    if rank.wait() or len(line.accepted) < 2:
        sys.exit(f"rank 1 ended with {rank.returncode}, after {len(line.calls)} calls")
    seconds = line.accepted[1] - line.calls[0]
    print(f"rank 1 is let in after {seconds:.2f} s and {len(line.calls)} calls")


def attack_elastic(port, pid):
    """A node that does not exist, its heartbeat, and the end of the job, at the endpoint and at every other port."""
    node = b'{"role": "default", "rank": 7, "local_world_size": 1}'
    ports = {port}
    deadline = time.time() + SECONDS
    while len(ports) < 2:
        ports |= set(ports_of([pid]))
        assert time.time() < deadline, "the launcher has no store for its ranks"
        time.sleep(0.05)
    for at in sorted(ports):
        outsider = Store(at)
        if outsider.keys():
            sys.exit(f"lists keys at {at}: NOT refused: {outsider.keys()}")
        outsider.add("/ddprun/num_agents", 7)
        outsider.set("/ddprun/agent/7", "")
        outsider.set("/ddprun/job", "another")
        for number in 0, 1, 7:
            outsider.socket.sendall(bytes([QUEUE_PUSH]) + blob("/ddprun/waiting") + blob(node))
            outsider.add(f"/none/ddprun/heartbeat/{number}", 1)
            outsider.set(f"/none/torchelastic/role_info/{number}", node)
            outsider.set(f"/none/torchelastic/role_info/{number}/gone", "1")
            outsider.set(f"/none/ddprun/failure/{number}", "{}")
        outsider.set("/none/torchelastic/agent/terminal_state/last_member", "failed")
        outsider.set("/none/ddprun/root", "{}")
        assert outsider.get("/ddprun/job") == b"another"  # all of it has been done, in the open table
        print(f"pushes fake nodes, heartbeats and ends at port {at}: nobody sees them", flush=True)
        for service in STORE, 3:
            refused(f"guesses a proof at port {at}", challenge(at, hello_of(service))[0], os.urandom(32))


def idle(port, pid):
    held = []
    for _ in range(960):
        connection = socket.create_connection(("127.0.0.1", port), timeout=SECONDS)
        try:
            connection.sendall(VALIDATE + bytes([5]) + struct.pack("<Q", 1) + blob("key"))
            connection.recv(1)
        except OSError:
            pass  # it has made room already
        held.append(connection)
    count = len(os.listdir(f"/proc/{pid}/fd"))
    if count > 1024 // 8 * 2:
        sys.exit(f"idle strangers: NOT refused: {count} descriptors are open")
    print(f"960 idle strangers: {count} descriptors are open", flush=True)
    while True:  # and they stay
        time.sleep(1)


def impostor():
    """Answers whatever comes with what a store without a secret would, or sends it back."""
    server = socket.create_server(("127.0.0.1", 0))
    print(server.getsockname()[1], flush=True)
    while True:
        caller = server.accept()[0]
        sent = receive(caller, HELLO_BYTES)
        if sent[:1] != b"\xdd":
            sys.exit(f"the rank fell back: it began with {sent[:16]}")
        caller.sendall(sent[-64:])
        caller.close()


def nowhere(secret, files):
    raw = open(secret, "rb").read()
    keys = [raw, hashlib.sha512(raw).digest()[:32], service_key(secret, STORE), service_key(secret, BACKEND)]
    shapes = [form for key in keys for form in (key, key.hex().encode(), base64.b64encode(key)[:40])]
    for file in files:
        data = open(file, "rb").read()
        if any(shape in data or shape.upper() in data for shape in shapes):
            sys.exit(f"the secret is in {file}")
    print(f"the secret is in none of {len(files)} files")


def main():
    what, *words = sys.argv[1:] or [""]
    if what == "job" and len(words) == 3:
        attack_job(words[0], int(words[1]), words[2])
    elif what == "elastic" and len(words) == 2:
        attack_elastic(int(words[0]), words[1])
    elif what == "idle" and len(words) == 2:
        idle(int(words[0]), int(words[1]))
    elif what == "far" and len(words) == 3:
        attack_far(words[0], int(words[1]), words[2])
    elif what == "impostor" and not words:
        impostor()
    elif what == "nowhere" and len(words) > 1:
        nowhere(words[0], words[1:])
    else:
        sys.exit(re.split(r"\n\n", __doc__)[0])


if __name__ == "__main__":
    main()
