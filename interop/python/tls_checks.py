"""kazoo over TLS: tls_checks.py SECURE CONTROL CA CERT KEY."""

import sys

import harness


def tls_with_a_certificate():
    c = harness.connect(use_ssl=True, ca=sys.argv[3], certfile=sys.argv[4], keyfile=sys.argv[5], verify_certs=True)
    c.create("/tls-kazoo", b"x")
    harness.equal(b"x", c.get("/tls-kazoo")[0], "data")
    big = b"b" * 900_000
    c.set("/tls-kazoo", big)
    harness.equal(big, c.get("/tls-kazoo")[0], "a large node")
    c.stop()


harness.start(tls_with_a_certificate)
harness.finish()
