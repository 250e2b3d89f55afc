//! The Debian package: what is in it, and its life on a machine: installed, at work, upgraded,
//! removed, installed again, purged.
//!
//! Is not: a run under systemd. The machine is a copy of this one that forgets: its file system
//! below an overlay in memory, in namespaces of the test's own, so that `dpkg` is the real one and
//! nothing of this machine changes. Root and overlays only; skipped, with a message, otherwise. The
//! program is the one that the tests were built with.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::support::real;
use real::*;

/// Packs the program; the package's path.
fn package(folder: &Path) -> PathBuf {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/make-deb.sh");
    let made = run(Command::new(script)
        .arg(env!("CARGO_BIN_EXE_tandem"))
        .arg(folder)
        .env("DEB_COMPRESSION", "none"));
    PathBuf::from(made.trim())
}

fn can_pack() -> bool {
    has(&["dpkg-deb", "strip", "gzip"])
}

#[test]
fn the_package_holds_what_it_says_and_is_the_same_each_time() {
    if !can_pack() {
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = package(folder.path());
    let content = run(Command::new("dpkg-deb").arg("-c").arg(&file));
    for line in content.lines() {
        assert!(line.contains(" root/root "), "{line}");
        assert!(
            !line.starts_with("-rws") && !line[..10].ends_with("w-"),
            "{line}"
        );
    }
    for path in [
        "./usr/bin/tandem",
        "./usr/bin/tandem-split",
        "./etc/tandem/client-side.toml",
        "./etc/tandem/server-side.toml",
        "./usr/lib/systemd/system/tandem-client-side@.service",
        "./etc/tandem/tunnel-client-side.toml",
        "./etc/tandem/tunnel-server-side.toml",
        "./usr/lib/systemd/system/tandem-tunnel-client-side.service",
        "./usr/lib/systemd/system/tandem-tunnel-server-side.service",
        "./etc/tandem/split-origin.conf",
        "./etc/tandem/split-volunteer.conf",
        "./usr/lib/systemd/system/tandem-server-side@.service",
        "./usr/lib/systemd/system/tandem-split-broker.service",
        "./usr/lib/systemd/system/tandem-split-origin.service",
        "./usr/lib/systemd/system/tandem-split-volunteer.service",
        "./usr/share/man/man1/tandem.1.gz",
        "./usr/share/man/man1/tandem-store-ls.1.gz",
        "./usr/share/man/man1/tandem-top.1.gz",
        "./usr/share/bash-completion/completions/tandem",
        "./usr/share/zsh/vendor-completions/_tandem",
        "./usr/share/fish/vendor_completions.d/tandem.fish",
        "./usr/share/doc/tandem/copyright",
        "./usr/share/doc/tandem/operating.md",
        "./usr/share/doc/tandem/examples/broker.toml",
        "./usr/share/doc/tandem/examples/tariff.toml",
        "./usr/share/doc/tandem/examples/trial-certificate",
        "./usr/share/doc/tandem/examples/tunnel-firewall.conf",
        "./usr/share/tandem/wireshark/mc13.lua",
        "./usr/share/tandem/wireshark/tandem.lua",
        "./usr/share/tandem/grafana/tandem.json",
    ] {
        assert!(
            content.lines().any(|line| line.ends_with(path)),
            "{path} in {content}"
        );
    }
    assert!(!content.contains("bin/tandem-lab"), "{content}");
    // What the tests of the whole workspace build comes along where it is.
    let keyserver = Path::new(env!("CARGO_BIN_EXE_tandem")).with_file_name("tandem-keyserver");
    for path in [
        "./usr/bin/tandem-keyserver",
        "./usr/lib/systemd/system/tandem-keyserver.service",
        "./usr/share/doc/tandem/examples/keyserver.toml",
    ] {
        let is_in = content.lines().any(|line| line.ends_with(path));
        assert_eq!(is_in, keyserver.is_file(), "{path} in {content}");
    }
    let library = "libtandem_openssl_provider.so";
    let provider = Path::new(env!("CARGO_BIN_EXE_tandem")).with_file_name(library);
    let is_in = content.contains(&format!("./usr/lib/tandem/{library}\n"));
    assert_eq!(is_in, provider.is_file(), "{library} in {content}");
    let keytap = Path::new(env!("CARGO_BIN_EXE_tandem")).with_file_name("tandem-keytap");
    for path in [
        "./usr/bin/tandem-keytap",
        "./usr/share/doc/tandem/examples/tandem-keytap-keylog.service",
    ] {
        let is_in = content.lines().any(|line| line.ends_with(path));
        assert_eq!(is_in, keytap.is_file(), "{path} in {content}");
    }
    let first = fs::read(&file).expect("readable");
    assert!(fs::read(package(folder.path())).expect("readable") == first);
}

#[test]
fn no_page_of_the_package_links_to_one_that_is_not_in_it() {
    if !can_pack() {
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let root = folder.path().join("root");
    let file = package(folder.path());
    run(Command::new("dpkg-deb").arg("-x").arg(&file).arg(&root));
    let mut to_read = vec![root.join("usr/share/doc/tandem")];
    let mut followed = 0;
    while let Some(path) = to_read.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).expect("readable");
            to_read.extend(entries.map(|entry| entry.expect("readable").path()));
        }
        if path.extension().is_none_or(|ending| ending != "md") {
            continue;
        }
        let page = fs::read_to_string(&path).expect("readable");
        for link in page.split("](").skip(1) {
            let target = link.split([')', '#']).next().unwrap_or_default();
            if target.is_empty() || target.contains("://") {
                continue;
            }
            let place = path.with_file_name(target);
            assert!(place.is_file(), "{} links to {target}", path.display());
            followed += 1;
        }
    }
    assert!(followed > 5, "{followed}");
}

/// A machine that forgets.
struct Machine {
    holder: Child,
    root: PathBuf,
}

impl Machine {
    /// `None`, and a note, where there are no overlays.
    fn new(place: &Path) -> Option<Self> {
        // `/run` and `/tmp` are empty: no systemd, no locks.
        let script = r#"
            cd "$0"
            mount -t tmpfs tmpfs . && cd "$0" && mkdir up work root
            mount -t overlay overlay -o lowerdir=/,upperdir=up,workdir=work root || exit 9
            mount --rbind /proc root/proc
            mount --rbind /dev root/dev
            mount -t tmpfs tmpfs root/run
            mount -t tmpfs tmpfs root/tmp
            ip link set lo up
            echo up
            exec cat
        "#;
        let mut holder = Command::new("unshare")
            .args(["--mount", "--net", "--", "sh", "-ec", script])
            .arg(place)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("util-linux is installed");
        let mut said = String::new();
        BufReader::new(holder.stdout.take().expect("it is piped"))
            .read_line(&mut said)
            .expect("readable");
        if said != "up\n" {
            let _ = holder.wait();
            skipped("needs an overlay over this machine's file system");
            return None;
        }
        Some(Self {
            holder,
            root: place.join("root"),
        })
    }

    /// A program in it.
    fn command(&self, line: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--target={}", self.holder.id()))
            .args(["--mount", "--net", "--", "chroot"])
            .arg(&self.root)
            .args(["sh", "-ec", line])
            .env("DEBIAN_FRONTEND", "noninteractive")
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .env("LC_ALL", "C.UTF-8");
        command
    }

    #[track_caller]
    fn run(&self, line: &str) -> String {
        run(&mut self.command(line))
    }

    /// Whether a path is there.
    fn has(&self, path: &str) -> bool {
        self.run(&format!("if [ -e {path} ]; then echo yes; fi")) == "yes\n"
    }

    /// The files of this name that differ from the true machine's, but for dpkg's own notes.
    fn changed(&self, name: &str) -> Vec<String> {
        let place = self.root.parent().expect("it lies in a folder");
        let upper = format!("/proc/{}/root{}/up", self.holder.id(), place.display());
        run(Command::new("find").arg(&upper).args(["-name", name]))
            .lines()
            .filter_map(|path| path.strip_prefix(&upper))
            .filter(|path| !path.starts_with("/var/lib/dpkg/") && !path.starts_with("/var/log/"))
            .map(str::to_owned)
            .collect()
    }

    /// The firewall's rules of Tandem.
    fn rules(&self) -> String {
        self.run("iptables-save | grep tandem || true; ip6tables-save | grep tandem || true")
    }

    /// Writes a file.
    fn put(&self, path: &str, content: &[u8]) {
        let mut child = self
            .command(&format!("cat >{path}"))
            .stdin(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut input = child.stdin.take().expect("it is piped");
        input.write_all(content).expect("it reads");
        drop(input);
        assert!(child.wait().expect("ours").success());
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// A daemon of the installed program, started as its unit starts it. Killed when it is dropped.
struct Installed(Child);

impl Installed {
    fn start(machine: &Machine, side: &str) -> Self {
        let unit = machine.run(&format!(
            "cat /usr/lib/systemd/system/tandem-{side}-side@.service"
        ));
        let command = unit
            .lines()
            .find_map(|line| line.strip_prefix("ExecStart="))
            .expect("a unit has a command")
            .replace("%I", "lo")
            .replace("%S", "/var/lib")
            .replace("%d", "/run/credentials");
        // What the service manager does before: state directory and credential.
        machine.run(
            "install -d -o tandem -g tandem -m 700 /var/lib/tandem /run/credentials\n\
             install -o tandem -g tandem -m 400 /etc/tandem/key /run/credentials/key",
        );
        let caps = "-all,+net_admin,+net_raw";
        let mut child = machine
            .command(&format!(
                "exec setpriv --reuid=tandem --regid=tandem --clear-groups --no-new-privs --inh-caps={caps} \
                 --ambient-caps={caps} --bounding-set={caps} -- {command}"
            ))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped"))
            .read_line(&mut line)
            .expect("readable");
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn is_alive(&mut self) -> bool {
        self.0.try_wait().expect("ours").is_none()
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_package_is_installed_works_is_upgraded_removed_and_purged_and_leaves_nothing() {
    if !can_run() || !can_pack() || !has(&["setpriv"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let file = fs::read(package(folder.path())).expect("readable");
    let place = folder.path().join("machine");
    fs::create_dir(&place).expect("a writable folder");
    let Some(machine) = Machine::new(&place) else {
        return;
    };
    let before = machine.run("getent passwd | sort");
    machine.put("/tmp/tandem.deb", &file);
    let install = "dpkg --no-triggers --install /tmp/tandem.deb";
    // Installed: all is there, nothing runs, nothing is set.
    machine.run(install);
    assert_eq!(machine.run("dpkg --verify tandem"), "");
    assert_eq!(
        machine.changed("tandem.lua"),
        ["/usr/share/tandem/wireshark/tandem.lua"]
    );
    assert!(machine.run("tandem --version").starts_with("tandem "));
    assert!(machine.run("id -un tandem").starts_with("tandem"));
    assert_eq!(machine.rules(), "");
    assert!(!machine.has("/etc/tandem/key") && !machine.has("/var/lib/tandem"));

    // At work, as the units start it. One is killed and leaves its rules.
    machine.run("tandem keygen /etc/tandem/key");
    let mut client = Installed::start(&machine, "client");
    let server = Installed::start(&machine, "server");
    assert!(machine.run("tandem status").contains("server-side on lo"));
    drop(server);
    assert!(machine.rules().contains("tandem-s-lo") && machine.rules().contains("tandem-c-lo"));

    // An upgrade disturbs nobody.
    machine.run("echo '# mine' >>/etc/tandem/client-side.toml");
    machine.run(install);
    assert!(client.is_alive() && !machine.rules().is_empty());

    // Removed: what ran has ended, and the killed one's rules are gone too; settings, key and
    // stores stay.
    machine.run("dpkg --no-triggers --remove tandem");
    wait_until("the daemon has ended", || !client.is_alive());
    assert_eq!(machine.rules(), "");
    assert!(!machine.has("/usr/bin/tandem"));
    assert!(!machine.has("/usr/lib/systemd/system/tandem-client-side@.service"));
    assert!(machine.has("/etc/tandem/key") && machine.has("/var/lib/tandem/client-side-lo"));

    // Back again, with what was set.
    machine.run(install);
    assert!(
        machine
            .run("cat /etc/tandem/client-side.toml")
            .ends_with("# mine\n")
    );

    // Purged: nothing is left but dpkg's own notes.
    machine.run("dpkg --no-triggers --purge tandem");
    assert_eq!(machine.changed("*tandem*"), [""; 0]);
    assert!(!machine.has("/etc/tandem") && !machine.has("/var/lib/tandem"));
    assert_eq!(machine.run("getent passwd | sort"), before);
}
