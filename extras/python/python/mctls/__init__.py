"""Multi-context TLS, in the shape of the module ``ssl``.

A client and a server admit middleboxes to their session, and grant each of them rights in parts of
the data, called contexts. Every other party, and every other change, is an error that says who is
suspected. The protocol is mctls13 (``docs/mctls13.md`` of Tandem). It has not been reviewed by
anybody outside the project: do not protect anything important with it yet.

>>> context = mctls.MctlsContext()
>>> context.load_verify_locations("ca.pem")
>>> with context.wrap_socket(
...     ("192.0.2.1", 8443),
...     server_hostname="page.example",
...     via=["filter.example@192.0.2.7:4443=question:read"],
...     contexts=["question", "answer"],
... ) as sock:
...     sock.sendall(b"what?", context="question")
...     print(sock.recv_record())

``mctls.requests`` has an adapter for ``requests``.
"""

from ._errors import (
    MctlsBlockedError,
    MctlsCertVerificationError,
    MctlsError,
    MctlsForgedError,
    MctlsRefusedError,
    MctlsTimeoutError,
    MctlsTruncatedError,
)
from ._socket import PROTOCOL_MCTLS13, Grant, MctlsContext, MctlsSocket, Record

__all__ = [
    "PROTOCOL_MCTLS13",
    "Grant",
    "MctlsBlockedError",
    "MctlsCertVerificationError",
    "MctlsContext",
    "MctlsError",
    "MctlsForgedError",
    "MctlsRefusedError",
    "MctlsSocket",
    "MctlsTimeoutError",
    "MctlsTruncatedError",
    "Record",
]
