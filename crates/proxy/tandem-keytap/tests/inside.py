# A program that uses OpenSSL by its C interface, for inside.rs: connections over memory, so that only hellos are made.
#
#   python3 inside.py PROBE CERTIFICATE KEY ISSUERS [LIBRARY...]
#
# Functions are looked up in the whole process (CDLL(None)), as the linker does for a program: a library that was loaded first
# stands before OpenSSL. LIBRARY: loaded so by hand, in place of LD_PRELOAD.
import ctypes
import faulthandler
import os
import socket
import struct
import sys
import threading

PROBE, CERTIFICATE, KEY, ISSUERS = sys.argv[1:5]
for library in sys.argv[5:]:
    ctypes.CDLL(library, mode=ctypes.RTLD_GLOBAL)
SSL = os.environ.get("TANDEM_KEYTAP_LIBSSL", "libssl.so.3")
CII = 0x009A
PEM = 1


class Interface:
    """OpenSSL's functions, found in `place`; all pointers are `void *`."""

    def __init__(self, place):
        self.place = place

    def __getattr__(self, name):
        function = getattr(self.place, name)
        pointers = ("_new", "_method", "BIO_", "SSL_set_SSL_CTX", "TLS_", "_get0_", "_accept_connection")
        returns_pointer = any(part in name for part in pointers) and name not in ("BIO_read", "BIO_ctrl")
        function.restype = ctypes.c_void_p if returns_pointer else ctypes.c_int
        return function


def p(value):
    return ctypes.c_void_p(value)


own = ctypes.CDLL(SSL, mode=ctypes.RTLD_GLOBAL)
o = Interface(ctypes.CDLL(None))


def context(certificate=True, chain=False, of=None, method="TLS_client_method"):
    of = of or o
    made = of.SSL_CTX_new(p(getattr(of, method)()))
    assert made
    if certificate:
        assert of.SSL_CTX_use_certificate_file(p(made), CERTIFICATE.encode(), PEM) == 1
        assert of.SSL_CTX_use_PrivateKey_file(p(made), KEY.encode(), PEM) == 1
    if chain:
        assert of.SSL_CTX_load_verify_locations(p(made), ISSUERS.encode(), None) == 1
    return made


def extensions(connection, of=None):
    """The extensions of the hello that this connection begins with."""
    of = of or o
    reads, writes = of.BIO_new(p(of.BIO_s_mem())), of.BIO_new(p(of.BIO_s_mem()))
    of.SSL_set_bio(p(connection), p(reads), p(writes))
    of.SSL_set_connect_state(p(connection))
    assert of.SSL_do_handshake(p(connection)) == -1
    buffer = ctypes.create_string_buffer(1 << 14)
    length = of.BIO_read(p(writes), buffer, len(buffer))
    hello = buffer.raw[:length]
    at = 5 + 4 + 2 + 32
    at += 1 + hello[at]
    at += 2 + struct.unpack_from(">H", hello, at)[0]
    at += 1 + hello[at]
    end = at + 2 + struct.unpack_from(">H", hello, at)[0]
    assert end == len(hello)
    at += 2
    found = []
    while at < end:
        number, length = struct.unpack_from(">HH", hello, at)
        found.append((number, hello[at + 4 : at + 4 + length]))
        at += 4 + length
    return found


def announced(connection, of=None):
    bodies = [body for number, body in extensions(connection, of) if number == CII]
    assert len(bodies) <= 1
    return len(bodies[0]) // 16 if bodies else 0


def plain():
    assert announced(o.SSL_new(p(context()))) == 1
    assert announced(o.SSL_new(p(context(certificate=False)))) == 0


def silent():
    assert announced(o.SSL_new(p(context()))) == 0


def elevated():
    # 23: AT_SECURE. Where files of other users start without their rights, there is nothing to see.
    getauxval = ctypes.CDLL(None).getauxval
    getauxval.restype = ctypes.c_ulong
    if getauxval(ctypes.c_ulong(23)) == 0:
        print("no rights")
        sys.exit()
    silent()


def registered_by_the_program():
    """What the program registers under that number stays its own, and its registration succeeds."""
    add = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.c_uint, ctypes.POINTER(ctypes.c_void_p),
        ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_int), ctypes.c_void_p,
    )
    text = ctypes.create_string_buffer(b"the program's own", 17)

    def write(_connection, _number, out, length, _alert, _argument):
        out[0] = ctypes.addressof(text)
        length[0] = 17
        return 1

    callback = add(write)
    made = context()
    assert o.SSL_CTX_add_client_custom_ext(p(made), CII, callback, None, None, None, None) == 1
    bodies = [body for number, body in extensions(o.SSL_new(p(made))) if number == CII]
    assert bodies == [b"the program's own"], bodies


def other_ways():
    """Connections that are made without SSL_new by its name."""
    for make in ("BIO_new_ssl_connect", "BIO_new_buffer_ssl_connect"):
        bio = getattr(o, make)(p(context()))
        connection = ctypes.c_void_p()
        # 110: BIO_C_GET_SSL.
        assert o.BIO_ctrl(p(bio), 110, 0, ctypes.byref(connection)) == 1
        assert announced(connection.value) == 1, make
    bio = o.BIO_new_ssl(p(context()), 1)
    connection = ctypes.c_void_p()
    assert o.BIO_ctrl(p(bio), 110, 0, ctypes.byref(connection)) == 1
    assert announced(connection.value) == 1
    # The context that a connection is moved to counts, and back again.
    without, with_one = context(certificate=False), context()
    connection = o.SSL_new(p(without))
    assert o.SSL_set_SSL_CTX(p(connection), p(with_one)) == with_one
    assert announced(connection) == 1
    connection = o.SSL_new(p(with_one))
    assert o.SSL_set_SSL_CTX(p(connection), p(without)) == without
    assert o.SSL_set_SSL_CTX(p(connection), None) == with_one
    assert announced(connection) == 1


def late_certificate():
    """A certificate that is set for one connection."""
    connection = o.SSL_new(p(context(certificate=False)))
    assert o.SSL_use_certificate_file(p(connection), CERTIFICATE.encode(), PEM) == 1
    assert o.SSL_use_PrivateKey_file(p(connection), KEY.encode(), PEM) == 1
    assert announced(connection) == 1


def nothing_is_left_behind():
    """A chain that OpenSSL builds by itself is looked at, and the connection and the queue of errors are as before."""
    connection = o.SSL_new(p(context(chain=True)))
    assert announced(connection) == 3
    stack = ctypes.c_void_p(1)
    # 115: SSL_CTRL_GET_CHAIN_CERTS.
    o.SSL_ctrl(p(connection), 115, 0, ctypes.byref(stack))
    assert stack.value is None
    assert o.ERR_peek_error() == 0
    # 33: SSL_CTRL_MODE, 8: SSL_MODE_NO_AUTO_CHAIN.
    connection = o.SSL_new(p(context(chain=True)))
    o.SSL_ctrl(p(connection), 33, 8, None)
    assert announced(connection) == 1


def datagrams():
    """DTLS has no proxy to announce to."""
    made = o.SSL_CTX_new(p(o.DTLS_client_method()))
    assert o.SSL_CTX_use_certificate_file(p(made), CERTIFICATE.encode(), PEM) == 1
    assert o.SSL_CTX_use_PrivateKey_file(p(made), KEY.encode(), PEM) == 1
    connection = o.SSL_new(p(made))
    reads, writes = o.BIO_new(p(o.BIO_s_mem())), o.BIO_new(p(o.BIO_s_mem()))
    o.SSL_set_bio(p(connection), p(reads), p(writes))
    o.SSL_set_connect_state(p(connection))
    assert o.SSL_do_handshake(p(connection)) == -1
    buffer = ctypes.create_string_buffer(1 << 14)
    length = o.BIO_read(p(writes), buffer, len(buffer))
    # 22: a handshake record, of DTLS 1.0 or later.
    assert buffer.raw[:2] == b"\x16\xfe"
    assert struct.pack(">HH", CII, 16) not in buffer.raw[:length]


def quic():
    """Connections of QUIC: OpenSSL calls back while it holds their lock, and who asks for it again waits for ever."""
    faulthandler.dump_traceback_later(60, exit=True)
    made = context(method="OSSL_QUIC_client_method")
    logged = []
    log = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_char_p)(lambda _, line: logged.append(line))
    o.SSL_CTX_set_keylog_callback(p(made), log)
    sockets = []

    def over_udp(connection):
        sockets.append(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        sockets[-1].bind(("127.0.0.1", 0))
        sockets[-1].setblocking(False)
        bio = o.BIO_new_dgram(sockets[-1].fileno(), 0)
        o.SSL_set_bio(p(connection), p(bio), p(bio))
        assert o.SSL_set_blocking_mode(p(connection), 0) == 1
        return sockets[-1]

    def client(to):
        connection = o.SSL_new(p(made))
        over_udp(connection)
        address, (host, port) = o.BIO_ADDR_new(), to.getsockname()
        host, size = socket.inet_aton(host), ctypes.c_size_t(4)
        assert o.BIO_ADDR_rawmake(p(address), socket.AF_INET, host, size, socket.htons(port)) == 1
        assert o.SSL_set1_initial_peer_addr(p(connection), p(address)) == 1
        assert o.SSL_set_alpn_protos(p(connection), b"\x04test", 5) == 0
        return connection

    nobody = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    nobody.bind(("127.0.0.1", 0))
    assert o.SSL_do_handshake(p(client(nobody))) == -1
    assert len(nobody.recv(1 << 16, socket.MSG_DONTWAIT)) >= 1200
    # Servers since 3.5.
    if not hasattr(own, "SSL_new_listener"):
        return

    def choose(_connection, out, length, offered, _length, _argument):
        out[0], length[0] = offered + 1, 4
        return 0

    choice = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_ubyte),
        ctypes.c_void_p, ctypes.c_uint, ctypes.c_void_p,
    )(choose)
    server = context(method="OSSL_QUIC_server_method")
    o.SSL_CTX_set_alpn_select_cb(p(server), choice, None)
    listener = o.SSL_new_listener(p(server), ctypes.c_uint64(0))
    connection = client(over_udp(listener))
    assert o.SSL_listen(p(listener)) == 1
    accepted = None
    while o.SSL_do_handshake(p(connection)) != 1:
        o.SSL_handle_events(p(listener))
        # 1: SSL_ACCEPT_CONNECTION_NO_BLOCK.
        accepted = accepted or o.SSL_accept_connection(p(listener), ctypes.c_uint64(1))
    assert any(line.startswith(b"SERVER_HANDSHAKE_TRAFFIC_SECRET") for line in logged), logged


def failures():
    assert o.SSL_new(None) is None
    assert o.BIO_new_ssl_connect(None) is None
    assert o.SSL_set_SSL_CTX(p(o.SSL_new(p(context()))), None)


def threads():
    """Many threads make their first connection from one context at once."""
    for _ in range(50):
        made = context()
        ready = threading.Barrier(8)
        counts = []

        def first():
            ready.wait()
            counts.append(announced(o.SSL_new(p(made))))

        running = [threading.Thread(target=first) for _ in range(8)]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
        assert counts == [1] * 8, counts


def two_libraries():
    """A context is given to the library that made it, whichever was loaded first."""
    other = Interface(ctypes.CDLL(os.environ["TANDEM_KEYTAP_OTHER_LIBSSL"]))
    for of in (Interface(own), other):
        made = context(of=of)
        connection = o.SSL_new(p(made))
        assert announced(connection, of) == 1
        assert o.SSL_set_SSL_CTX(p(connection), None) == made


globals()[PROBE]()
print("done")
