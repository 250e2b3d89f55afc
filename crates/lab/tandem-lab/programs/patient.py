"""Fetches a URL with urllib, which has no time-out unless told. Prints the answer's body; trusts the roots in SSL_CERT_FILE."""

import sys
import urllib.request

with urllib.request.urlopen(sys.argv[1]) as answer:
    sys.stdout.buffer.write(answer.read())
