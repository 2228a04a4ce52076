#!/usr/bin/env python3
"""Usage: docs/store_keys.py [HOST PORT]      What a job's store holds (MASTER_ADDR, MASTER_PORT).

Speaks just enough of TCPStore's protocol, which common/comm/store/store_protocol.h lists: a request is one
byte that says what, then its arguments; a text is its length in 8 bytes, then its bytes.
"""
import os
import socket
import struct
import sys

VALIDATE, GET, LIST_KEYS = 0, 3, 17  # of 19 operations
MAGIC = 0x3C85F7CE  # whoever connects must know it


def text(value):
    return struct.pack("<Q", len(value)) + value


def read_number(stream):
    return struct.unpack("<q", stream.read(8))[0]


def read_text(stream):
    return stream.read(read_number(stream))


where = sys.argv[1:] or [os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in os.environ]
if len(where) != 2 or not where[1].isdecimal():
    print(__doc__.split("\n")[0], file=sys.stderr)
    sys.exit(2)
host, port = where
store = socket.create_connection((host, int(port)), timeout=10).makefile("rwb")
store.write(struct.pack("<BI", VALIDATE, MAGIC) + bytes([LIST_KEYS]))
store.flush()
for key in sorted(read_text(store) for _ in range(read_number(store))):
    store.write(bytes([GET]) + text(key))
    store.flush()
    value = read_text(store)
    shown = value.decode() if value.isascii() else f"({len(value)} bytes)"
    print(f"{key.decode()} = {shown}")
