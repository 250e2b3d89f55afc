"""Certificates, programs and hops for the tests. All of it ends with the test."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Optional

import mctls

MIDDLEBOX_USAGE = "2.25.173392805500454916924251427653178854024"
PROGRAM = os.environ["MCTLS_PROGRAM"]
"""tandem-mc."""

Both = tuple[mctls.MctlsSocket, mctls.MctlsSocket]


class Authority:
    """An authority in a folder, and whom it vouches for."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._make("ca", ["keyUsage=critical,keyCertSign", "basicConstraints=critical,CA:TRUE"])
        self.file = folder / "ca.pem"

    def issue(self, name: str, usage: str) -> tuple[Path, Path]:
        extensions = [
            f"subjectAltName=DNS:{name}",
            f"extendedKeyUsage={usage}",
            "basicConstraints=critical,CA:FALSE",
        ]
        self._make(name, extensions, ["-CA", "ca.pem", "-CAkey", "ca.key"])
        return self.folder / f"{name}.pem", self.folder / f"{name}.key"

    def _make(self, name: str, extensions: list[str], by: Optional[list[str]] = None) -> None:
        command = ["openssl", "req", "-x509", "-nodes", "-days", "7", "-newkey", "ec"]
        command += ["-pkeyopt", "ec_paramgen_curve:P-256", "-subj", f"/CN={name}", *(by or [])]
        for extension in extensions:
            command += ["-addext", extension]
        command += ["-keyout", f"{name}.key", "-out", f"{name}.pem"]
        subprocess.run(command, cwd=self.folder, check=True, capture_output=True)


class Place:
    """An authority, a server's certificate, and programs."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.authority = Authority(self.folder)
        self.server_files = self.authority.issue("page.example", "serverAuth")
        self._programs: list[subprocess.Popen[str]] = []
        self._hops: list[Hop] = []

    def close(self) -> None:
        for hop in self._hops:
            hop.close()
        for program in self._programs:
            program.kill()
            program.wait()
            if program.stdout is not None:
                program.stdout.close()
        self._folder.cleanup()

    def client(self) -> mctls.MctlsContext:
        context = mctls.MctlsContext()
        context.load_verify_locations(self.authority.file)
        context.handshake_timeout = 60
        return context

    def server(self) -> mctls.MctlsContext:
        context = self.client()
        context.load_cert_chain(*self.server_files)
        return context

    def site(self) -> str:
        """``tandem-mc serve``; its address."""
        site = self.folder / "site"
        site.mkdir()
        (site / "index.html").write_text(page())
        (site / "games.html").write_text("games")
        certificate, key = self.server_files
        more = ["--root", str(site), "--trust", str(self.authority.file)]
        return self._run("serve", certificate, key, more)

    def middlebox(self, name: str, kind: str, settings: str = "") -> str:
        """``tandem-mc box``; its address."""
        certificate, key = self.authority.issue(name, MIDDLEBOX_USAGE)
        config = self.folder / f"{name}.toml"
        config.write_text(settings)
        return self._run("box", certificate, key, ["--kind", kind, "--config", str(config)])

    def _run(self, what: str, certificate: Path, key: Path, more: list[str]) -> str:
        command = [PROGRAM, what, "--listen", "127.0.0.1:0", "--timeout", "60"]
        command += ["--cert", str(certificate), "--key", str(key), *more]
        program = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self._programs.append(program)
        assert program.stdout is not None
        address = program.stdout.readline().strip().replace("listening on ", "")
        assert program.stdout.readline() == "ready\n"
        return address

    def hop(self, to: str, change: Callable[[bytes, int], Optional[bytes]]) -> str:
        """A hop towards the client that changes what comes, or cuts; its address."""
        hop = Hop(to, change)
        self._hops.append(hop)
        return hop.address

    def pair(
        self,
        server: Optional[mctls.MctlsContext] = None,
        via: tuple[str, ...] = (),
        contexts: tuple[str, ...] = ("question", "answer"),
    ) -> Both:
        """Both ends of a session."""
        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepting = server or self.server()
            accepted: list[mctls.MctlsSocket] = []

            def accept() -> None:
                connection, _ = listener.accept()
                try:
                    accepted.append(accepting.wrap_socket(connection, server_side=True))
                except OSError:
                    # The client's error is the test's.
                    pass

            thread = threading.Thread(target=accept)
            thread.start()
            try:
                near = self.client().wrap_socket(
                    listener.getsockname(),
                    server_hostname="page.example",
                    via=via,
                    contexts=contexts,
                )
            finally:
                thread.join()
        return near, accepted[0]


class Hop:
    """Passes connections on, and what goes to the client through ``change``.

    It gets the bytes and how many came before, and returns what goes on in their place, or None to
    cut the connection.
    """

    def __init__(self, to: str, change: Callable[[bytes, int], Optional[bytes]]) -> None:
        host, _, port = to.rpartition(":")
        self._to = (host, int(port))
        self._change = change
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self._listener.getsockname()[1]
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        # Closing alone does not wake a thread that accepts.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._listener.close()

    def _serve(self) -> None:
        threads: list[threading.Thread] = []
        sockets: list[socket.socket] = []
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                break
            server = socket.create_connection(self._to)
            sockets += [client, server]
            threads.append(threading.Thread(target=_pass, args=(client, server, None)))
            threads.append(threading.Thread(target=_pass, args=(server, client, self._change)))
            for thread in threads[-2:]:
                thread.start()
        for thread in threads:
            thread.join()
        for each in sockets:
            each.close()


def _pass(
    source: socket.socket,
    sink: socket.socket,
    change: Optional[Callable[[bytes, int], Optional[bytes]]],
) -> None:
    before = 0
    try:
        while True:
            data = source.recv(16384)
            changed = change(data, before) if change and data else data
            before += len(data)
            if not changed:
                break
            sink.sendall(changed)
        sink.shutdown(socket.SHUT_RDWR if change else socket.SHUT_WR)
    except OSError:
        # The test has seen enough.
        pass


def page() -> str:
    return "<p>A line that is the same as all the others.\n" * 1000
