#!/usr/bin/env python3
"""Usage: teach/lab/store/clients.py HARNESS RUNG CLIENTS SEED
Judges a store: talks to it as clients do, in a fixed order, and prints the first fault as "NAME: TEXT". A PING on the same
connection tells that all before it is done, so nothing is a matter of time but a store that does not answer at all."""
import contextlib
import json
import os
import random
import select
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

TIMEOUT = min(20, max(8, int(os.environ.get("LAB_SECONDS", 60)) / 8))  # seconds for an answer
MAGIC = 0x3C85F7CE
GOLDEN = Path(__file__).resolve().parents[3] / "tests/golden/tcpstore.jsonl"  # of PyTorch's clients and its server


class Fault(Exception):
    """A hint's name, and what was seen."""


def u64(number):
    return struct.pack("<Q", number % 2**64)


def blob(data):
    data = data.encode() if isinstance(data, str) else data
    return u64(len(data)) + data


def keys(*names):
    return u64(len(names)) + b"".join(map(blob, names))


def operation(number, *arguments):
    return bytes([number]) + b"".join(argument if isinstance(argument, bytes) else blob(argument) for argument in arguments)


VALIDATE = operation(0, struct.pack("<I", MAGIC))


def set_(key, value):
    return operation(1, key if isinstance(key, str) else blob(key), blob(value))


def compare_set(key, expected, desired):
    return operation(2, key, expected, desired)


def get(key):
    return operation(3, key if isinstance(key, str) else blob(key))


def add(key, amount):
    return operation(4, key, u64(amount))


def check(*names):
    return operation(5, keys(*names))


def wait(*names):
    return operation(6, keys(*names))


NUM_KEYS, CANCEL = operation(7), operation(12)


def delete(key):
    return operation(8, key)


def append(key, value):
    return operation(9, key, value)


def multi_get(*names):
    return operation(10, keys(*names))


def multi_set(**pairs):
    return operation(11, u64(len(pairs)), b"".join(blob(key) + blob(value) for key, value in pairs.items()))


class Server:
    def __init__(self, harness):
        self.process = subprocess.Popen([harness], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.stage = "crash"
        self.port = self.answer("does not start")

    def answer(self, what, name="crash"):
        if not select.select([self.process.stdout], [], [], TIMEOUT)[0]:
            raise Fault(name, f"the store {what} within {TIMEOUT:.0f} s")
        line = self.process.stdout.readline()
        if line == "":
            raise EOFError
        return int(line)

    def ask(self, what, name="crash"):
        self.process.stdin.write(what + "\n")
        self.process.stdin.flush()
        return self.answer(f"does not obey: {what}", name)

    def client(self, validated=True):
        return Client(self, validated)

    def has_crashed(self):
        try:
            self.process.wait(0.5)
        except subprocess.TimeoutExpired:
            return False
        return True


class Client:
    def __init__(self, server, validated):
        self.server = server
        self.socket = socket.create_connection(("127.0.0.1", server.port), TIMEOUT)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pings = 0
        if validated:
            self.send(VALIDATE)

    def send(self, data):
        with contextlib.suppress(ConnectionError):  # a store that hangs up: what is read says so
            self.socket.sendall(data)

    def receive(self, count):
        """At most this many bytes; fewer if no more come."""
        data = b""
        with contextlib.suppress(ConnectionError, TimeoutError):
            while len(data) < count and (part := self.socket.recv(count - len(data))):
                data += part
        return data

    def expect(self, name, what, due):
        wrong, none = name if isinstance(name, tuple) else (name, name)  # hints: the reply is wrong, or there is none
        self.server.stage = none
        got = self.receive(len(due))
        if got == due:
            return
        name = wrong if got else none
        if self.server.has_crashed():
            raise EOFError
        shown = [data[:24].hex() + ("..." if len(data) > 24 else "") or "nothing" for data in (got, due)]
        raise Fault(name, f"{what}: the reply is {shown[0]} ({len(got)} bytes), and should be {shown[1]} ({len(due)} bytes)")

    def ask(self, name, what, request, due):
        self.server.stage = name if isinstance(name, str) else name[1]
        self.send(request)
        self.expect(name, what, due)

    def ping(self, name, what):
        """All before is done, and had no other reply."""
        self.pings += 1
        number = struct.pack("<I", 0xA0000000 + self.pings)
        self.ask(name, what, operation(13, number), number)

    def silent(self, name, what):
        """Nothing has come."""
        self.server.stage = name
        if select.select([self.socket], [], [], 0.03)[0]:
            raise Fault(name, f"{what}: there is a reply, and should be none yet")

    def closed(self, name, what):
        self.server.stage = name
        got = self.receive(1)
        if got or not self.is_closed():
            raise Fault(name, f"{what}: the store {'answers' if got else 'does not hang up'}")

    def is_closed(self):
        try:
            return self.socket.recv(1) == b""
        except ConnectionError:
            return True
        except TimeoutError:
            return False

    def reset(self):
        """Leaves without a word, and without reading."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()


def one_client(server, draw):
    c = server.client()
    time.sleep(0.2)  # VALIDATE has come alone
    c.ping("reply", "VALIDATE and PING")
    c.ask("two", "two PINGs in one piece", operation(13, b"abcd") + operation(13, b"efgh"), b"abcdefgh")
    c.send(set_("color", "red"))
    c.ping("reply", "SET and PING (SET has no reply)")
    c.ask("reply", "GET of a key that is there", get("color"), blob("red"))
    c.ask("reply", "GET of a key that is not there", get("none"), blob(""))
    c.send(set_("color", "dark blue"))
    c.ask("reply", "GET after a second SET", get("color"), blob("dark blue"))
    value = draw.randbytes(300) + b"\0\0end\0"
    c.send(set_("binary", value) + set_(b"a\0b", "zero"))
    c.ask("bytes", "GET of a value with zero bytes", get("binary"), blob(value))
    c.ask("bytes", "GET of a key with a zero byte", get(b"a\0b"), blob("zero"))
    c.ask("bytes", "GET of a key that is equal up to a zero byte", get("a"), blob(""))
    c.ask("check", "CHECK of a key that is there", check("color"), b"\0")
    c.ask("check", "CHECK of a key that is not there", check("none"), b"\1")
    c.ask("check", "CHECK of two keys, of which one is there", check("color", "none"), b"\1")
    c.ask("check", "CHECK of two keys, of which one is there", check("none", "color"), b"\1")
    c.ask("check", "CHECK of two keys that are there", check("color", "binary"), b"\0")
    c.ask("reply", "GETNUMKEYS of three keys", NUM_KEYS, u64(3))
    c.ask("reply", "DELETE_KEY of a key that is there", delete("color"), u64(1))
    c.ask("reply", "DELETE_KEY of a key that is gone", delete("color"), u64(0))
    c.ask("reply", "GETNUMKEYS after DELETE_KEY", NUM_KEYS, u64(2))
    c.send(set_("empty", ""))
    c.ask("check", "CHECK of a key with an empty value", check("empty"), b"\0")
    c.close()
    for first in VALIDATE + set_("slow", "ly"), VALIDATE + operation(13, b"abcd"):
        d = server.client(validated=False)
        server.stage = "partial"
        for byte in first:
            d.send(bytes([byte]))
            time.sleep(0.002)
        d.ping("partial", "a request that comes byte by byte") if first[5] == 1 else d.expect("partial", "the same", b"abcd")
        d.close()
    c = server.client()
    c.ask("partial", "GET of what came byte by byte", get("slow"), blob("ly"))
    long = set_("long", draw.randbytes(100000))
    c.send(long[:70000])
    time.sleep(0.02)
    c.send(long[70000:])
    c.ask("partial", "GET of a value that came in two pieces", get("long"), long[13:])
    c.ask("two", "SET, GET, CHECK, GET and PING in one piece", set_("k", "1") + get("k") + check("k") + get("x") + operation(13, b"wxyz"),
          blob("1") + b"\0" + blob("") + b"wxyz")
    c.close()
    for opening in b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", operation(0, struct.pack("<I", MAGIC + 1)), get("k"):
        d = server.client(validated=False)
        d.send(opening)
        d.closed("magic", f"a client that begins with {opening[:14]!r}")
    c = server.client()
    c.ping("magic", "a client that comes after it")
    c.close()


def several_clients(server, draw, count):
    clients = [server.client() for _ in range(max(2, count))]
    lazy = server.client()
    lazy.send(set_("half", "of it")[:-3])
    total = 0
    for c in clients * 2:
        amount = draw.randrange(-1000, 1000)
        total += amount
        c.ask(("sum", "blocks"), f"ADD of {amount} to a counter", add("counter", amount), u64(total))
        c.ask("text", "GET of the counter", get("counter"), blob(str(total)))
    a, b = clients[0], clients[1]
    a.ask("sum", "ADD to a key that is not there", add("new", 5), u64(5))
    a.ask("number", "ADD of a large number", add("new", 5_000_000_000), u64(5_000_000_005))
    a.ask("number", "ADD of a negative number", add("new", -6_000_000_000), u64(-999_999_995))
    a.ask("text", "GET of a negative counter", get("new"), blob("-999999995"))
    b.send(set_("text", "40"))
    b.ping("reply", "SET and PING")
    a.ask("text", "ADD of 2 to a key that was SET to 40", add("text", 2), u64(42))
    b.send(set_("rank 1", "one") + set_("rank 10", "ten") + set_("rank", "none"))
    for name, value in ("rank 1", "one"), ("rank 10", "ten"), ("rank", "none"), ("rank 100", ""):
        b.ask("key", f"GET of {name!r}", get(name), blob(value))
    a.ask("compare", "COMPARE_SET of an absent key, nothing expected", compare_set("cs", "", "one"), blob("one"))
    b.ask("compare", "COMPARE_SET with what is there", compare_set("cs", "one", "two"), blob("two"))
    a.ask("compare", "COMPARE_SET with something else", compare_set("cs", "one", "three"), blob("two"))
    a.ask("compare", "GET after it", get("cs"), blob("two"))
    a.ask("compare", "COMPARE_SET of an absent key, something expected", compare_set("other", "one", "two"), blob("one"))
    a.ask("compare", "CHECK after it", check("other"), b"\1")
    lazy.send(b" it")
    lazy.ping("blocks", "the rest of a request that began long ago")
    for c in (*clients, lazy):
        c.close()


def waiting(server, draw, count):
    setter, other = server.client(), server.client()
    for n in range(2):
        waiters = [server.client() for _ in range(count + 1)]
        setter.send(set_("here", "1"))
        setter.ping("reply", "SET and PING")
        waiters[0].ask("wait", "WAIT for a key that is there", wait("here"), b"\0")
        for c in waiters:
            c.send(wait(f"late{n}"))
        time.sleep(0.05)
        other.ping("blocks", "PING while others wait")
        for c in waiters:
            c.silent("wait", "WAIT for a key that is not there")
        setter.send(set_(f"late{n}", "x"))
        setter.ping("reply", "SET and PING")
        for c in waiters:
            c.expect("wake_all", f"WAIT of {count + 1} clients, after SET", b"\0")
        for c in waiters:
            c.ask("wait", "GET after WAIT", get(f"late{n}"), blob("x"))
    c = server.client()
    c.send(wait("first", "second"))
    time.sleep(0.05)
    setter.send(set_("first", "1"))
    setter.ping("reply", "SET and PING")
    c.silent("wait_all", "WAIT for two keys, of which one is there")
    setter.ask("wake", "ADD", add("second", 1), u64(1))
    c.expect("wake", "WAIT for two keys, after SET of one and ADD of the other", b"\0")
    c.send(wait("third"))
    time.sleep(0.05)
    setter.ask("wake", "COMPARE_SET", compare_set("third", "", "3"), blob("3"))
    c.expect("wake", "WAIT, after COMPARE_SET", b"\0")
    c.send(wait("never"))
    time.sleep(0.05)
    c.ask("cancel", "CANCEL_WAIT", CANCEL, b"\1")
    setter.send(set_("never", "x"))
    setter.ping("reply", "SET and PING")
    c.ping("cancel", "SET of a key for which nobody waits any more")
    for name in "gone1", "gone2":
        leaver, stayer = server.client(), server.client()
        leaver.send(wait(name))
        stayer.send(wait(name))
        time.sleep(0.05)
        leaver.close() if name == "gone1" else leaver.reset()
        other.ping("gone", "PING after a client that waited has left")
        again = server.client()  # with the same descriptor
        again.ping("gone", "a new client after it")
        setter.send(set_(name, "x"))
        setter.ping("gone", "SET of the key for which it waited")
        again.ping("gone", "the new client, after SET of that key")
        again.close()
        stayer.expect("gone", "WAIT of another client for the same key", b"\0")
        stayer.close()
    setter.send(set_("large", draw.randbytes(1 << 20)))
    for _ in range(3):
        leaver = server.client()
        leaver.send(get("large") * 8)
        time.sleep(0.05)
        leaver.reset()
        other.ping("pipe", "PING after a client has left in the middle of a reply")
    half = server.client()
    half.send(set_("half", "of it")[:-3])
    time.sleep(0.02)
    half.close()
    for _ in range(3):
        other.ping("reuse", "PING after a client has left in the middle of a request")
        again = server.client()
        again.ping("reuse", "a new client, after one that left in the middle of a request")
        again.close()
    before = server.ask("cpu")
    time.sleep(0.6)
    used = server.ask("cpu") - before
    if used > 20:
        raise Fault("busy", f"nobody says a word for 0.6 s, and the store computes for {used} ms")
    sleeper = server.client()
    sleeper.send(wait("in vain"))
    time.sleep(0.05)
    server.ask("stop", "stop")
    c.closed("stop", "after store_server_stop")
    if server.ask("start", "stop") != server.port:
        raise Fault("stop", "after store_server_stop the port is not free")
    d = server.client()
    d.ask("stop", "GETNUMKEYS of a new store", NUM_KEYS, u64(0))
    d.close()


def limits(server, draw, count):
    c, other, waiter = server.client(), server.client(), server.client()
    c.send(append("ap", "abc") + append("ap", "def"))
    c.ask("multi", "GET after two APPENDs", get("ap"), blob("abcdef"))
    c.send(multi_set(a="1", b="22", c=""))
    c.ask("multi", "MULTI_GET of b, none, a and c", multi_get("b", "none", "a", "c"), blob("22") + blob("") + blob("1") + blob(""))
    for request, name in (append("w1", "x"), "w1"), (multi_set(w2="x"), "w2"):
        waiter.send(wait(name))
        time.sleep(0.05)
        c.send(request)
        c.ping("reply", "APPEND and MULTI_SET have no reply")
        waiter.expect("wake", f"WAIT, after {'APPEND' if name == 'w1' else 'MULTI_SET'}", b"\0")
    big = draw.randbytes(8 << 20)
    c.send(set_("big", big))
    c.ask("send", "GET of a value of 8 MiB", get("big"), blob(big))
    sleepers = [server.client() for _ in range(min(count, 3))]
    for sleeper in sleepers:
        sleeper.send(get("big") * 2)
    time.sleep(0.1)
    other.ping("slow", "PING while another client does not read its 8 MiB")
    for sleeper in sleepers:
        sleeper.expect("send", "two GETs of 8 MiB, read late", blob(big) * 2)
    d = server.client()
    d.send(append("big", "x"))
    d.closed("limit", "APPEND to a value of 8 MiB")
    d = server.client()
    d.send(get("big") * 12)
    other.ping("limit", "PING while another client does not read its 96 MiB")
    if len(d.receive(12 * len(blob(big)))) == 12 * len(blob(big)):
        raise Fault("limit", "a client does not read, and the store keeps 96 MiB of replies for it")
    for nonsense in b"\xc8abc", set_("word", "word") + add("word", 1):
        d = server.client()
        d.send(nonsense)
        d.closed("limit", f"a request that begins with {nonsense[:9].hex()}")
        other.ping("limit", "PING after it")
    for nonsense in (operation(3, u64(2**60)), operation(1, blob("k"), u64(2**60)), operation(3, u64(2**64 - 1)), operation(6, u64(2**50)),
                     operation(10, u64(2**61), u64(8))):
        d = server.client()
        d.send(nonsense)
        d.closed("length", f"a request that begins with {nonsense[:9].hex()}")
        other.ping("length", "PING after it")
    crowd = [server.client() for _ in range(100)]
    for number, d in enumerate(crowd):
        d.ask("limit", "ADD of each of 100 clients", add("crowd", 1), u64(number + 1))
    for d in (*crowd, *sleepers, c, other, waiter):
        d.close()
    recorded(server, count)
    leaks(server)


def recorded(server, count):
    """What PyTorch's clients have sent, and what PyTorch's server has replied, as they come, byte by byte, or in one piece."""
    server.ask("stop", "stop")
    server.ask("start", "stop")
    rows = []
    for row in map(json.loads, GOLDEN.read_text().splitlines()):
        if row["op"] == "close":  # other sessions follow
            break
        if row["conn"] in (0, 1) and not row["op"].startswith(("queue_", "barrier", "list_keys")) and row["args"] not in (["b1"], ["b2"], [["q"]]):
            rows.append(row)
    clients = {number: server.client(validated=False) for number in (0, 1)}
    for row in rows:
        c = clients[row["conn"]]
        frames = [(who, bytes.fromhex(data)) for who, data in row["frames"]]
        if count == 4:  # in one piece
            frames = [(who, b"".join(data for side, data in frames if side == who)) for who in "cs"]
        for who, data in frames:
            if who == "s":
                c.expect("recorded", f"PyTorch's {row['op']} {row['args']}", data)
            for piece in ([data] if count != 3 else [data[i : i + 1] for i in range(len(data))]) if who == "c" else ():
                c.send(piece)
        c.ping("recorded", f"after PyTorch's {row['op']}")
    for c in clients.values():
        c.close()


def leaks(server):
    def crowd():
        for number in range(60):
            c = server.client()
            c.send(set_(f"{number}", bytes(2000)) + set_(f"{number}", bytes(2000)) + wait("never", "k" * 2000))
            c.ping("crash", "PING while it waits")
            c.send(set_("half", bytes(3000))[:-9])
            c.close()
        last = server.client()
        last.ping("crash", "PING")
        last.close()
        server.ask("stop", "stop")
        used = server.ask("bytes")
        server.ask("start", "stop")
        return used

    first, second, third = crowd(), crowd(), crowd()
    if third - first > 60000:
        raise Fault("memory", f"after 60 clients and store_server_stop {second - first} bytes more are in use")


def main():
    harness, rung, count, seed = sys.argv[1], *map(int, sys.argv[2:])
    draw = random.Random(seed)
    try:
        server = Server(harness)
    except EOFError:
        print("crash: crash")
        return 1
    try:
        if rung == 1:
            one_client(server, draw)
        else:
            (several_clients, waiting, limits)[rung - 2](server, draw, count)
        return 0
    except Fault as found:
        print(f"{found.args[0]}: {found.args[1]} ({count} client{'s' * (count > 1)})")
    except (EOFError, ConnectionError, BrokenPipeError):
        print(f"crash: {server.stage}")
    finally:
        server.process.kill()
        status = server.process.wait()
        if status == -13:
            print("fatal: SIGPIPE ended the process of the store", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
