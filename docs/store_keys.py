#!/usr/bin/env python3
"""Usage: docs/store_keys.py [HOST PORT]      What a job's store holds (MASTER_ADDR, MASTER_PORT).

Speaks just enough of TCPStore's protocol, which common/comm/store/store_protocol.h lists: a request is one
byte that says what, then its arguments; a text is its length in 8 bytes, then its bytes. Where DDP_SECRET_FILE
names the job's secret it begins with the handshake of common/comm/store/handshake.h, and shows what the job's
own ranks see; else what is open to all.
"""
import hashlib
import hmac
import os
import socket
import struct
import sys

VALIDATE, GET, LIST_KEYS = 0, 3, 17  # of 19 operations
MAGIC = 0x3C85F7CE  # a client must know it
OPENING, VERSION, STORE = 0xDD, 2, 1  # of a handshake


def text(value):
    return struct.pack("<Q", len(value)) + value


def read_number(stream):
    return struct.unpack("<q", stream.read(8))[0]


def read_text(stream):
    return stream.read(read_number(stream))


def mac(key, data):
    """libsodium's crypto_auth."""
    return hmac.new(key, data, "sha512").digest()[:32]


def shake_hands(stream, secret):
    run_id = os.environ.get("TORCHELASTIC_RUN_ID") or "none"
    key = mac(hashlib.sha512(secret).digest()[:32], b"ddp.c store " + run_id.encode())
    hello = struct.pack("<4B3iq", OPENING, VERSION, STORE, 0, 0, 0, 0, 0) + os.urandom(32)
    hello += mac(key, b"s" + hello + bytes(64))  # its seal: a MAC over it, the seal and the other nonce being 0
    stream.write(hello)
    stream.flush()
    nonce, proof = stream.read(32), stream.read(32)
    if not hmac.compare_digest(proof, mac(key, b"a" + hello + nonce)):
        sys.exit("this store does not know the secret in DDP_SECRET_FILE")
    stream.write(mac(key, b"c" + hello + nonce))
    stream.flush()
    stream.read(1)  # welcome


where = sys.argv[1:] or [os.environ[name] for name in ("MASTER_ADDR", "MASTER_PORT") if name in os.environ]
if len(where) != 2 or not where[1].isdecimal():
    print(__doc__.split("\n")[0], file=sys.stderr)
    sys.exit(2)
host, port = where
store = socket.create_connection((host, int(port)), timeout=10).makefile("rwb")
if os.environ.get("DDP_SECRET_FILE"):
    shake_hands(store, open(os.environ["DDP_SECRET_FILE"], "rb").read())
store.write(struct.pack("<BI", VALIDATE, MAGIC) + bytes([LIST_KEYS]))
store.flush()
for key in sorted(read_text(store) for _ in range(read_number(store))):
    store.write(bytes([GET]) + text(key))
    store.flush()
    value = read_text(store)
    shown = value.decode() if value.isascii() else f"({len(value)} bytes)"
    print(f"{key.decode()} = {shown}".rstrip())
