"""An adapter by which ``requests`` fetches through middleboxes.

>>> session = requests.Session()
>>> adapter = MctlsAdapter(via=["filter.example@192.0.2.7:4443=filter"], trust="ca.pem")
>>> session.mount("https://", adapter)
>>> response = session.get("https://page.example/")
>>> socket_of(response).grants()

HTTP is divided among contexts as ``tandem mc get`` does: request headers, request body, response
headers, response body; or one context for everything. Each request has a session of its own.

Nothing is returned that was not vouched for, and the last bytes of a body only once the server has
said that this was all: a page that was cut short raises an exception.
"""

from __future__ import annotations

import io
import os
import socket
from collections.abc import Iterable, Mapping, Sequence
from http.client import HTTPMessage
from typing import TYPE_CHECKING, Optional, Union, cast
from urllib.parse import urlsplit

import requests
from requests.adapters import HTTPAdapter
from requests.utils import select_proxy
from urllib3 import HTTPResponse, Timeout
from urllib3._collections import HTTPHeaderDict

from . import _native
from ._errors import MctlsError, MctlsTimeoutError
from ._socket import MctlsContext, MctlsSocket

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

__all__ = ["MctlsAdapter", "socket_of"]

Trust = Union[MctlsContext, str, "os.PathLike[str]"]


class MctlsAdapter(HTTPAdapter):
    """For ``session.mount("https://", ...)``.

    ``via`` has the middleboxes, the nearest first: ``[NAME@]HOST:PORT[=GRANTS]``, where GRANTS are
    a kind's (``filter``), or contexts with rights (``request-headers:read``). ``trust`` is a file
    of authorities, or a context. ``connect`` says where servers are, if not where their names lead:
    ``HOST:PORT`` for all, or a mapping of hosts.

    The adapter's trust holds: ``verify`` of a request may not be False and is not used otherwise.
    ``cert`` is refused, since clients show no certificates, and so are proxies, those of the
    environment too.

    Mounted for ``http://`` as well, it refuses what a redirect would send there.
    """

    def __init__(
        self,
        *,
        via: Sequence[str] = (),
        trust: Trust,
        contexts: int = 4,
        connect: Union[None, str, Mapping[str, str]] = None,
        accept_less: bool = False,
    ) -> None:
        super().__init__()
        if isinstance(via, str):
            raise TypeError("via is a list")
        if isinstance(trust, MctlsContext):
            self._context = trust
        else:
            self._context = MctlsContext()
            self._context.load_verify_locations(trust)
        self._via = list(via)
        self._contexts = contexts
        self._connect = connect
        self._accept_less = accept_less

    def send(
        self,
        request: requests.PreparedRequest,
        stream: bool = False,
        timeout: object = None,
        verify: object = True,
        cert: object = None,
        proxies: Optional[Mapping[str, str]] = None,
    ) -> requests.Response:
        if verify is False:
            raise ValueError("certificates are always verified")
        if cert is not None:
            raise ValueError("clients show no certificates")
        proxy = select_proxy(request.url or "", dict(proxies or {}))
        if proxy:
            where = "no proxy can be used; name none, nor in the environment (trust_env=False)"
            raise requests.exceptions.ProxyError(where, request=request)
        limits = _limits(timeout)
        sock: Optional[MctlsSocket] = None
        try:
            limits.start_connect()
            sock = self._open(request, _seconds(limits.connect_timeout))
            sock.settimeout(_seconds(limits.read_timeout))
            response = self._exchange(request, sock)
        except BaseException as error:
            if sock is not None:
                sock.close()
            if isinstance(error, OSError) and not isinstance(error, requests.RequestException):
                raise _translated(error, request, sock is None) from error
            raise
        if not stream:
            # Read, so that what is wrong with the body is an error here.
            response.content
        return response

    def _open(
        self, request: requests.PreparedRequest, timeout: Optional[float]
    ) -> MctlsSocket:
        url = urlsplit(request.url or "")
        if url.scheme != "https" or not url.hostname:
            raise requests.exceptions.InvalidSchema(f"no https: {request.url!r}", request=request)
        host, port = url.hostname, url.port or 443
        where = self._connect
        if where is not None and not isinstance(where, str):
            where = where.get(host)
        if where is not None:
            name, _, number = where.rpartition(":")
            address = (name.strip("[]"), int(number))
        else:
            address = (host, port)
        patience = self._context.handshake_timeout if timeout is None else timeout
        return self._context._connect(
            address,
            server_hostname=host,
            via=self._via,
            contexts=self._contexts,
            accept_less=self._accept_less,
            handshake=patience,
        )

    def _exchange(
        self, request: requests.PreparedRequest, sock: MctlsSocket
    ) -> requests.Response:
        whole = len(sock.contexts) == 1
        heads, bodies = ("all", "all") if whole else ("request-headers", "request-body")
        method = request.method or "GET"
        sock.sendall(_native.request_head(method, request.path_url, _lines(request)), heads)
        is_chunked = request.headers.get("Transfer-Encoding", "").lower() == "chunked"
        for piece in _pieces(request.body):
            if is_chunked:
                piece = b"%x\r\n%s\r\n" % (len(piece), piece)
            sock.sendall(piece, bodies)
        if is_chunked:
            sock.sendall(b"0\r\n\r\n", bodies)
        body = _Body(sock, method)
        status, reason, lines = body.head()
        headers, message = HTTPHeaderDict(), HTTPMessage()
        for name, value in lines:
            text = value.decode("latin-1")
            headers.add(name, text)
            message.add_header(name, text)
        # A server tells of requests alone; the socket knows the rest.
        sock._session.note_request(headers.get("Mc-Request", ""))
        raw = HTTPResponse(
            body=cast("io.BufferedReader", body),
            headers=headers,
            status=status,
            reason=reason,
            version=11,
            preload_content=False,
            decode_content=False,
            request_method=method,
            request_url=request.url,
            original_response=cast("None", _Original(message, sock)),
        )
        response: requests.Response = self.build_response(request, raw)
        response.__dict__["mctls"] = sock
        return response


def socket_of(response: requests.Response) -> MctlsSocket:
    """The session in which a response came: who may do what, and who did."""
    return cast(MctlsSocket, response.__dict__["mctls"])


class _Body(io.RawIOBase):
    """The body of an answer. What has come last is held until more comes, or the end is sure."""

    def __init__(self, sock: MctlsSocket, method: str) -> None:
        self._sock = sock
        self._answer = _native.Answer(method)
        self._held = b""
        self._ready = b""
        self._is_whole = False
        self._is_over = False

    def head(self) -> tuple[int, str, list[tuple[str, bytes]]]:
        while True:
            head = self._more()
            if head is not None:
                break
        if self._is_whole and not self._held:
            # There is no body to read the end behind.
            self._finish()
        return head

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        while not self._ready and not self._is_over:
            if self._is_whole:
                self._finish()
            else:
                self._more()
        length = min(len(view), len(self._ready))
        view[:length], self._ready = self._ready[:length], self._ready[length:]
        return length

    def _more(self) -> Optional[tuple[int, str, list[tuple[str, bytes]]]]:
        record = self._sock.recv_record()
        context, data = ("", None) if record is None else (record.context, record.data)
        head, body, self._is_whole = self._answer.push(context, data)
        if body:
            self._ready, self._held = self._ready + self._held, body
        if record is None:
            self._end()
        return head

    def _finish(self) -> None:
        """Reads to the end of the session, which has to be the server's."""
        self._sock.shutdown(socket.SHUT_WR)
        while not self._is_over:
            self._more()

    def _end(self) -> None:
        self._is_over = True
        self._ready, self._held = self._ready + self._held, b""
        self._sock.close()

    def close(self) -> None:
        self._sock.close()
        super().close()


class _Original:
    """What ``requests`` takes cookies from, and ``urllib3`` closes after an error."""

    def __init__(self, msg: HTTPMessage, sock: MctlsSocket) -> None:
        self.msg = msg
        self._sock = sock

    def isclosed(self) -> bool:
        return False

    def close(self) -> None:
        self._sock.close()


def _lines(request: requests.PreparedRequest) -> list[tuple[str, bytes]]:
    def to_bytes(value: Union[str, bytes]) -> bytes:
        return value.encode("latin-1") if isinstance(value, str) else value

    url = urlsplit(request.url or "")
    lines = [("Host", url.netloc.rpartition("@")[2].encode("ascii"))]
    for name, value in request.headers.items():
        text = name.decode("ascii") if isinstance(name, bytes) else name
        if text.lower() in ("host", "connection"):
            if text.lower() == "host":
                lines[0] = ("Host", to_bytes(value))
            continue
        lines.append((text, to_bytes(value)))
    lines.append(("Connection", b"close"))
    return lines


def _pieces(body: object) -> Iterable[bytes]:
    if body is None:
        return
    if isinstance(body, str):
        body = body.encode("utf-8")
    if isinstance(body, (bytes, bytearray, memoryview)):
        if body:
            yield bytes(body)
        return
    read = getattr(body, "read", None)
    pieces = iter(lambda: read(1 << 16), b"") if read else cast("Iterable[object]", body)
    for piece in pieces:
        # The view refuses numbers, which would become as many zeros.
        view = piece.encode("utf-8") if isinstance(piece, str) else cast(bytes, piece)
        data = bytes(memoryview(view))
        if not data:
            if read:
                return
            continue
        yield data


def _limits(timeout: object) -> Timeout:
    if isinstance(timeout, Timeout):
        return timeout.clone()
    connect, read = timeout if isinstance(timeout, tuple) else (timeout, timeout)
    return Timeout(connect=connect, read=read)


def _seconds(limit: object) -> Optional[float]:
    # None, or what stands for a default. Where nothing is left of a total, a wait is a time-out.
    return max(limit, 0.001) if isinstance(limit, (int, float)) else None


def _translated(
    error: OSError, request: requests.PreparedRequest, is_connecting: bool
) -> requests.RequestException:
    if isinstance(error, MctlsTimeoutError):
        if is_connecting:
            return requests.exceptions.ConnectTimeout(error, request=request)
        return requests.exceptions.ReadTimeout(error, request=request)
    if isinstance(error, MctlsError):
        return requests.exceptions.SSLError(error, request=request)
    return requests.exceptions.ConnectionError(error, request=request)
