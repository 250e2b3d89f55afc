"""Sessions, in the shape of ``ssl``."""

from __future__ import annotations

import errno
import os
import signal
import socket
import ssl
import threading
import unittest
from types import FrameType
from typing import Optional

import mctls
from place import Place


class Sessions(unittest.TestCase):
    place: Place

    @classmethod
    def setUpClass(cls) -> None:
        cls.place = Place()

    @classmethod
    def tearDownClass(cls) -> None:
        cls.place.close()

    def test_data_crosses_in_contexts_and_ends_in_order(self) -> None:
        near, far = self.place.pair()
        with near, far:
            near.sendall(b"what?", context="question")
            near.shutdown(socket.SHUT_WR)
            self.assertEqual(far.recv_record(), ("question", b"what?", (), ()))
            self.assertIsNone(far.recv_record())
            far.sendall(bytearray(b"that"), context="answer")
            far.shutdown(socket.SHUT_WR)
            self.assertEqual(near.recv(1), b"t")
            self.assertEqual(near.pending(), 3)
            with self.assertRaises(ValueError):
                near.recv_record()
            self.assertEqual(near.recv(100), b"hat")
            self.assertEqual(near.recv(100), b"")
            near.unwrap()
            self.assertEqual(near.contexts, ["question", "answer"])
            self.assertEqual(near.version(), mctls.PROTOCOL_MCTLS13)
            with open(self.place.server_files[0]) as file:
                leaf = ssl.PEM_cert_to_DER_cert(file.read())
            self.assertEqual(near.getpeercert(binary_form=True), leaf)
            self.assertIsNone(far.getpeercert())

    def test_a_context_has_to_be_named_where_there_are_several(self) -> None:
        near, far = self.place.pair()
        with near, far:
            for wrong in (None, "none"):
                with self.assertRaises(ValueError):
                    near.sendall(b"x", context=wrong)
            near.sendall(b"x", context="answer")
        near, far = self.place.pair(contexts=("all",))
        with near, far:
            near.sendall(b"x")
            self.assertEqual(far.recv(), b"x")

    def test_data_is_bytes_and_not_a_number(self) -> None:
        near, far = self.place.pair(contexts=("all",))
        with near, far:
            for send in (near.sendall, near.send):
                with self.assertRaises(TypeError):
                    send(5)  # type: ignore[arg-type]
            near.sendall(memoryview(b"abcd")[::2])
            self.assertEqual(near.send(bytearray(b"e")), 1)
            self.assertEqual((far.recv(), far.recv()), (b"ac", b"e"))

    def test_a_session_is_a_file(self) -> None:
        near, far = self.place.pair()
        with near, far:
            with near.makefile("rw", context="question", encoding="utf-8") as file:
                file.write("one\ntwo\n")
                file.flush()
                with far.makefile("rb") as lines:
                    self.assertEqual(lines.readline(), b"one\n")
                    self.assertEqual(lines.readline(), b"two\n")

    def test_a_connected_socket_is_taken_over(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = self.place.server()
            far: list[mctls.MctlsSocket] = []

            def accept() -> None:
                far.append(server.wrap_socket(listener.accept()[0], server_side=True))

            thread = threading.Thread(target=accept)
            thread.start()
            sock = socket.create_connection(listener.getsockname())
            near = self.place.client().wrap_socket(sock, server_hostname="page.example")
            thread.join()
            self.assertEqual(sock.fileno(), -1)
            near.sendall(b"x")
            self.assertEqual(far[0].recv(), b"x")
            near.close()
            far[0].close()

    def test_a_socket_stays_open_where_an_argument_has_a_wrong_type(self) -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            with socket.create_connection(listener.getsockname()) as sock:
                client = self.place.client()
                for more in ({"contexts": 300}, {"contexts": [1]}, {"via": [1]}):
                    with self.assertRaises((TypeError, OverflowError)):
                        client.wrap_socket(
                            sock,
                            server_hostname="page.example",
                            address=("127.0.0.1", 9),
                            **more,
                        )
                    self.assertNotEqual(sock.fileno(), -1)
                server = self.place.server()
                server.idle_timeout = "1"  # type: ignore[assignment]
                with self.assertRaises(TypeError):
                    server.wrap_socket(sock, server_side=True)
                self.assertNotEqual(sock.fileno(), -1)

    def test_a_middlebox_sees_what_it_was_granted(self) -> None:
        box = self.place.middlebox("null.example", "null")
        near, far = self.place.pair(via=(f"null.example@{box}=question:read",))
        with near, far:
            near.sendall(b"what?", context="question")
            near.sendall(b"x", context="answer")
            first, second = far.recv_record(), far.recv_record()
            assert first is not None and second is not None
            self.assertEqual((first.seen_by, first.author), (("null.example",), None))
            self.assertEqual(second.seen_by, ())
            granted = far.grants()
            self.assertEqual(granted["question"], {"null.example": ("read", True, False)})
            self.assertEqual(granted["answer"], {"null.example": ("none", False, False)})

    def test_a_server_admits_whom_it_likes(self) -> None:
        box = self.place.middlebox("reads.example", "null")
        via = (f"reads.example@{box}=question:write,answer:read",)
        server = self.place.server()
        server.admit("reads.example", {"question": "read", "answer": "read"})
        with self.assertRaises(mctls.MctlsRefusedError) as less:
            self.place.pair(server, via)
        self.assertEqual(less.exception.middlebox, "reads.example")
        server = self.place.server()
        server.admit("other.example", {})
        with self.assertRaises(mctls.MctlsRefusedError):
            self.place.pair(server, via)

    def test_two_threads_send_and_receive_at_once(self) -> None:
        much = bytes(4 << 20)
        near, far = self.place.pair()
        lengths = []

        def pour(sock: mctls.MctlsSocket) -> None:
            sock.sendall(much, context="answer")
            sock.shutdown(socket.SHUT_WR)

        def drain(sock: mctls.MctlsSocket) -> None:
            lengths.append(sum(iter(lambda: len(sock.recv()), 0)))

        with near, far:
            threads = [
                threading.Thread(target=work, args=(sock,))
                for sock in (near, far)
                for work in (pour, drain)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(lengths, [len(much), len(much)])

    def test_a_time_out_is_sockets_and_not_the_end(self) -> None:
        near, far = self.place.pair()
        with near, far:
            near.settimeout(0.2)
            self.assertEqual(near.gettimeout(), 0.2)
            with self.assertRaises(socket.timeout) as late:
                near.recv()
            self.assertIsInstance(late.exception, mctls.MctlsTimeoutError)
            self.assertIsInstance(late.exception, ssl.SSLError)
            far.sendall(b"late", context="answer")
            # More than the clock holds.
            near.settimeout(1e19)
            self.assertEqual(near.recv(), b"late")
            near.settimeout(None)
            with self.assertRaises(ValueError):
                near.settimeout(0)

    def test_closing_ends_a_call_that_waits(self) -> None:
        near, far = self.place.pair()
        waits = threading.Event()

        def close() -> None:
            waits.wait()
            near.close()

        thread = threading.Thread(target=close)
        thread.start()
        with self.assertRaises(OSError) as ended:
            waits.set()
            near.recv()
        thread.join()
        self.assertEqual(ended.exception.errno, errno.EBADF)
        far.close()

    def test_a_signal_ends_a_call_that_waits(self) -> None:
        class Signalled(Exception):
            pass

        def handle(_number: int, _frame: Optional[FrameType]) -> None:
            raise Signalled

        near, far = self.place.pair()
        before = signal.signal(signal.SIGALRM, handle)
        try:
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            with self.assertRaises(Signalled):
                near.recv()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
        with near, far:
            far.sendall(b"still there", context="answer")
            self.assertEqual(near.recv(), b"still there")

    def test_a_cut_is_no_end(self) -> None:
        near, far = self.place.pair()
        near.close()
        with self.assertRaises((mctls.MctlsTruncatedError, ConnectionResetError)):
            far.recv()
        far.close()
        with self.assertRaises(OSError):
            far.recv()

    def test_certificates_and_names_are_verified(self) -> None:
        context = self.place.client()
        self.assertEqual(context.verify_mode, ssl.CERT_REQUIRED)
        with self.assertRaises(ValueError):
            context.verify_mode = ssl.CERT_NONE
        with self.assertRaises(ValueError):
            context.check_hostname = False
        with socket.create_server(("127.0.0.1", 0)) as listener:
            server = self.place.server()

            def refuse() -> None:
                with self.assertRaises(OSError):
                    server.wrap_socket(listener.accept()[0], server_side=True)

            for name, client in (("other.example", context), ("page.example", None)):
                thread = threading.Thread(target=refuse)
                thread.start()
                with self.assertRaises(ssl.SSLCertVerificationError) as wrong:
                    # Without any authority in the second round.
                    (client or mctls.MctlsContext()).wrap_socket(
                        listener.getsockname(), server_hostname=name
                    )
                thread.join()
                self.assertIsInstance(wrong.exception, mctls.MctlsCertVerificationError)

    def test_a_middlebox_with_another_name_is_named(self) -> None:
        box = self.place.middlebox("right.example", "null")
        with self.assertRaises(mctls.MctlsCertVerificationError) as wrong:
            self.place.pair(via=(f"wrong.example@{box}",))
        self.assertEqual(wrong.exception.middlebox, "wrong.example")

    def test_what_cannot_be_is_refused(self) -> None:
        context = self.place.client()
        nowhere = ("127.0.0.1", 9)
        with self.assertRaises(ValueError):
            mctls.MctlsContext("mctls12")
        with self.assertRaises(ValueError):
            context.wrap_socket(nowhere)
        with self.assertRaises(TypeError):
            context.wrap_socket(nowhere, server_hostname="x", contexts="all")
        for via in ("nowhere", "127.0.0.1:9=none:read", "127.0.0.1:9=filter"):
            with self.assertRaises(ValueError):
                context.wrap_socket(
                    nowhere, server_hostname="page.example", via=[via], contexts=["one"]
                )
        with self.assertRaises(ConnectionRefusedError):
            context.wrap_socket(nowhere, server_hostname="page.example")

    @unittest.skipUnless(hasattr(os, "fork"), "needs fork")
    def test_a_child_has_sessions_of_its_own(self) -> None:
        near, far = self.place.pair()
        with near, far:
            child = os.fork()
            if child == 0:
                status = 1
                try:
                    ours, theirs = self.place.pair()
                    ours.sendall(b"x", context="answer")
                    status = 0 if theirs.recv() == b"x" else 1
                finally:
                    os._exit(status)
            self.assertEqual(os.waitpid(child, 0)[1], 0)
            near.sendall(b"x", context="answer")
            self.assertEqual(far.recv(), b"x")


if __name__ == "__main__":
    unittest.main()
