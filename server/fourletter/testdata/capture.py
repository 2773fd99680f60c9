#!/usr/bin/env python3
"""Records what Apache ZooKeeper answers to four-letter words, as shapes: one file per word,
with every value masked that differs from run to run. Needs kazoo.

    capture.py busy HOST:PORT DIR [HOST:PORT DIR ...]
        makes two sessions with ephemeral nodes and watches and a third connection without
        a session on the first server, then records the words of every server given
    capture.py idle HOST:PORT DIR
        records the words of a server as it is (electing, read-only, all words forbidden)
    capture.py reset HOST:PORT DIR
        records cons and srvr after crst and srst, with two sessions open

The recordings beside this file were made with one server (alone), with three (leader,
follower), with one of three left (electing; readonly with readonlymode.enabled=true), and
with 4lw.commands.whitelist=ruok (forbidden). Each server had 4lw.commands.whitelist=* else.
"""
import os
import re
import socket
import struct
import sys
import time

WORDS = "ruok srvr stat mntr conf cons dump envi wchs wchc wchp dirs isro hash gtmk".split()

# The same masks in the same order are in golden_test.go.
MASKS = [
    (r"[0-9]+\.[0-9]+\.[0-9]+-[^,]*, built on [0-9-]+ [0-9:]+ [A-Z]+", "VERSION"),
    (r"[A-Z][a-z]{2} [A-Z][a-z]{2} [0-9]{2} [0-9:]{8} [A-Z]+ [0-9]{4}", "DATE"),
    (r"=/[^\n]*", "=PATH"),
    (r"0x[0-9a-f]+", "HEX"),
    (r"/[0-9]+\.[0-9]+\.[0-9]+\.[0-9]+:[0-9]+", "/ADDR"),
    (r"127\.0\.0\.1:", "HOST:"),
    (r"-?[0-9]+\.[0-9]+", "FLOAT"),
    (r"-?\b[0-9]+\b", "INT"),
]


def shape(word, text):
    if word == "envi":
        text = re.sub(r"=[0-9]+MB\n", "=SIZE\n", text)
        return re.sub(r"(zookeeper\.version)=.*|=(?!SIZE)[^\n]*", lambda m: m[1] + "=VERSION" if m[1] else "=TEXT", text)
    if word == "mntr":
        lines = sorted(text.splitlines(keepends=True)[2:])
        text = "".join(text.splitlines(keepends=True)[:2] + lines)
    if word == "hash":
        text = re.sub(r"(?m)^[0-9a-f]+: ", "HEX: ", text)
    for pattern, name in MASKS:
        text = re.sub(pattern, name, text)
    return text


def ask(addr, request):
    host, port = addr.rsplit(":", 1)
    with socket.create_connection((host, int(port)), timeout=5) as s:
        s.sendall(request)
        out = b""
        while True:
            try:
                data = s.recv(65536)
            except ConnectionResetError:
                break
            if not data:
                return out.decode()
            out += data
    return out.decode()


def record(addr, directory, words):
    os.makedirs(directory, exist_ok=True)
    for word in words:
        extra = struct.pack(">q", 306) if word == "stmk" else b""
        with open(os.path.join(directory, word), "w") as f:
            f.write(shape(word, ask(addr, word.encode() + extra)))


def sessions(addr):
    from kazoo.client import KazooClient
    a, b = KazooClient(addr, timeout=10), KazooClient(addr, timeout=6)
    a.start()
    b.start()
    return a, b


def busy(targets):
    addr = targets[0][0]
    a, b = sessions(addr)

    def watch(event):
        pass

    a.create("/d", b"x" * 100)
    for i in range(130):  # a digest is remembered every 128 transactions
        a.set("/d", b"yy")
    a.create("/d/e1", b"1", ephemeral=True)
    a.create("/d/e2", b"2", ephemeral=True)
    b.create("/d/b1", b"3", ephemeral=True)
    a.get("/d", watch=watch)
    b.get("/d", watch=watch)
    a.get("/d/b1", watch=watch)
    a.get_children("/d", watch=watch)
    with socket.create_connection(addr.rsplit(":", 1)):
        time.sleep(1)  # until the other servers have applied everything
        for addr, directory in targets:
            record(addr, directory, WORDS)
    a.stop()
    b.stop()


def main():
    mode, rest = sys.argv[1], sys.argv[2:]
    targets = list(zip(rest[::2], rest[1::2]))
    if mode == "busy":
        busy(targets)
    elif mode == "idle":
        record(*targets[0], WORDS + ["stmk", "crst", "srst"])
    elif mode == "reset":
        a, b = sessions(targets[0][0])
        record(*targets[0], ["stmk", "crst", "srst", "srvr", "cons"])
        a.stop()
        b.stop()
    else:
        sys.exit(__doc__)


main()
