"""Looks for new mail as a mail client does, and prints it: HOST PORT ROOT.

No time-out is set. The mailbox stays as it is, so that each visit finds the same.
"""

import imaplib
import ssl
import sys

host, port, root = sys.argv[1:]
context = ssl.create_default_context(cafile=root)
with imaplib.IMAP4_SSL(host, int(port), ssl_context=context) as box:
    box.login("site7", "secret")
    box.select("INBOX", readonly=True)
    _, found = box.search(None, "UNSEEN")
    for number in found[0].split():
        _, parts = box.fetch(number, "(BODY.PEEK[])")
        sys.stdout.buffer.write(parts[0][1])
