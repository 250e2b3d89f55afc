"""Chromium or Firefox, without a window, that visits a site and does one job there, or many.

    browser.py chromium|firefox BINARY DIRECTORY ADDRESS PORT NAME ROOT.pem SECONDS JOB PATH [ARGUMENT]
    browser.py chromium|firefox BINARY DIRECTORY ADDRESS - NAME,NAME... ROOT.pem

Takes each NAME for ADDRESS; no other name leads anywhere. With the second form each line of standard input is a job, "URL SECONDS
JOB [ARGUMENT]", and a line "done" follows what is printed about it. Jobs:

    open     opens PATH and tells what the document holds
    follow   the same wherever PATH leads, secure or not, and where that is
    show     opens PATH, by http too, and gives the document once its script has made ARGUMENT a part of its text
    other    opens /page, whose own script then does the job at PATH

It prints

    secure WORDS                            what the browser itself says of the connection's security
    answer STATUS BYTES SHA256              a whole answer
    cut STATUS BYTES SHA256 WORDS           a part of one
    at URL                                  where "follow" has led
    shown JSON                              a document's HTML
    failed WORDS

The browser's profile, in which ROOT.pem is trusted, is a new folder in DIRECTORY; it goes when the last job is done, and so does
each process of the browser. Speaks the DevTools protocol over pipes with Chromium, Marionette with Firefox; needs certutil (NSS)
and setpriv.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

# Seconds beyond the job's own that a browser may take to start, to open a page and to end.
START_UP = 60
# Whatever is not the site goes to a proxy that is not there: nothing of it leaves this machine.
NOWHERE = ("127.0.0.1", 9)
# Ends the browser with this script, however that ends.
ENDS_WITH_ITS_PARENT = ["setpriv", "--pdeathsig", "KILL"]

# What the page does. It gets (job, path, argument, milliseconds) and gives lines.
SCRIPT = """
async (job, path, argument, limit) => {
  const lines = [];
  const tell = async (word, status, got, why) => {
    const sum = new Uint8Array(await crypto.subtle.digest('SHA-256', got));
    const digits = Array.from(sum, (byte) => byte.toString(16).padStart(2, '0')).join('');
    lines.push([word, status, got.length, digits, why].join(' '));
  };
  const ask = async () => {
    const options = {cache: 'no-store', headers: {}, signal: AbortSignal.timeout(limit)};
    if (job === 'head') options.method = 'HEAD';
    if (job === 'fresh') options.headers['If-None-Match'] = argument;
    if (job === 'range') options.headers['Range'] = 'bytes=' + argument;
    if (job === 'upload') {
      options.method = 'POST';
      options.body = Uint8Array.from({length: Number(argument)}, (_, at) => at % 251);
    }
    let answer;
    try {
      answer = await fetch(path, options);
    } catch (error) {
      lines.push('failed ' + error);
      return false;
    }
    const parts = [];
    let why = '';
    if (answer.body) {
      const reader = answer.body.getReader();
      try {
        for (let part = await reader.read(); !part.done; part = await reader.read()) parts.push(part.value);
      } catch (error) {
        why = String(error);
      }
    }
    const got = new Uint8Array(await new Blob(parts).arrayBuffer());
    await tell(why ? 'cut' : 'answer', answer.status, got, why);
    return !why;
  };
  if (job === 'show') {
    const begun = performance.now();
    // At first a document has no body.
    const isThere = () => document.body?.textContent.includes(argument);
    while (!isThere() && performance.now() - begun < limit) await new Promise((done) => setTimeout(done, 50));
    lines.push('shown ' + JSON.stringify(document.documentElement.outerHTML));
  } else if (job === 'open' || job === 'follow') {
    if (document.readyState !== 'complete') await new Promise((done) => addEventListener('load', done));
    const [navigation] = performance.getEntriesByType('navigation');
    await tell('answer', navigation.responseStatus, new TextEncoder().encode(document.body.textContent), '');
    if (job === 'follow') lines.push('at ' + location.href);
  } else if (job === 'twice') {
    // Side by side, so that the browser opens more connections.
    await Promise.all([ask(), ask(), ask(), ask()]);
  } else if (job === 'keep') {
    for (let left = 3; left > 0 && await ask(); left -= 1);
  } else {
    await ask();
  }
  return lines;
}
"""


def call(words):
    return f"({SCRIPT})({', '.join(json.dumps(word) for word in words)})"


def trust(directory, root):
    directory.mkdir(parents=True, exist_ok=True)
    database = f"sql:{directory}"
    subprocess.run(["certutil", "-d", database, "-N", "--empty-password"], check=True)
    subprocess.run(["certutil", "-d", database, "-A", "-n", "root", "-t", "C,,", "-i", root], check=True)


class Chromium:
    def __init__(self, binary, directory, address, names, root):
        trust(directory / ".pki/nssdb", root)
        # No connections for pages that might be opened next.
        preferences = directory / "profile/Default/Preferences"
        preferences.parent.mkdir(parents=True)
        preferences.write_text(json.dumps({"net": {"network_prediction_options": 2}}))
        to_browser, self.to = os.pipe()
        self.of, of_browser = os.pipe()
        # The browser reads descriptor 3 and writes 4; neither may be in the way of the other.
        # The first rule that fits is taken.
        rules = [f"MAP {name} {address}" for name in names] + ["MAP * ~NOTFOUND"]
        script = f'exec 3<&{to_browser} 4>&{of_browser} && exec "$@"'
        self.process = subprocess.Popen(
            [*ENDS_WITH_ITS_PARENT, "bash", "-c", script, "chromium", binary, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
             "--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking",
             "--proxy-server=%s:%d" % NOWHERE, "--proxy-bypass-list=" + ";".join(names),
             f"--user-data-dir={directory / 'profile'}", "--host-resolver-rules=" + ",".join(rules), "about:blank"],
            env={**os.environ, "HOME": str(directory)}, pass_fds=(to_browser, of_browser),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        os.close(to_browser)
        os.close(of_browser)
        self.buffer, self.number, self.state, self.session = b"", 0, None, None
        page = next(target for target in self.ask("Target.getTargets")["targetInfos"] if target["type"] == "page")
        self.session = self.ask("Target.attachToTarget", targetId=page["targetId"], flatten=True)["sessionId"]
        for domain in ("Page", "Security", "Runtime", "Network"):
            self.ask(f"{domain}.enable")
        self.ask("Network.setBlockedURLs", urls=["*/favicon.ico"])

    def message(self):
        while b"\0" not in self.buffer:
            part = os.read(self.of, 1 << 16)
            if not part:
                raise OSError("the browser is gone")
            self.buffer += part
        text, _, self.buffer = self.buffer.partition(b"\0")
        message = json.loads(text)
        if message.get("method") == "Security.visibleSecurityStateChanged":
            self.state = message["params"]["visibleSecurityState"]
        return message

    def ask(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while (answer := self.message()).get("id") != self.number:
            pass
        if "error" in answer:
            raise OSError(answer["error"]["message"])
        return answer["result"]

    def visit(self, url):
        error = self.ask("Page.navigate", url=url).get("errorText")
        if error:
            raise OSError(error)

    def open(self, url):
        # A page whose security is known already would not be told of.
        self.visit("about:blank")
        self.state = None
        self.visit(url)
        while not (self.state and self.state.get("certificateSecurityState")):
            self.message()
        certificate = self.state["certificateSecurityState"]
        if self.state["securityState"] != "secure":
            raise OSError(f"not secure: {self.state}")
        return " ".join([self.state["securityState"], certificate["protocol"], certificate["cipher"], certificate.get("mac", "")])

    def run(self, words):
        result = self.ask("Runtime.evaluate", expression=call(words), awaitPromise=True, returnByValue=True)
        return result["result"].get("value") or [f"failed {result}"]


class Firefox:
    def __init__(self, binary, directory, address, names, root):
        trust(directory / "profile", root)
        preferences = {
            "marionette.port": 0, "network.proxy.type": 1, "network.proxy.no_proxies_on": ",".join(names),
            "network.proxy.failover_direct": False, "network.proxy.socks_remote_dns": True, "network.captive-portal-service.enabled": False,
            "network.connectivity-service.enabled": False, "app.update.enabled": False, "datareporting.policy.dataSubmissionEnabled": False,
            "browser.safebrowsing.downloads.remote.enabled": False, "extensions.update.enabled": False,
            # Connections for the page alone: none for an icon, none in advance.
            "browser.chrome.site_icons": False, "network.http.speculative-parallel-limit": 0,
            # A test that takes an answer in clear is to see it.
            "dom.security.https_first": False, "dom.security.https_only_mode": False,
        }
        for kind in ("http", "ssl", "socks"):
            preferences[f"network.proxy.{kind}"], preferences[f"network.proxy.{kind}_port"] = NOWHERE
        lines = [f"user_pref({json.dumps(key)}, {json.dumps(value)});\n" for key, value in preferences.items()]
        (directory / "profile/user.js").write_text("".join(lines))
        self.process = subprocess.Popen(
            [*ENDS_WITH_ITS_PARENT, binary, "--headless", "--no-remote", "--marionette", "--remote-allow-system-access", "--profile", str(directory / "profile")],
            env={**os.environ, "HOME": str(directory), "MOZ_CRASHREPORTER_DISABLE": "1"},
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )
        port = directory / "profile/MarionetteActivePort"
        while not (port.exists() and port.read_text()):
            if self.process.poll() is not None:
                raise OSError("the browser is gone")
            time.sleep(0.05)
        self.socket = socket.create_connection(("127.0.0.1", int(port.read_text())))
        self.file, self.number = self.socket.makefile("rb"), 0
        self.message()
        self.ask("WebDriver:NewSession", capabilities={"alwaysMatch": {"acceptInsecureCerts": False}})
        self.ask("WebDriver:SetTimeouts", script=600000)
        # These names alone: the browser asks for names of its maker, too, and those must lead nowhere.
        script = """
            const override = Cc['@mozilla.org/network/native-dns-override;1'].getService(Ci.nsINativeDNSResolverOverride);
            override.addIPOverride(...arguments);
        """
        for name in names:
            # An address is no name.
            if name != address:
                self.in_chrome(script, name, address)

    def message(self):
        digits = b""
        while (byte := self.file.read(1)) != b":":
            if not byte:
                raise OSError("the browser is gone")
            digits += byte
        return json.loads(self.file.read(int(digits)))

    def ask(self, command, **parameters):
        self.number += 1
        text = json.dumps([0, self.number, command, parameters]).encode()
        self.socket.sendall(b"%d:%s" % (len(text), text))
        _, _, error, result = self.message()
        if error:
            raise OSError(f"{error['error']}: {error['message']}")
        return result

    def in_chrome(self, script, *arguments):
        self.ask("Marionette:SetContext", value="chrome")
        value = self.ask("WebDriver:ExecuteScript", script=script, args=arguments)["value"]
        self.ask("Marionette:SetContext", value="content")
        return value

    def visit(self, url):
        self.ask("WebDriver:Navigate", url=url)

    def open(self, url):
        self.visit(url)
        script = """
            const ui = gBrowser.securityUI;
            const isSecure = (ui.state & Ci.nsIWebProgressListener.STATE_IS_SECURE) !== 0;
            return [isSecure ? 'secure' : 'not secure', 'TLS 1.' + (ui.secInfo.protocolVersion - 1), ui.secInfo.cipherName].join(' ');
        """
        state = self.in_chrome(script)
        if not state.startswith("secure"):
            raise OSError(state)
        return state

    def run(self, words):
        script = f"const done = arguments[arguments.length - 1]; {call(words)}.then(done, (error) => done(['failed ' + error]));"
        return self.ask("WebDriver:ExecuteAsyncScript", script=script, args=[])["value"]


def end(browser):
    try:
        os.killpg(browser.process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    browser.process.wait()


def out_of_time(_signal, _frame):
    raise OSError("no end in time")


def do(browser, url, seconds, job, argument):
    """Does a job, and prints what comes of it."""
    site, path = url[: url.index("/", 8)], url[url.index("/", 8) :]
    if job in ("show", "follow"):
        browser.visit(url)
    else:
        print("secure", browser.open(url if job == "open" else site + "/page"), flush=True)
    for line in browser.run([job, path, argument, seconds * 1000]):
        print(line.replace("\n", " "), flush=True)


def failed(error):
    words = "failed " + str(error).replace("\n", " ")
    print(words, flush=True)
    print(words, file=sys.stderr)


def do_all(browser, lines):
    for line in lines:
        url, seconds, job, *argument = line.split()
        signal.alarm(int(seconds) + START_UP)
        try:
            do(browser, url, int(seconds), job, "".join(argument))
        except OSError as error:
            failed(error)
        print("done", flush=True)


def main(kind, binary, directory, address, port, names, root, seconds="0", job="", path="", argument=""):
    browser = None
    signal.signal(signal.SIGALRM, out_of_time)
    signal.alarm(int(seconds) + START_UP)
    with tempfile.TemporaryDirectory(dir=directory, ignore_cleanup_errors=True) as folder:
        try:
            browser = {"chromium": Chromium, "firefox": Firefox}[kind](binary, pathlib.Path(folder), address, names.split(","), root)
            if port == "-":
                signal.alarm(0)
                do_all(browser, sys.stdin)
            else:
                do(browser, f"https://{names}:{port}{path}", int(seconds), job, argument)
        except (OSError, subprocess.CalledProcessError) as error:
            failed(error)
        finally:
            if browser:
                end(browser)


main(*sys.argv[1:])
