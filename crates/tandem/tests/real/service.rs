//! The systemd units: what `systemd-analyze` says of them, and the daemons at work with what the
//! units leave them and nothing more.
//!
//! Is not: a run under systemd, of which there is none where tests run. Capabilities, user,
//! read-only file system and the words to the service manager are the same; that no system call is
//! made which the unit forbids is seen by tracing. Each part is skipped, with a message, where its
//! programs or root are missing.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::real;
use real::*;

/// The most that `systemd-analyze security` may find, in tenths: 2.0 of 10.
const MAX_EXPOSURE: &str = "20";

/// Whom the daemons run as here; the unit's own user is not one of this machine's.
const NOBODY: &str = "65534";

fn packaging() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging")
}

fn unit(side: &str) -> String {
    let path = packaging().join(format!("systemd/tandem-{side}-side@.service"));
    fs::read_to_string(path).expect("it is part of the source")
}

/// The values of a directive, in order.
fn values(unit: &str, name: &str) -> Vec<String> {
    let start = format!("{name}=");
    unit.lines()
        .filter_map(|line| line.strip_prefix(&start))
        .map(str::to_owned)
        .collect()
}

#[test]
fn the_two_units_differ_in_their_role_alone() {
    assert_eq!(
        unit("client").replace("client-side", "server-side"),
        unit("server")
    );
}

#[test]
fn systemd_finds_no_fault_with_the_units_and_little_exposure() {
    if !has(&["systemd-analyze"]) {
        return;
    }
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let folders = ["systemd", "examples"].map(|name| packaging().join(name));
    let files = folders.map(|folder| fs::read_dir(folder).expect("it is part of the source"));
    let files = files.into_iter().flatten();
    let mut units: Vec<PathBuf> = files.map(|file| file.expect("readable").path()).collect();
    units.retain(|file| file.extension().is_some_and(|it| it == "service"));
    assert_eq!(units.len(), 11);
    for unit in units {
        let name = unit.file_name().expect("a file").to_string_lossy();
        let file = folder.path().join(name.replace('@', "@ppp0"));
        let text = fs::read_to_string(&unit).expect("it is part of the source");
        let here = text.replace("/usr/bin/tandem", env!("CARGO_BIN_EXE_tandem"));
        fs::write(&file, here).expect("a writable folder");
        let verified = Command::new("systemd-analyze")
            .args(["verify", "--man=no"])
            .arg(&file)
            .output()
            .expect("it is installed");
        let said = String::from_utf8_lossy(&verified.stderr);
        // It reads the machine's own units too; what it says of those is not this test's business.
        let of_ours: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("tandem"))
            .collect();
        assert_eq!(of_ours, [""; 0]);
        let exposure = Command::new("systemd-analyze")
            .args(["security", "--offline=true", "--no-pager"])
            .arg(format!("--threshold={MAX_EXPOSURE}"))
            .arg(&file)
            .output()
            .expect("it is installed");
        assert!(
            exposure.status.success(),
            "{}",
            String::from_utf8_lossy(&exposure.stdout)
        );
    }
}

#[test]
fn the_options_of_the_parts_of_splitting_are_such_as_the_program_takes() {
    // What stops each here is said after its options were understood.
    for (part, stopped_by) in [
        ("origin", "/etc/tandem/site.pem: "),
        ("volunteer", "cannot listen on 192.0.2.1:443"),
    ] {
        let settings = packaging().join(format!("etc/split-{part}.conf"));
        let settings = fs::read_to_string(settings).expect("it is part of the source");
        let options = values(&settings, "OPTIONS")[0].replace("[::]", "192.0.2.1");
        let said = Command::new(env!("CARGO_BIN_EXE_tandem"))
            .args(["split", part])
            .args(options.split(' '))
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&said.stderr);
        assert!(said.contains(stopped_by), "{said}");
    }
}

#[test]
fn the_command_of_a_unit_is_one_that_the_program_takes() {
    let folder = tempfile::tempdir().expect("a place for temporary files");
    let key = folder.path().join("key");
    fs::write(&key, "0a".repeat(32)).expect("a writable folder");
    for side in ["client", "server"] {
        let command = &values(&unit(side), "ExecStart")[0];
        let settings = packaging().join(format!("etc/{side}-side.toml"));
        let words: Vec<String> = command
            .split(' ')
            .map(|word| {
                word.replace("/usr/bin/tandem", env!("CARGO_BIN_EXE_tandem"))
                    .replace(
                        &format!("/etc/tandem/{side}-side.toml"),
                        &settings.to_string_lossy(),
                    )
                    .replace("%d/key", &key.to_string_lossy())
                    .replace("%S", &folder.path().to_string_lossy())
                    .replace("%I", "lo")
            })
            .collect();
        assert!(!words.iter().any(|word| word.contains('%')), "{words:?}");
        let shown = run(Command::new(&words[0]).args(&words[1..]).arg("--dry-run"));
        assert!(shown.contains("-j NFQUEUE"), "{shown}");
    }
}

/// The system calls that the filters of a unit allow, as systemd reads them: the first line is a
/// list of what is allowed, each later one adds to it or, with a `~`, takes away.
fn allowed(unit: &str) -> BTreeSet<String> {
    let listed = run(Command::new("systemd-analyze").args(["--no-pager", "syscall-filter"]));
    let mut sets: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut name = "";
    for line in listed.lines() {
        match line.trim() {
            "" => {}
            comment if comment.starts_with('#') => {}
            head if !line.starts_with(' ') => name = head,
            member => sets.entry(name).or_default().push(member),
        }
    }
    fn expand(sets: &BTreeMap<&str, Vec<&str>>, name: &str, into: &mut BTreeSet<String>) {
        match sets.get(name) {
            Some(members) => members.iter().for_each(|member| expand(sets, member, into)),
            None => {
                into.insert(name.to_owned());
            }
        }
    }
    let mut allowed = BTreeSet::new();
    // What every filter allows.
    expand(&sets, "@default", &mut allowed);
    for line in values(unit, "SystemCallFilter") {
        let mut named = BTreeSet::new();
        let words = line.trim_start_matches('~');
        words
            .split(' ')
            .for_each(|word| expand(&sets, word, &mut named));
        if line.starts_with('~') {
            allowed.retain(|call| !named.contains(call));
        } else {
            allowed.append(&mut named);
        }
    }
    allowed
}

/// The system calls in the output of `strace -f`.
fn traced(file: &Path) -> BTreeSet<String> {
    let text = fs::read(file).expect("strace has written it");
    String::from_utf8_lossy(&text)
        .lines()
        .filter_map(|line| {
            let rest = line.split_once(' ')?.1.trim_start();
            let rest = rest.strip_prefix("<... ").unwrap_or(rest);
            let end =
                rest.find(|c: char| !(c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_'))?;
            (end > 0).then(|| rest[..end].to_owned())
        })
        .collect()
}

/// What a daemon of this side runs under: the unit's capabilities, no more privileges ever, another
/// user, and a file system of which only `state` can be written.
fn sandbox(side: &str, state: &Path, tracer: &str) -> Vec<String> {
    let unit = unit(side);
    let bounds = values(&unit, "CapabilityBoundingSet");
    assert_eq!(values(&unit, "AmbientCapabilities"), bounds);
    let granted: Vec<String> = bounds[0]
        .split(' ')
        .map(|name| format!("+{}", name.trim_start_matches("CAP_").to_lowercase()))
        .collect();
    let granted = format!("-all,{}", granted.join(","));
    // The program may lie in a folder that only its builder can enter; it is shown under another
    // name.
    let script = format!(
        "state='{}'\n\
         : >\"$state/program-{side}\"\n\
         mount --bind \"$0\" \"$state/program-{side}\"\n\
         chown -R {NOBODY} \"$state\"\n\
         mount --bind \"$state\" \"$state\"\n\
         mount --bind \"$0\" \"$state/program-{side}\"\n\
         mount -o remount,bind,ro /\n\
         exec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups --no-new-privs \
         --inh-caps={granted} --ambient-caps={granted} --bounding-set={granted} -- \
         {tracer} \"$state/program-{side}\" \"$@\"",
        state.display()
    );
    ["unshare", "--mount", "--", "sh", "-ec", &script]
        .map(str::to_owned)
        .to_vec()
}

#[test]
fn the_daemons_do_their_work_with_what_the_units_leave_them_and_nothing_more() {
    if !can_run() || !has(&["setpriv"]) {
        return;
    }
    let can_trace = has(&["strace", "systemd-analyze"]);
    let net = Net::new(Shape::Wire);
    let file = bytes(3_000);
    Server::publish(&net, "file", &file);
    let _nginx = Server::nginx(&net, &net.server, &Site::default());

    // What the service manager makes for a unit, and what it listens on.
    let enter = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("ours");
    };
    enter(net.directory.path(), 0o711);
    let notify = net.path("notify");
    let manager = UnixDatagram::bind(&notify).expect("a free path");
    manager.set_read_timeout(Some(PATIENCE)).expect("a time");
    enter(&notify, 0o777);
    let [state_a, state_b] = ["state-a", "state-b"].map(|name| net.path(name));
    let trace = state_a.join("trace");
    let tracer = match can_trace {
        true => format!("strace -D -f -q -o '{}'", trace.display()),
        false => String::new(),
    };
    let mut spec = PairSpec::new(&net);
    for (side, spec, state, tracer) in [
        ("client", &mut spec.a, &state_a, tracer.as_str()),
        ("server", &mut spec.b, &state_b, ""),
    ] {
        fs::create_dir(state).expect("a writable folder");
        spec.store = state.join(format!("{side}-side-link0"));
        spec.under = sandbox(side, state, tracer);
    }
    spec.a.under.splice(
        0..0,
        [
            "env".to_owned(),
            format!("NOTIFY_SOCKET={}", notify.display()),
            "WATCHDOG_USEC=30000000".to_owned(),
        ],
    );

    let fetch = Fetch::new(net.server_address(Family::V4), "file");
    let pair = Pair::start(&net, &spec);
    fetch.curl(&net.client).is(&file);
    pair.wait_learned(1);
    pair.rewrites(&file, || fetch.curl(&net.client));
    for daemon in [&pair.a, &pair.b] {
        let status = daemon.process_status();
        for line in [
            "Uid:\t65534\t65534\t65534\t65534",
            "CapPrm:\t0000000000003000",
            "CapEff:\t0000000000003000",
            "CapBnd:\t0000000000003000",
            "NoNewPrivs:\t1",
        ] {
            assert!(status.contains(line), "{line} in {status}");
        }
    }
    let told = || {
        let mut words = [0; 256];
        let length = manager.recv(&mut words).expect("the daemon says something");
        String::from_utf8_lossy(&words[..length]).into_owned()
    };
    // It lives, and says so, while rules are set and removed, too.
    let news = || std::iter::repeat_with(told).find(|words| words != "WATCHDOG=1");
    assert_eq!(
        news().as_deref(),
        Some("READY=1\nSTATUS=client-side on link0")
    );
    assert_eq!(told(), "WATCHDOG=1");
    pair.end(&net);
    assert_eq!(news().as_deref(), Some("STOPPING=1"));

    if can_trace {
        // The tracer ends a moment after what it traces.
        wait_until("the trace is whole", || {
            let text = fs::read(&trace).unwrap_or_default();
            let text = String::from_utf8_lossy(&text).into_owned();
            let first = text.split(' ').next().unwrap_or_default();
            text.ends_with(" +++ exited with 0 +++\n")
                && text
                    .lines()
                    .last()
                    .is_some_and(|line| line.starts_with(first))
        });
        let (made, allowed) = (traced(&trace), allowed(&unit("client")));
        assert!(
            made.contains("capset") && made.contains("ppoll"),
            "{made:?}"
        );
        let refused: Vec<&String> = made.difference(&allowed).collect();
        assert_eq!(refused, [""; 0], "the unit's filter does not allow them");
    }
}
