"""A TLS client on Python's ssl module. Asks for /trial over HTTP/1.0. Arguments as those of client.go:

ADDRESS PORT VERSION ROOT.pem, or load ADDRESS PORTS VERSIONS ROOT.pem PARALLEL EXPECTED CERT.pem KEY.pem.
"""

import itertools
import socket
import ssl
import sys
import threading
import time
import warnings

NAME = "www.tandem.example"
LIMIT = 60
# Connections that a session is used for.
VISITS = 5
# Old versions of TLS are what is to be tried, too.
warnings.simplefilter("ignore", DeprecationWarning)
VERSIONS = {
    "1.0": ssl.TLSVersion.TLSv1,
    "1.1": ssl.TLSVersion.TLSv1_1,
    "1.2": ssl.TLSVersion.TLSv1_2,
    "1.3": ssl.TLSVersion.TLSv1_3,
}


def trust(root, version):
    context = ssl.create_default_context(cafile=root)
    if version in ("1.0", "1.1"):
        context.set_ciphers("DEFAULT@SECLEVEL=0")
    # Up before down: a context refuses a highest version below its lowest.
    context.minimum_version = ssl.TLSVersion.MINIMUM_SUPPORTED
    context.maximum_version = VERSIONS[version]
    context.minimum_version = VERSIONS[version]
    return context


def ask(context, address, port, session=None):
    """The answer, the session, and whether it was resumed."""
    with socket.create_connection((address, port), timeout=LIMIT) as plain:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with context.wrap_socket(plain, server_hostname=NAME, session=session) as connection:
            connection.sendall(f"GET /trial HTTP/1.0\r\nHost: {NAME}\r\n\r\n".encode())
            answer = b"".join(iter(lambda: connection.recv(65536), b""))
            # In TLS 1.3 the ticket has come with the answer.
            return answer, connection.session, connection.session_reused


def load(address, ports, versions, root, parallel, expected, cert, key):
    plain = {version: trust(root, version) for version in versions}
    shown = {version: trust(root, version) for version in versions}
    for context in shown.values():
        context.load_cert_chain(cert, key)
    numbers = itertools.count()
    over = threading.Event()
    output = threading.Lock()

    def work():
        # (port, version): (a session, connections that are left for it)
        sessions = {}
        while not over.is_set():
            number = next(numbers)
            port = ports[number % len(ports)]
            version = versions[number // len(ports) % len(versions)]
            begin = time.monotonic()
            context = (shown if "c" in port else plain)[version]
            session, left = sessions.pop((port, version), (None, VISITS))
            why, is_resumed = "", session is not None
            try:
                answer, session, is_resumed = ask(context, address, int(port.rstrip("rc")), session)
                body = answer.partition(b"\r\n\r\n")[2]
                verdict = "ok" if body == expected else "differs"
                # Python takes the end of TCP for the end of TLS, too.
                if body != expected and expected.startswith(body):
                    verdict, why = "failed", f"the page ended after {len(body)} bytes"
                if "r" in port and left > 1:
                    sessions[port, version] = session, left - 1
            except OSError as error:
                verdict, why = "failed", repr(error)
            took = int((time.monotonic() - begin) * 1000)
            with output:
                print(verdict, port.rstrip("rc"), version, took, "resumed" if is_resumed else "full", why, flush=True)

    workers = [threading.Thread(target=work) for _ in range(parallel)]
    for worker in workers:
        worker.start()
    sys.stdin.buffer.read()
    over.set()
    for worker in workers:
        worker.join()


def main(words):
    if words[0] != "load":
        address, port, version, root = words
        sys.stdout.buffer.write(ask(trust(root, version), address, int(port))[0])
        return
    _, address, ports, versions, root, parallel, expected, cert, key = words
    with open(expected, "rb") as file:
        load(address, ports.split(","), versions.split(","), root, int(parallel), file.read(), cert, key)


main(sys.argv[1:])
