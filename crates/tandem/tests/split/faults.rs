//! What may go wrong at a volunteer and at its origin costs speed, or a transfer that the client
//! knows to be cut; never a wrong byte, and nothing for good.

use std::fs;
use std::io::Read as _;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::support::{common, split_site};
use split_site::{LEN, Site, Volunteer, eventually, free_port};
use tandem_channel::ChannelKey;

/// Much less than this crosses the origin's line for a file that the volunteer has.
const WARM: u64 = LEN as u64 / 100;

#[test]
fn a_disk_that_is_full_costs_speed_alone() {
    // Files of 200 kB at most, without the signal that would end the process.
    let limited = "trap '' XFSZ; ulimit -f 400";
    let mut ways = vec![limited];
    if common::is_root() {
        ways.push("mount -t tmpfs -o size=512k tmpfs \"$DIR\"");
    } else {
        tandem_testkit::skipped("needs root to fill a disk; a limit on files stands in");
    }
    let site = Site::new();
    for (number, way) in ways.iter().enumerate() {
        let cache = format!("full-{number}");
        fs::create_dir(site.folder.path().join(&cache)).expect("ours");
        let volunteer = site.volunteer_after(way, &cache, &[]);
        site.serves(&volunteer, "file");
        eventually("what was not kept is counted", || {
            volunteer.counts("not_kept_total") > 0
        });
        assert!(volunteer.counts("disk_bytes") < LEN as u64 / 2, "{way}");
        let before = site.sent();
        site.serves(&volunteer, "file");
        assert!(site.sent() - before < WARM, "it is in memory: {way}");
    }
}

#[test]
fn an_origin_whose_disk_is_full_sends_in_full_what_it_cannot_publish() {
    let mut site = Site::without_origin();
    site.start_origin("trap '' XFSZ; ulimit -f 400; exec 2>\"$DIR/origin.log\"");
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    site.serves(&volunteer, "file");
    assert!(site.origin_counts("unpublished_records_total") > 1);
    let log = fs::read_to_string(site.folder.path().join("origin.log")).expect("it logs");
    let told = log.lines().filter(|line| line.contains("TMPDIR")).count();
    assert_eq!(told, 1, "once, with what to do: {log}");
}

#[test]
fn a_cache_that_can_only_be_read_serves_what_it_has() {
    let site = Site::new();
    site.publish("other", 400_000, 1);
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    eventually("all is on disk", || {
        volunteer.counts("disk_bytes") > LEN as u64
    });
    drop(volunteer);
    let folder = site.folder.path().join("one");
    let readable = |is_writable: bool| {
        for entry in fs::read_dir(&folder).expect("ours").flatten() {
            let mode = if is_writable { 0o600 } else { 0o400 };
            fs::set_permissions(entry.path(), fs::Permissions::from_mode(mode)).expect("ours");
        }
        let mode = if is_writable { 0o700 } else { 0o500 };
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("ours");
    };
    // Modes do not bind root, a mount does.
    let before = if common::is_root() {
        "mount --bind \"$DIR\" \"$DIR\" && mount -o remount,bind,ro \"$DIR\""
    } else {
        readable(false);
        ""
    };
    let volunteer = site.volunteer_after(before, "one", &[]);
    let sent = site.sent();
    site.serves(&volunteer, "file");
    assert!(site.sent() - sent < WARM);
    assert!(volunteer.counts("disk_hits_total") > 0);
    site.serves(&volunteer, "other");
    eventually("what was not kept is counted", || {
        volunteer.counts("not_kept_total") > 0
    });
    drop(volunteer);
    if !common::is_root() {
        readable(true);
    }
}

#[test]
fn damaged_segments_are_fetched_anew_and_a_smaller_limit_is_kept() {
    let site = Site::new();
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    eventually("all is on disk", || {
        volunteer.counts("disk_bytes") > LEN as u64
    });
    drop(volunteer);
    let segment = segments(&site.folder.path().join("one")).remove(0);

    // A byte here and there: within payloads, as a rule.
    let mut bytes = fs::read(&segment).expect("ours");
    for at in (50_000..bytes.len()).step_by(100_000) {
        bytes[at] ^= 1;
    }
    fs::write(&segment, &bytes).expect("ours");
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    assert!(volunteer.counts("damaged_total") > 0);
    drop(volunteer);

    // The second half is gone, and what is left ends in noise.
    bytes.truncate(bytes.len() / 2);
    bytes.extend((0..1000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8));
    fs::write(&segment, &bytes).expect("ours");
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
    drop(volunteer);

    let volunteer = site.volunteer("one", &["--cache-limit", "1"]);
    assert!(volunteer.counts("disk_bytes") <= 1 << 20);
    site.serves(&volunteer, "file");
    assert!(volunteer.counts("disk_bytes") <= 1 << 20);
}

fn segments(folder: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(folder)
        .expect("ours")
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "segment"))
        .collect();
    found.sort();
    found
}

#[test]
fn a_clock_that_jumps_ten_years_changes_nothing() {
    let libraries = fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path().join("faketime/libfaketimeMT.so.1"));
    let Some(library) = libraries.into_iter().find(|path| path.exists()) else {
        tandem_testkit::skipped("needs libfaketime (Debian: faketime)");
        return;
    };
    let mut site = Site::without_origin();
    let clock = site.folder.path().join("clock");
    let set = |to: &str| fs::write(&clock, format!("{to}\n")).expect("ours");
    set("+0");
    // Intervals are measured by the monotonic clock, which does not jump.
    let before = format!(
        "export LD_PRELOAD='{}' FAKETIME_TIMESTAMP_FILE='{}' FAKETIME_NO_CACHE=1 FAKETIME_DONT_FAKE_MONOTONIC=1",
        library.display(),
        clock.display()
    );
    let year = || {
        let out = Command::new("sh")
            .args(["-c", &format!("{before}; date +%Y")])
            .output()
            .expect("a shell");
        let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
        text.parse::<i32>().expect("a year")
    };
    let now = year();
    site.start_origin(&before);
    let volunteer = site.volunteer_after(&before, "one", &[]);
    site.serves(&volunteer, "file");
    for (jump, years) in [("+3652d", 10), ("-3652d", -10)] {
        set(jump);
        assert!((year() - now - years).abs() <= 1, "the clock jumps");
        let name = format!("file{years}");
        site.publish(&name, 300_000, years as u32);
        site.serves(&volunteer, &name);
        let sent = site.sent();
        site.serves(&volunteer, "file");
        assert!(site.sent() - sent < WARM);
    }
    drop(volunteer);
    set("+3652d");
    let volunteer = site.volunteer_after(&before, "one", &[]);
    let sent = site.sent();
    site.serves(&volunteer, "file");
    assert!(site.sent() - sent < WARM, "a restart in another decade");
}

#[test]
fn an_origin_that_comes_late_and_goes_and_comes_back_finds_its_volunteers() {
    let mut site = Site::without_origin();
    let volunteer = site.volunteer("one", &[]);
    assert!(!site.fetched(&volunteer, "file").status.success());
    assert!(volunteer.counts("origin_failures_total") > 0);
    site.start_origin("");
    site.serves(&volunteer, "file");

    site.kill_origin();
    assert!(!site.fetched(&volunteer, "file").status.success());
    eventually("all is on disk", || {
        volunteer.counts("disk_bytes") > LEN as u64
    });
    drop(volunteer);
    // Restarted while nobody vouches for anything: it serves nothing, and forgets nothing.
    let volunteer = site.volunteer("one", &[]);
    assert!(!site.fetched(&volunteer, "file").status.success());
    site.start_origin("");
    site.serves(&volunteer, "file");
    assert!(site.sent() < WARM);
}

#[test]
fn an_origin_that_is_killed_in_the_middle_cuts_the_transfer() {
    let mut site = Site::new();
    let volunteer = site.volunteer("one", &["--rate", "200"]);
    let mut curl = site
        .curl(volunteer.port, "file")
        .spawn()
        .expect("curl runs");
    let mut out = curl.stdout.take().expect("piped");
    let mut bytes = vec![0; 100_000];
    out.read_exact(&mut bytes).expect("it has begun");
    site.kill_origin();
    out.read_to_end(&mut bytes).expect("curl ends");
    assert!(!curl.wait().expect("it ends").success(), "a cut is no end");
    let whole = site.published("file");
    assert!(bytes.len() < whole.len() && whole.starts_with(&bytes));
    drop(volunteer);
    site.start_origin("");
    let volunteer = site.volunteer("one", &[]);
    site.serves(&volunteer, "file");
}

#[test]
fn volunteers_find_each_other_by_placement_and_by_a_table() {
    let mut ways = vec!["placement"];
    if cfg!(feature = "kademlia") {
        ways.push("kademlia");
    }
    for sharing in ways {
        let site = Site::new();
        let ports: Vec<u16> = (0..3).map(|_| two_free_ports()).collect();
        let peers: Vec<String> = ports
            .iter()
            .enumerate()
            .map(|(number, port)| {
                let folder = site.folder.path().join(format!("cache-{number}"));
                fs::create_dir(&folder).expect("ours");
                let key = ChannelKey::kept_in(&folder.join("key")).expect("made");
                format!("{}@127.0.0.1:{port}", key.name())
            })
            .collect();
        let peers = peers.join(",");
        let group: Vec<Volunteer> = ports
            .iter()
            .enumerate()
            .map(|(number, port)| {
                let listen = format!("127.0.0.1:{port}");
                let more = ["--sharing", sharing, "--peer-listen", &listen];
                let cache = format!("cache-{number}");
                site.volunteer(&cache, &[&more[..], &["--peers", &peers]].concat())
            })
            .collect();
        // What is announced takes a moment to be known; a file later it is.
        let hits = || -> u64 {
            let hits = group.iter().map(|one| one.counts("peer_hits_total"));
            hits.sum()
        };
        for number in 0..100 {
            let name = format!("file-{number}");
            site.publish(&name, 100_000, number);
            for volunteer in &group {
                site.serves(volunteer, &name);
            }
            if hits() > 20 {
                break;
            }
        }
        assert!(hits() > 20, "{sharing}");
    }
}

/// A port that is free, and the one above it, too; nobody else is given either.
fn two_free_ports() -> u16 {
    let mut port = free_port();
    loop {
        let next = free_port();
        if next == port + 1 {
            return port;
        }
        port = next;
    }
}

#[test]
fn what_does_not_fit_is_said_at_the_start() {
    let refused = |more: &[&str]| {
        let mut command = common::tandem(&["split", "volunteer", "--origin", "127.0.0.1:1"]);
        command
            .args(["--listen", "127.0.0.1:0"])
            .args(more)
            .stdin(Stdio::null());
        common::run(&mut command)
    };
    let ran = refused(&["--sharing", "kademlia"]);
    let what = if cfg!(feature = "kademlia") {
        "--peer-listen"
    } else {
        "--features kademlia"
    };
    assert!(ran.failed_with(2).contains(what), "{ran:?}");
    let ran = refused(&["--peers", "127.0.0.1:7444"]);
    assert!(ran.failed_with(2).contains("KEY@ADDR:PORT"));
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let listen = taken.local_addr().expect("bound").to_string();
    let ran = refused(&["--peer-listen", &listen]);
    assert!(ran.failed_with(4).contains("--peer-listen"));
}
