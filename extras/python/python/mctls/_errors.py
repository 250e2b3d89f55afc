"""What can go wrong. All of it is an ``ssl.SSLError``, and so an ``OSError``."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Sequence
from typing import Optional


class MctlsError(ssl.SSLError):
    """A session could not be had, or has ended.

    ``middlebox`` is the name of the middlebox that the error is about; ``suspects`` are the names
    of those that may have overstepped, where the protocol cannot tell them apart; ``context`` is
    where. None and empty where nobody can be named.
    """

    middlebox: Optional[str]
    suspects: tuple[str, ...]
    context: Optional[str]

    def __init__(
        self,
        words: str,
        middlebox: Optional[str] = None,
        suspects: Sequence[str] = (),
        context: Optional[str] = None,
    ) -> None:
        super().__init__(words)
        self.middlebox = middlebox
        self.suspects = tuple(suspects)
        self.context = context

    def __str__(self) -> str:
        return str(self.args[0])


class MctlsBlockedError(MctlsError):
    """A middlebox did not let the exchange through."""


class MctlsForgedError(MctlsError):
    """Somebody did what he may not: changed, forged, moved, repeated or dropped a record."""


class MctlsRefusedError(MctlsError):
    """The server refuses the session, or grants less than was asked for."""


class MctlsTruncatedError(MctlsError, ssl.SSLEOFError):
    """The connection was cut: the data may be incomplete."""


class MctlsCertVerificationError(MctlsError, ssl.SSLCertVerificationError):
    """The certificate of the server or of a middlebox is not good."""


class MctlsTimeoutError(MctlsError, socket.timeout):
    """The other side, or a middlebox, was silent or took nothing for too long."""
