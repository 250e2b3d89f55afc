#!/usr/bin/env python3
"""Measures the experiment of docs/remedies.md on emulated links: what cached certificates, a key
exchange in the first flight and a certificate sent ahead save, beside what exists already.

    scripts/remedies.py [--links iridium,certus-100,far] [--trials 3] [--out docs/results]

Puts up the standing lab (`tandem lab up`), link after link, and takes it down again. The servers
and clients are those of `tls12-experiment`. Bytes are IP bytes at the link's two
ends; a visit's bytes are those until the link is silent again. Each client visits once to know the
server; then as many visits as there are trials are measured. Load: processor time of the server,
over loopback, without a link. Writes remedies.md and remedies.jsonl. Needs root, release builds of
tandem, tandem-lab and tls12-experiment, and openssl.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NAME = "www.tandem.example"
CHAIN = Path("/run/tandem-lab/up/chain")
SERVER, GATEWAY = "10.77.3.2", "10.77.2.2"
PORT, HOLD, TUNNEL = 8443, 8444, 4433
# Links beside the lab's own: much delay at a high rate shows round trips and nothing else.
FAR = ["--up", "10000000", "--down", "10000000", "--delay", "250", "--queue", "1000000"]
# Bits per second up and down, round trip in milliseconds: what the tunnel's proxies are told.
FIGURES = {
    "iridium": (2400, 2400, 800),
    "certus-100": (22000, 88000, 600),
    "far": (10_000_000, 10_000_000, 500),
}

# name, words for the client, words for the server, what the kind of the second visit has to be
ARMS = [
    ("plain TLS 1.2", ["--try", "plain"], [], "full"),
    ("False Start", ["--try", "false-start"], [], "full"),
    ("cached info (RFC 7924)", ["--try", "cached-info"], [], "cached-info"),
    ("three-way", ["--try", "three-way"], [], "three-way"),
    ("three-way, ephemeral", ["--try", "three-way"], ["--keys", "ephemeral"], "three-way"),
    ("three-way, request in the first flight", ["--try", "three-way-early"], [], "three-way"),
    ("TLS 1.2 of rustls", ["--try", "tls12"], ["--stack", "tls12"], "full"),
    ("ticket (rustls)", ["--try", "ticket"], ["--stack", "ticket"], "resumed"),
    ("TLS 1.3 (rustls)", ["--try", "tls13"], ["--stack", "tls13"], "full"),
    ("0-RTT (rustls)", ["--try", "zero-rtt"], ["--stack", "zero-rtt"], "0-rtt"),
]


class Lab:
    """The standing lab on one link, and the processes in it."""

    def __init__(self, programs, link):
        self.programs, self.link, self.running = programs, link, []
        words = FAR if link == "far" else ["--link", link]
        run([programs["tandem-lab"], "up", *words])

    def inside(self, host, words):
        return ["ip", "netns", "exec", f"tandem-up-{host}", *map(str, words)]

    def start(self, host, words, **more):
        more = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL} | more
        process = subprocess.Popen(self.inside(host, words), **more)
        self.running.append(process)
        return process

    def listen(self, host, words, port):
        process = self.start(host, words)
        wait_for(lambda: f":{port} " in output(self.inside(host, ["ss", "-Htln"])))
        return process

    def stop(self):
        """Ends the processes, last first."""
        while self.running:
            process = self.running.pop()
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def down(self):
        self.stop()
        run([self.programs["tandem-lab"], "down"])

    def counters(self):
        """IP bytes and packets that were given to the link, up and down."""
        found = []
        for host in ("client-side", "server-side"):
            for line in output(self.inside(host, ["cat", "/proc/net/dev"])).splitlines():
                name, _, fields = line.partition(":")
                if name.strip() == "link0":
                    fields = fields.split()
                    found.append((int(fields[8]), int(fields[9])))
        return found

    def settle(self):
        """Waits until nothing has come to the link for as long as its round trip and a bit."""
        silent = max(1.0, 3 * FIGURES[self.link][2] / 1000)
        last, since = self.counters(), time.monotonic()
        while time.monotonic() - since < silent:
            time.sleep(0.25)
            now = self.counters()
            if now != last:
                last, since = now, time.monotonic()
        for host in ("client", "server"):
            run(self.inside(host, ["ip", "tcp_metrics", "flush"]))
        return last


def run(words, **more):
    subprocess.run(list(map(str, words)), check=True, stdout=subprocess.DEVNULL, **more)


def output(words):
    return subprocess.run(words, check=True, capture_output=True, text=True).stdout


def wait_for(ready, limit=20):
    until = time.monotonic() + limit
    while not ready():
        if time.monotonic() > until:
            sys.exit("a program does not get ready")
        time.sleep(0.05)


def difference(before, after):
    (up, up_packets), (down, down_packets) = [
        (new[0] - old[0], new[1] - old[1]) for old, new in zip(before, after)
    ]
    return {"up": up, "down": down, "packets": up_packets + down_packets}


def visits(lab, words, kind, trials):
    """The measured visits of one client: bytes and seconds to the first byte of the answer."""
    words = [lab.programs["tls12-experiment"], "get", *words, "--name", NAME]
    words += ["--stepwise", "--visits", 1 + trials]
    client = subprocess.Popen(
        lab.inside("client", words), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    found = []
    try:
        client.stdout.readline()
        for _ in range(trials):
            before = lab.settle()
            try:
                client.stdin.write("\n")
                client.stdin.flush()
            except BrokenPipeError:
                pass  # Its empty line says so.
            fields = client.stdout.readline().split()
            if len(fields) != 3 or fields[0] != kind:
                found.append({"ok": False, "error": f"{fields} and not {kind}"})
                continue
            row = difference(before, lab.settle())
            found.append({"ok": True, "seconds": int(fields[1]) / 1e6, **row})
    finally:
        client.kill()
        client.wait()
    return found


def proxies(lab, folder, mode):
    """Both proxies, warm after the first visit."""
    tandem, key = lab.programs["tandem"], folder / "key"
    if not key.exists():
        run([tandem, "keygen", key])
    up, down, round_trip = FIGURES[lab.link]
    for side, rate in (("server-side", down), ("client-side", up)):
        store = folder / f"store-{mode}-{side}-{lab.link}-{time.monotonic_ns()}"
        words = [tandem, side, "--mode", mode, "--store", store, "--key", key, "--admin", "none"]
        if mode == "packet" or side == "client-side":
            words += ["--link", "link0", "--ports", PORT]
        if mode == "tunnel":
            meeting = f"{GATEWAY}:{TUNNEL}"
            if side == "client-side":
                words += ["--peer", meeting]
            else:
                words += ["--listen", meeting, "--allow", f"10.77.3.0/24:{PORT}"]
            words += ["--link-rate", rate, "--link-rtt", round_trip]
        daemon = lab.start(side, words, stdout=subprocess.PIPE, text=True)
        for line in daemon.stdout:
            if line.strip() == "ready":
                break


def issue(folder):
    """A chain of one: RSA-2048, as the lab's chain of three."""
    key = ["-newkey", "rsa:2048", "-nodes"]
    quiet = {"stderr": subprocess.DEVNULL, "cwd": folder}
    run(["openssl", "req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-subj",
         "/CN=ca", "-days", "30", "-addext", "basicConstraints=critical,CA:TRUE"], **quiet)
    run(["openssl", "req", *key, "-keyout", "leaf.key", "-out", "leaf.csr", "-subj",
         f"/CN={NAME}"], **quiet)
    (folder / "extensions").write_text(f"subjectAltName=DNS:{NAME}\nbasicConstraints=CA:FALSE\n")
    run(["openssl", "x509", "-req", "-in", "leaf.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
         "-CAcreateserial", "-days", "20", "-extfile", "extensions", "-out", "leaf.pem"], **quiet)


def serving(programs, address, chain, more):
    files, key, _, _ = chain
    words = [programs["tls12-experiment"], "serve", "--listen", f"{address}:{PORT}"]
    return [*words, "--chain", files, "--key", key, *more]


def measure(lab, folder, chains, one, trials, say):
    rows = []

    def note(chain, arm, found):
        for trial, row in enumerate(found, 1):
            rows.append({"link": lab.link, "chain": chain, "arm": arm, "trial": trial, **row})
        good = [row for row in found if row["ok"]]
        middle = "failed"
        if good:
            up, down, seconds = (
                statistics.median(row[key] for row in good) for key in ("up", "down", "seconds")
            )
            middle = f"{up:.0f} bytes up, {down:.0f} down, {seconds:.2f} s"
        say(f"{lab.link}, {chain}, {arm}: {middle}")

    for name, chain in chains.items():
        target = [f"{SERVER}:{PORT}", "--roots", chain[2]]
        for arm, client, server, kind in ARMS:
            lab.listen("server", serving(lab.programs, SERVER, chain, server), PORT)
            note(name, arm, visits(lab, [*target, *client], kind, trials))
            lab.stop()
        for mode in ("packet", "tunnel"):
            lab.listen("server", serving(lab.programs, SERVER, chain, []), PORT)
            proxies(lab, folder, mode)
            note(name, f"plain TLS 1.2, {mode} mode", visits(lab, target, "full", trials))
            lab.stop()
        for arm, more in (("when asked", []), ("ahead", ["--ahead"])):
            lab.listen("server", [
                "openssl", "s_server", "-accept", f"{SERVER}:{PORT}", "-cert", chain[0], "-key",
                chain[1], *chain[3], "-CAfile", one[2], "-tls1_2", "-www",
                "-Verify", "3", "-verify_return_error", "-quiet",
            ], PORT)
            lab.listen("server-side", [
                lab.programs["tls12-experiment"], "hold", "--listen", f"{GATEWAY}:{HOLD}",
                "--server", f"{SERVER}:{PORT}",
            ], HOLD)
            own = ["--chain", one[0], "--key", one[1], *more]
            words = [f"{GATEWAY}:{HOLD}", "--roots", chain[2], *own]
            note(name, f"client certificate {arm}", visits(lab, words, "full", trials))
            lab.stop()
    return rows


def load(programs, chains, count, say):
    """Processor time of the server for a connection, microseconds."""
    rows, tick = [], os.sysconf("SC_CLK_TCK")

    def used(process):
        fields = Path(f"/proc/{process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / tick

    for name, chain in chains.items():
        for arm, client, server, _ in ARMS:
            process = subprocess.Popen(
                list(map(str, serving(programs, "127.0.0.1", chain, server))),
                stderr=subprocess.DEVNULL,
            )
            try:
                wait_for(lambda: f":{PORT} " in output(["ss", "-Htln"]))
                before = used(process)
                words = [programs["tls12-experiment"], "get", f"127.0.0.1:{PORT}", "--roots",
                         chain[2], "--name", NAME, "--visits", count, *client]
                kinds = [line.split()[0] for line in output(list(map(str, words))).splitlines()]
                micros = (used(process) - before) / count * 1e6
            finally:
                process.terminate()
                process.wait()
            row = {"chain": name, "arm": arm, "server_cpu_us": round(micros, 1)}
            rows.append(row | {"connections": count, "as_asked": kinds.count(kinds[-1])})
            say(f"load, {name}, {arm}: {micros:.0f} us of the server's processor")
    return rows


def page(rows, loaded):
    text = ["# Cached certificates, and a key exchange in the first flight", "",
            "Second visits; medians. `docs/remedies.md` says what each row is, and what it gives "
            "up. Bytes are IP bytes", "both ways of the whole connection, its end included; "
            "seconds are those from before the TCP connection to the",
            "first byte of the answer.", ""]
    for link in dict.fromkeys(row["link"] for row in rows):
        here = [row for row in rows if row["link"] == link]
        chains = list(dict.fromkeys(row["chain"] for row in here))
        round_trip = FIGURES[link][2] / 1000
        text += [f"## {link}", "", "| | " + " | ".join(
            f"{chain}: bytes up + down | first byte" for chain in chains) + " |",
            "|---|" + "--:|--:|" * len(chains)]
        for arm in dict.fromkeys(row["arm"] for row in here):
            cells = []
            for chain in chains:
                good = [r for r in here if r["arm"] == arm and r["chain"] == chain and r["ok"]]
                if not good:
                    cells += ["failed", ""]
                    continue
                middle = {key: statistics.median(r[key] for r in good)
                          for key in ("up", "down", "seconds")}
                cells.append(f"{middle['up']:,.0f} + {middle['down']:,.0f}")
                seconds = f"{middle['seconds']:.2f} s"
                if link == "far":
                    seconds += f" = {middle['seconds'] / round_trip:.1f} round trips"
                cells.append(seconds)
            text.append(f"| {arm} | " + " | ".join(cells) + " |")
        text.append("")
    if loaded:
        chains = list(dict.fromkeys(row["chain"] for row in loaded))
        text += ["## Under load", "", "Processor time of the server for a connection, TCP and "
                 "answer included, over loopback, one client that visits", "again and again.", "",
                 "| | " + " | ".join(chains) + " |", "|---|" + "--:|" * len(chains)]
        for arm in dict.fromkeys(row["arm"] for row in loaded):
            cells = [f"{row['server_cpu_us']:.0f} µs" for row in loaded if row["arm"] == arm]
            text.append(f"| {arm} | " + " | ".join(cells) + " |")
        text.append("")
    return "\n".join(text)


def programs_of(folder):
    found = {}
    for name in ("tandem", "tandem-lab", "tls12-experiment"):
        path = (folder / name).resolve()
        if not path.is_file():
            sys.exit(f"{path} is missing: cargo build --release -p tandem -p tandem-lab "
                     "-p tls12-experiment-io")
        found[name] = path
    return found


def main():
    arguments = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    arguments.add_argument("--links", default="iridium,certus-100,far")
    arguments.add_argument("--chains", default="one,three")
    arguments.add_argument("--trials", type=int, default=3)
    arguments.add_argument("--load", type=int, default=2000, help="connections; 0: none")
    arguments.add_argument("--programs", type=Path, default=Path("target/release"))
    arguments.add_argument("--out", type=Path, default=Path("out/lab/remedies"))
    given = arguments.parse_args()
    programs = programs_of(given.programs)
    rows, loaded = [], []
    given.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        issue(folder)
        one = (folder / "leaf.pem", folder / "leaf.key", folder / "ca.pem", [])
        wanted = given.chains.split(",")
        say = lambda words: print(words, flush=True)
        if given.load:
            loaded = load(programs, {"RSA-2048, one": one}, given.load, say)
        for link in filter(None, given.links.split(",")):
            lab = Lab(programs, link)
            try:
                issuers = ["-cert_chain", CHAIN / "issuers.pem"]
                three = (CHAIN / "leaf-full.pem", CHAIN / "leaf.key", CHAIN / "root.pem", issuers)
                chains = {"one": one, "three": three}
                chains = {name: chains[name] for name in wanted}
                rows += measure(lab, folder, chains, one, given.trials, say)
            finally:
                lab.down()
    lines = "".join(json.dumps(row) + "\n" for row in [*rows, *loaded])
    (given.out / "remedies.jsonl").write_text(lines)
    (given.out / "remedies.md").write_text(page(rows, loaded))
    print(f"{given.out / 'remedies.md'}")


if __name__ == "__main__":
    main()
