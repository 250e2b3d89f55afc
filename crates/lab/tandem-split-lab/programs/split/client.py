"""A client on Python's http.client and ssl that does one job at a split site. Arguments and output as those of client.go."""

import hashlib
import http.client
import socket
import ssl
import sys


class Client:
    def __init__(self, port, name, root, seconds):
        self.context = ssl.create_default_context(cafile=root)
        self.port, self.name, self.seconds = port, name, seconds
        self.session = None

    def connect(self):
        plain = socket.create_connection(("127.0.0.1", self.port), timeout=self.seconds)
        connection = http.client.HTTPSConnection(self.name, self.port, context=self.context)
        connection.sock = self.context.wrap_socket(
            plain, server_hostname=self.name, session=self.session
        )
        # Another connection resumes what is known when this one has said what there is to say.
        return connection


def ask(connection, method, path, body, headers, chunked):
    connection.request(method, path, body=body, headers=headers, encode_chunked=chunked)
    answer = connection.getresponse()
    got, why = bytearray(), None
    try:
        while part := answer.read(65536):
            got += part
        if method != "HEAD" and answer.length:
            why = f"{answer.length} bytes are lacking"
    except (OSError, http.client.HTTPException) as error:
        why = repr(error)
    word = "cut" if why else "answer"
    print(word, answer.status, len(got), hashlib.sha256(got).hexdigest(), why or "")
    return not why


def main(port, name, root, seconds, job, path, argument=""):
    client = Client(int(port), name, root, float(seconds))
    method, body, headers = "GET", None, {}
    if job == "head":
        method = "HEAD"
    elif job == "fresh":
        headers["If-None-Match"] = argument
    elif job == "range":
        headers["Range"] = "bytes=" + argument
    elif job in ("upload", "chunked"):
        method = "POST"
        body = (bytes(range(251)) * (int(argument) // 251 + 1))[: int(argument)]
    if job == "chunked":
        sent = body
        body = (sent[at : at + 10000] for at in range(0, len(sent), 10000))
        headers["Transfer-Encoding"] = "chunked"
    connection = client.connect()
    for number in range({"twice": 2, "keep": 3}.get(job, 1)):
        if job == "twice" and number > 0:
            client.session = connection.sock.session
            connection.close()
            connection = client.connect()
        if not ask(connection, method, path, body, headers, job == "chunked"):
            return
    connection.close()


try:
    main(*sys.argv[1:])
except (OSError, http.client.HTTPException) as error:
    print("failed", repr(error))
