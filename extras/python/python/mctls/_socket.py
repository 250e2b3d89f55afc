"""The context and the socket."""

from __future__ import annotations

import io
import os
import socket
import ssl
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, NamedTuple, Optional, Union

from . import _native

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer
    from typing_extensions import Self

PROTOCOL_MCTLS13 = "mctls13"
"""The only protocol. The paper's own, mctls12, is not safe, and not offered here."""

Address = tuple[str, int]
_Path = Union[str, "os.PathLike[str]"]


class Record(NamedTuple):
    """A record that has arrived and passed every check."""

    context: str
    data: bytes
    """Empty where a middlebox has deleted it."""
    changed_by: tuple[str, ...]
    """The middleboxes that changed it, in order. Empty: these are the other end's own bytes."""
    seen_by: tuple[str, ...]
    """The middleboxes that have proved that they saw it, in order."""

    @property
    def author(self) -> Optional[str]:
        """The middlebox that made it as it is; None for the other end."""
        return self.changed_by[-1] if self.changed_by else None


class Grant(NamedTuple):
    """What a middlebox may do in a context, and what it has done so far."""

    right: str
    """``none``, ``read`` or ``write``, as both ends have agreed."""
    saw: bool
    changed: bool


class MctlsContext:
    """Trust, certificates and time-outs of sessions, as ``ssl.SSLContext`` has them.

    ``verify_mode`` is always ``ssl.CERT_REQUIRED`` and ``check_hostname`` always true: without
    them, a middlebox could be anybody.
    """

    handshake_timeout: float
    """Seconds for a session to be set up, all middleboxes included. 10 by default."""
    idle_timeout: float
    """Seconds after which a session ends in which nothing moves. 60 by default."""
    post_quantum: bool
    """Whether keys are agreed on with ML-KEM too, where the other side can; some 2,300 bytes more
    for the server and for each middlebox. True by default."""

    def __init__(self, protocol: str = PROTOCOL_MCTLS13) -> None:
        if protocol != PROTOCOL_MCTLS13:
            raise ValueError(f"the only protocol is {PROTOCOL_MCTLS13}")
        self._roots = _native.Roots()
        self._middlebox_roots = _native.Roots()
        self._identity: Optional[_native.Identity] = None
        self._admitted: Optional[dict[str, dict[str, str]]] = None
        self.handshake_timeout = 10.0
        self.idle_timeout = 60.0
        self.post_quantum = True

    @property
    def protocol(self) -> str:
        return PROTOCOL_MCTLS13

    @property
    def verify_mode(self) -> ssl.VerifyMode:
        return ssl.CERT_REQUIRED

    @verify_mode.setter
    def verify_mode(self, mode: ssl.VerifyMode) -> None:
        if mode != ssl.CERT_REQUIRED:
            raise ValueError("certificates are always verified")

    @property
    def check_hostname(self) -> bool:
        return True

    @check_hostname.setter
    def check_hostname(self, check: bool) -> None:
        if not check:
            raise ValueError("names are always checked")

    def load_verify_locations(
        self,
        cafile: Optional[_Path] = None,
        capath: None = None,
        cadata: Union[str, bytes, None] = None,
    ) -> None:
        """Trusts these authorities for servers and for middleboxes."""
        for pem, der in _authorities(cafile, capath, cadata):
            for roots in (self._roots, self._middlebox_roots):
                _add(roots, pem, der)

    def load_middlebox_locations(
        self, cafile: Optional[_Path] = None, cadata: Union[str, bytes, None] = None
    ) -> None:
        """Trusts these authorities for middleboxes alone."""
        for pem, der in _authorities(cafile, None, cadata):
            _add(self._middlebox_roots, pem, der)

    def load_default_certs(self) -> None:
        """Trusts the system's authorities for servers. None of them is for middleboxes."""
        for der in ssl.create_default_context().get_ca_certs(binary_form=True):
            try:
                self._roots.add_der(der)
            except ValueError:
                # The system has some that nobody can use; OpenSSL leaves them out as well.
                continue

    def load_cert_chain(
        self, certfile: _Path, keyfile: Optional[_Path] = None, password: None = None
    ) -> None:
        """A server's certificate chain and key, in PEM; the key without a password."""
        if password is not None:
            raise ValueError("a key with a password cannot be used")
        with open(certfile, "rb") as file:
            chain = file.read()
        key = chain
        if keyfile is not None:
            with open(keyfile, "rb") as file:
                key = file.read()
        self._identity = _native.Identity(chain, key)

    def admit(self, middlebox: str, rights: Mapping[str, str]) -> None:
        """As a server, grants the middlebox of this name these rights at most.

        ``rights`` has ``read`` or ``write`` for contexts; in all others it gets none. From the
        first call on, a session with any middlebox that was not admitted is refused. Without a
        call, the client's grants hold.
        """
        for context, right in rights.items():
            if right not in ("none", "read", "write"):
                raise ValueError(f"{context}: a right is none, read or write, not {right!r}")
        if self._admitted is None:
            self._admitted = {}
        self._admitted[middlebox] = dict(rights)

    def wrap_socket(
        self,
        sock: Union[socket.socket, Address],
        server_side: bool = False,
        *,
        server_hostname: Optional[str] = None,
        address: Optional[Address] = None,
        via: Sequence[str] = (),
        contexts: Union[int, Sequence[str]] = 1,
        accept_less: bool = False,
    ) -> MctlsSocket:
        """Sets a session up, and returns it.

        A client gives an address, or a connected socket, which is taken over. With middleboxes,
        the socket has to lead to the nearest of them, and ``address`` says where the server is.

        ``via`` has the middleboxes, the nearest first, each as
        ``[NAME@]HOST:PORT[=CONTEXT:read,CONTEXT:write,...]``. ``contexts`` are names, or the number
        of contexts of HTTP: 1 (``all``), or 4 and more. Where a middlebox has a right, it has to
        prove that it saw each record. If the server grants less than that, nothing is sent, unless
        ``accept_less``.

        A server gives a connected socket and ``server_side=True``.
        """
        if server_side:
            return self._accept(sock)
        if isinstance(via, str) or isinstance(contexts, str):
            raise TypeError("via and contexts are lists")
        if server_hostname is None:
            raise ValueError("server_hostname is needed: names are always checked")
        if address is None and isinstance(sock, socket.socket):
            if via:
                raise ValueError("address is needed: middleboxes have to know the server's")
            address = sock.getpeername()[:2]
        return self._connect(
            sock,
            address=address,
            server_hostname=server_hostname,
            via=via,
            contexts=contexts,
            accept_less=accept_less,
            handshake=self.handshake_timeout,
        )

    def _connect(
        self,
        sock: Union[socket.socket, Address],
        *,
        server_hostname: str,
        via: Sequence[str],
        contexts: Union[int, Sequence[str]],
        accept_less: bool,
        handshake: float,
        address: Optional[Address] = None,
    ) -> MctlsSocket:
        timeout: Optional[float] = None
        taken: Optional[socket.socket] = None
        if isinstance(sock, socket.socket):
            timeout = _checked(sock.gettimeout())
            taken = sock
        else:
            address = sock
        assert address is not None
        session = _native.connect(
            sock=taken,
            address=_text(address),
            server_hostname=server_hostname,
            via=list(via),
            contexts=contexts if isinstance(contexts, int) else list(contexts),
            accept_less=accept_less,
            post_quantum=self.post_quantum,
            roots=self._roots,
            middlebox_roots=self._middlebox_roots,
            handshake=handshake,
            idle=self.idle_timeout,
        )
        return MctlsSocket(session, self, False, server_hostname, timeout)

    def _accept(self, sock: Union[socket.socket, Address]) -> MctlsSocket:
        if not isinstance(sock, socket.socket):
            raise ValueError("a server needs a connected socket")
        if self._identity is None:
            raise ValueError("a server needs a certificate: load_cert_chain")
        timeout = _checked(sock.gettimeout())
        session = _native.accept(
            sock=sock,
            identity=self._identity,
            middlebox_roots=self._middlebox_roots,
            admitted=self._admitted,
            handshake=self.handshake_timeout,
            idle=self.idle_timeout,
        )
        return MctlsSocket(session, self, True, None, timeout)


class MctlsSocket:
    """A session. Two threads may send and receive at the same time.

    What ``recv`` and ``recv_record`` return has passed every check. ``close`` does not say that
    this was all: ``shutdown(socket.SHUT_WR)`` and ``unwrap`` do, and without one of them the other
    side takes the end for a cut, as in ``ssl``.
    """

    def __init__(
        self,
        session: _native.Session,
        context: MctlsContext,
        server_side: bool,
        server_hostname: Optional[str],
        timeout: Optional[float],
    ) -> None:
        self._session = session
        self._timeout = timeout
        self._rest = b""
        self._is_shut = False
        self.context = context
        self.server_side = server_side
        self.server_hostname = server_hostname

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        self.close()

    @property
    def contexts(self) -> list[str]:
        """The names of the contexts, in order."""
        return self._session.contexts

    def settimeout(self, timeout: Optional[float]) -> None:
        """Seconds for each call from now on; None: the context's ``idle_timeout``.

        After a time-out, ``recv`` may be called again; ``sendall`` may not, since nobody knows how
        much was sent.
        """
        self._timeout = _checked(timeout)

    def gettimeout(self) -> Optional[float]:
        return self._timeout

    def sendall(self, data: ReadableBuffer, context: Optional[str] = None) -> None:
        """Sends data in a context, which has to be named where there are several."""
        if context is None:
            names = self.contexts
            if len(names) != 1:
                raise ValueError(f"context is needed: one of {', '.join(names)}")
            context = names[0]
        self._session.send(context, _bytes(data), self._timeout)

    def send(self, data: ReadableBuffer, context: Optional[str] = None) -> int:
        """Sends all of it, and returns its length."""
        data = _bytes(data)
        self.sendall(data, context)
        return len(data)

    def recv_record(self) -> Optional[Record]:
        """The next record; None once the other side has said that this is all.

        Raises ``ValueError`` where ``recv`` has returned a part of a record, and the rest is still
        to be read.
        """
        if self._rest:
            raise ValueError("recv has left a part of a record: read that first")
        return self._next()

    def _next(self) -> Optional[Record]:
        record = self._session.recv(self._timeout)
        if record is None:
            return None
        context, data, changed_by, seen_by = record
        return Record(context, data, tuple(changed_by), tuple(seen_by))

    def recv(self, bufsize: int = 16384) -> bytes:
        """At most so many bytes of the next record, in whichever context; empty at the end."""
        if bufsize < 1:
            raise ValueError("bufsize has to be 1 at least")
        while not self._rest:
            record = self._next()
            if record is None:
                return b""
            self._rest = record.data
        data, self._rest = self._rest[:bufsize], self._rest[bufsize:]
        return data

    def read(self, len: int = 16384) -> bytes:
        return self.recv(len)

    def write(self, data: ReadableBuffer) -> int:
        return self.send(data)

    def recv_into(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        if not view:
            return 0
        data = self.recv(len(view))
        view[: len(data)] = data
        return len(data)

    def pending(self) -> int:
        """How many bytes ``recv`` returns without waiting."""
        return len(self._rest)

    def shutdown(self, how: int) -> None:
        """``socket.SHUT_WR``: says that this was all. Data may still come. No other ``how``."""
        if how != socket.SHUT_WR:
            raise ValueError("only SHUT_WR can be shut down; close ends the rest")
        if not self._is_shut:
            self._is_shut = True
            self._session.shutdown(self._timeout)

    def unwrap(self) -> None:
        """Ends the session in order: both sides have said that this was all.

        Unlike in ``ssl``, no socket is left. Raises ``MctlsError`` where data comes that nobody
        has read.
        """
        from ._errors import MctlsError

        self.shutdown(socket.SHUT_WR)
        if self._rest or self._next() is not None:
            raise MctlsError("data came that nobody has read")
        self.close()

    def close(self) -> None:
        """Ends the connection, and calls of other threads that wait."""
        self._session.close()

    def getpeercert(self, binary_form: bool = True) -> Optional[bytes]:
        """The server's certificate, in DER alone; None at a server, since clients show none."""
        if not binary_form:
            raise ValueError("only binary_form=True; parse it with what you like")
        return self._session.certificate

    def version(self) -> str:
        return PROTOCOL_MCTLS13

    def cipher(self) -> str:
        """How records are protected."""
        return self._session.suite

    def grants(self) -> dict[str, dict[str, Grant]]:
        """For each context, what each middlebox may do, and has done so far."""
        return {
            context: {name: Grant(*cell) for name, cell in cells}
            for context, cells in self._session.grants()
        }

    def report(self) -> str:
        """The same as JSON, which ``tandem mc explain`` shows as a table."""
        return self._session.report_json()

    def makefile(
        self,
        mode: str = "r",
        buffering: Optional[int] = None,
        *,
        context: Optional[str] = None,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
    ) -> IO[Any]:
        """A file of the session, as ``socket.makefile``; what is written goes to ``context``."""
        kind = mode.replace("b", "")
        if kind not in ("r", "w", "rw", "wr"):
            raise ValueError(f"mode {mode!r}")
        raw = _Stream(self, kind, context)
        if buffering == 0:
            if "b" not in mode:
                raise ValueError("text needs a buffer")
            return raw  # type: ignore[return-value]
        size = io.DEFAULT_BUFFER_SIZE if buffering is None or buffering < 0 else buffering
        file: Any
        if kind == "r":
            file = io.BufferedReader(raw, size)
        elif kind == "w":
            file = io.BufferedWriter(raw, size)
        else:
            file = io.BufferedRWPair(raw, raw, size)
        if "b" in mode:
            return file  # type: ignore[no-any-return]
        return io.TextIOWrapper(file, encoding, errors, newline)


class _Stream(io.RawIOBase):
    """A session as a file. Closing it does not close the session."""

    def __init__(self, sock: MctlsSocket, kind: str, context: Optional[str]) -> None:
        self._sock = sock
        self._kind = kind
        self._context = context

    def readable(self) -> bool:
        return "r" in self._kind

    def writable(self) -> bool:
        return "w" in self._kind

    def readinto(self, buffer: WriteableBuffer) -> int:
        return self._sock.recv_into(buffer)

    def write(self, data: ReadableBuffer) -> int:
        return self._sock.send(data, self._context)


def _checked(timeout: Optional[float]) -> Optional[float]:
    if timeout is not None and timeout <= 0:
        raise ValueError("a session cannot be used without waiting; give a time-out above 0")
    return timeout


def _bytes(data: ReadableBuffer) -> bytes:
    # Without the view, a number would be as many zeros.
    return data if isinstance(data, bytes) else bytes(memoryview(data))


def _text(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _authorities(
    cafile: Optional[_Path], capath: None, cadata: Union[str, bytes, None]
) -> list[tuple[Optional[bytes], Optional[bytes]]]:
    """Pairs of PEM and DER, one of them None."""
    if capath is not None:
        raise ValueError("capath cannot be used; give files")
    if cafile is None and cadata is None:
        raise ValueError("cafile or cadata is needed")
    found: list[tuple[Optional[bytes], Optional[bytes]]] = []
    if cafile is not None:
        with open(cafile, "rb") as file:
            found.append((file.read(), None))
    if isinstance(cadata, str):
        found.append((cadata.encode("ascii"), None))
    elif cadata is not None:
        found.append((None, cadata))
    return found


def _add(roots: _native.Roots, pem: Optional[bytes], der: Optional[bytes]) -> None:
    if pem is not None:
        roots.add_pem(pem)
    if der is not None:
        roots.add_der(der)
