#!/usr/bin/env python3
"""Usage: tests/steps/attacker.py PID...     Attacks every TCP port these processes listen on, until SIGTERM.

What strangers may do to a port: garbage, half requests, a byte now and then, a thousand idle
connections, readers that never read, absurd lengths, and the store's own protocol, well spoken and
in bulk. Each in a thread of its own, again and again; ports that come later are found. Prints, once
all have had their turn at a port, "attacked PORT".
"""
import os
import random
import signal
import socket
import struct
import sys
import threading
import time

VALIDATE = struct.pack("<BI", 0, 0x3C85F7CE)
SET, GET, WAIT, MULTI_SET, LIST_KEYS = 1, 3, 6, 11, 17
IDLE = 1000


def blob(data):
    return struct.pack("<Q", len(data)) + data


def connect(port):
    return socket.create_connection(("127.0.0.1", port), timeout=5)


def say(caller, *parts):
    """Says as much as is listened to."""
    try:
        for part in parts:
            caller.sendall(part)
    except OSError:
        pass


def call(port, *parts):
    with connect(port) as caller:
        say(caller, *parts)


def garbage(port):
    for i in range(200):
        call(port, VALIDATE if i % 2 else b"", random.randbytes(random.randrange(1, 3000)))


def half_requests(port):
    whole = VALIDATE + bytes([SET]) + blob(b"/half") + blob(b"x" * 50)
    hello = b"ddp.tcp2" + random.randbytes(24)
    for request in whole, hello:
        for length in range(len(request)):
            call(port, request[:length])


def slow_loris(port):
    callers = [connect(port) for _ in range(20)]
    for byte in VALIDATE + bytes([SET]) + blob(b"/slow"):
        for s in callers:
            say(s, bytes([byte]))
        time.sleep(0.1)
    for s in callers:
        s.close()


def idle(port):
    callers = [connect(port) for _ in range(IDLE)]
    time.sleep(1)
    for s in callers:
        s.close()


def never_read(port):
    callers = [connect(port) for _ in range(8)]
    for s in callers:
        s.setblocking(False)
        ask = VALIDATE + bytes([SET]) + blob(b"/mega") + blob(b"m" * (1 << 20))
        for request in [ask] + 200 * [bytes([GET]) + blob(b"/mega")]:
            try:
                s.send(request)
            except OSError:
                break
    time.sleep(1)
    for s in callers:
        s.close()


def absurd_lengths(port):
    for operation in range(19):
        for length in (1 << 63, (1 << 64) - 1, 1 << 40, 8193):
            call(port, VALIDATE, bytes([operation]) + struct.pack("<Q", length))


def heavy_requests(port):
    """Each is within the limits, but never ends."""
    callers = [connect(port) for _ in range(4)]
    part = blob(b"/large") + struct.pack("<Q", 8 << 20) + bytes(8 << 20)
    for s in callers:
        say(s, VALIDATE + bytes([MULTI_SET]) + struct.pack("<Q", 8), *3 * [part])
    for s in callers:
        s.close()


def many_keys(port):
    with connect(port) as s:
        s.sendall(VALIDATE)
        for start in range(0, 100000, 1000):
            s.sendall(b"".join(bytes([SET]) + blob(b"/key/%d" % i) + blob(b"v" * 100)
                               for i in range(start, start + 1000)))
        s.sendall(bytes([LIST_KEYS]) + bytes([WAIT]) + struct.pack("<Q", 1) + blob(b"/never"))
        s.recv(1 << 20)


ATTACKS = [garbage, half_requests, slow_loris, idle, never_read, absurd_lengths, heavy_requests,
           many_keys]


def sockets_of(pid):
    try:
        for fd in os.listdir(f"/proc/{pid}/fd"):
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
            if target.startswith("socket:["):
                yield target[8:-1]
    except OSError:
        return


def ports_of(pids):
    inodes = {inode for pid in pids for inode in sockets_of(pid)}
    for table in "/proc/net/tcp", "/proc/net/tcp6":
        with open(table) as lines:
            for line in list(lines)[1:]:
                field = line.split()
                if field[3] == "0A" and field[9] in inodes:  # listens
                    yield int(field[1].rsplit(":", 1)[1], 16)


def attack_again(attack, port, done):
    while True:
        try:
            attack(port)
        except OSError:
            pass  # hung up on, as it should be; or the port is gone
        done.set()
        time.sleep(1)


def report(port, dones):
    for done in dones:
        done.wait()
    print(f"attacked {port}", flush=True)


def main():
    pids = sys.argv[1:]
    known = set()
    signal.signal(signal.SIGTERM, lambda *_: os._exit(0))
    while True:
        for port in set(ports_of(pids)) - known:
            known.add(port)
            dones = [threading.Event() for _ in ATTACKS]
            for attack, done in zip(ATTACKS, dones):
                threading.Thread(target=attack_again, args=(attack, port, done), daemon=True).start()
            threading.Thread(target=report, args=(port, dones), daemon=True).start()
            print(f"attacks {port}", flush=True)
        time.sleep(0.01)


if __name__ == "__main__":
    main()
