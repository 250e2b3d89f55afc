"""``requests`` through the real server and the real middleboxes."""

from __future__ import annotations

import json
import socket
import subprocess
import unittest
from typing import Optional

import mctls
import requests
import urllib3
from mctls.requests import MctlsAdapter, _pieces, socket_of
from place import PROGRAM, Place, page

URL = "https://page.example"


def cause(error: BaseException) -> Optional[mctls.MctlsError]:
    """The error of ours below those of requests and urllib3."""
    below: object = error
    while isinstance(below, BaseException):
        if isinstance(below, mctls.MctlsError):
            return below
        below = below.args[0] if below.args else None
    return None


class Fetching(unittest.TestCase):
    place: Place
    site: str
    filter: str
    zip: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = Place()
        cls.site = cls.place.site()
        cls.filter = cls.place.middlebox("filter.example", "filter", 'block = ["/games"]')
        cls.zip = cls.place.middlebox("zip.example", "compress")

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.close()

    def session(
        self, *via: str, contexts: int = 4, connect: Optional[str] = None
    ) -> requests.Session:
        session = requests.Session()
        self.addCleanup(session.close)
        # Proxies of whoever runs the tests.
        session.trust_env = False
        context = self.place.client()
        adapter = MctlsAdapter(
            via=via, trust=context, contexts=contexts, connect=connect or self.site
        )
        session.mount("https://", adapter)
        return session

    def by_both(self) -> list[str]:
        return [f"filter.example@{self.filter}=filter", f"zip.example@{self.zip}=compress"]

    def test_a_page_comes_through_two_middleboxes_and_each_did_what_it_may(self) -> None:
        for contexts in (4, 1):
            response = self.session(*self.by_both(), contexts=contexts).get(URL + "/")
            self.assertEqual((response.status_code, response.text), (200, page()))
            self.assertEqual(response.headers["Content-Encoding"], "gzip")
            granted = socket_of(response).grants()
            if contexts == 1:
                self.assertEqual(granted["all"]["zip.example"], ("write", True, True))
                continue
            # The server has told of the request.
            self.assertEqual(
                granted["request-headers"],
                {"filter.example": ("read", True, False), "zip.example": ("none", False, False)},
            )
            body = granted["response-body"]
            self.assertEqual(body["zip.example"], ("write", True, True))
            self.assertEqual(body["filter.example"], ("none", False, False))
            report = self.place.folder / "report.json"
            report.write_text(socket_of(response).report())
            table = subprocess.run(
                [PROGRAM, "explain", str(report)], check=True, capture_output=True, text=True
            )
            self.assertIn("write changed", table.stdout)
            self.assertEqual(json.loads(report.read_text())["protocol"], "mctls13")

    def test_methods_and_bodies(self) -> None:
        session = self.session(*self.by_both())
        head = session.head(URL + "/")
        self.assertEqual((head.status_code, head.content), (200, b""))
        self.assertEqual(session.get(URL + "/none").status_code, 404)
        pieces = iter([b"in ", b"chunks"])
        for body in (b"whole", pieces):
            self.assertEqual(session.post(URL + "/", data=body).status_code, 405)

    def test_a_body_is_bytes_in_whatever_shape(self) -> None:
        for body in (b"body", bytearray(b"body"), memoryview(b"body"), "body"):
            self.assertEqual(list(_pieces(body)), [b"body"])
        self.assertEqual(list(_pieces(iter(["a", bytearray(b"b")]))), [b"a", b"b"])
        for empty in (None, b"", bytearray(), memoryview(b"")):
            self.assertEqual(list(_pieces(empty)), [])
        with self.assertRaises(TypeError):
            list(_pieces([1, 2]))
        response = self.session().post(URL + "/", data=bytearray(b"whole"))
        self.assertEqual(response.status_code, 405)

    def test_a_page_may_be_streamed(self) -> None:
        with self.session(*self.by_both()).get(URL + "/", stream=True) as response:
            got = b"".join(response.iter_content(1000))
        self.assertEqual(got.decode(), page())
        with self.session().get(URL + "/", stream=True) as response:
            next(response.iter_content(1000))

    def test_a_blocked_page_names_the_middlebox(self) -> None:
        for contexts in (4, 1):
            session = self.session(*self.by_both(), contexts=contexts)
            with self.assertRaises(requests.exceptions.SSLError) as blocked:
                session.get(URL + "/games.html")
            error = cause(blocked.exception)
            self.assertIsInstance(error, mctls.MctlsBlockedError)
            assert error is not None
            self.assertEqual(error.middlebox, "filter.example")
            self.assertIn("filter.example (middlebox 1) blocked", str(blocked.exception))

    def test_a_page_that_was_cut_is_an_error(self) -> None:
        # Behind the handshake and the head, within the body.
        def cut(data: bytes, before: int) -> Optional[bytes]:
            return data if before + len(data) < 24000 else None

        session = self.session(connect=self.place.hop(self.site, cut))
        with self.assertRaises(requests.RequestException):
            session.get(URL + "/")
        with session.get(URL + "/", stream=True) as response:
            self.assertEqual(response.status_code, 200)
            with self.assertRaises(requests.RequestException):
                response.content

    def test_a_page_whose_closing_record_is_missing_is_an_error(self) -> None:
        total = 0

        def measure(data: bytes, before: int) -> Optional[bytes]:
            nonlocal total
            total = before + len(data)
            return data

        self.session(connect=self.place.hop(self.site, measure)).get(URL + "/")
        # Signatures make one session some bytes longer or shorter than the next.
        end = total - 16

        def cut(data: bytes, before: int) -> Optional[bytes]:
            return data[: max(0, end - before)] or None

        session = self.session(connect=self.place.hop(self.site, cut))
        with self.assertRaises(requests.RequestException):
            session.get(URL + "/")
        got = b""
        with session.get(URL + "/", stream=True) as response:
            with self.assertRaises(requests.RequestException):
                # Without a rest that urllib3 would hold by itself.
                for piece in response.iter_content(len(page()) // 1000):
                    got += piece
        self.assertLess(len(got), len(page()))

    def test_a_byte_that_was_changed_on_the_way_is_an_error(self) -> None:
        def change(data: bytes, before: int) -> Optional[bytes]:
            if before <= 20000 < before + len(data):
                at = 20000 - before
                return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
            return data

        session = self.session(connect=self.place.hop(self.site, change))
        with self.assertRaises(requests.RequestException) as caught:
            session.get(URL + "/")
        self.assertIsInstance(cause(caught.exception), mctls.MctlsForgedError)

    def test_a_silent_server_is_a_time_out(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = "127.0.0.1:%d" % silent.getsockname()[1]
            with self.assertRaises(requests.exceptions.ConnectTimeout):
                self.session(connect=address).get(URL + "/", timeout=0.3)
            with self.assertRaises(requests.exceptions.ConnectTimeout):
                limits = urllib3.Timeout(total=0.3)
                self.session(connect=address).get(URL + "/", timeout=limits)  # type: ignore[arg-type]
        for limits in (urllib3.Timeout(), urllib3.Timeout(connect=20, total=30)):
            response = self.session().get(URL + "/", timeout=limits)  # type: ignore[arg-type]
            self.assertEqual(response.status_code, 200)

    def test_what_cannot_be_is_refused(self) -> None:
        session = self.session()
        with self.assertRaises(ValueError):
            session.get(URL + "/", verify=False)
        with self.assertRaises(ValueError):
            session.get(URL + "/", headers={"X": "caf\u00e9\x00"})
        with self.assertRaises(requests.exceptions.ProxyError) as refused:
            session.get(URL + "/", proxies={"https": "http://127.0.0.1:9"})
        self.assertIn("no proxy can be used", str(refused.exception))
        self.assertEqual(session.get(URL + "/", proxies={"ftp": "http://x"}).status_code, 200)
        cache = self.place.middlebox("cache.example", "cache")
        with self.assertRaises(ValueError):
            self.session(f"cache.example@{cache}=cache").get(URL + "/")
        session.mount("http://", session.adapters["https://"])
        with self.assertRaises(requests.exceptions.InvalidSchema):
            session.get("http://page.example/")


if __name__ == "__main__":
    unittest.main()
