//! The store's disk fails under daemons that run: they live, connections are well, elision goes on
//! from memory, and a warning says so. And what was learned outlives a daemon.
//!
//! Is not: the store's own tests (`tandem-store`). Root only; skipped, with a message, otherwise.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::support::real;
use nix::sys::signal::Signal;
use real::*;

const FILE: &str = "file";

/// The database's name in a store.
const DATABASE: &str = "store.sqlite";

struct Scene {
    net: Net,
    _nginx: Server,
    file: Vec<u8>,
    spec: PairSpec,
}

impl Scene {
    fn new() -> Self {
        let net = Net::new(Shape::Wire);
        let file = bytes(10_000);
        Server::publish(&net, FILE, &file);
        let nginx = Server::nginx(&net, &net.server, &Site::default());
        let spec = PairSpec::new(&net);
        Self {
            net,
            _nginx: nginx,
            file,
            spec,
        }
    }

    /// Both daemons with their stores under this shell line.
    fn start_under(&self, line: impl Fn(&Path) -> String) -> Pair {
        let under = |spec: &Spec| {
            fs::create_dir_all(&spec.store).expect("a writable folder");
            fs::set_permissions(&spec.store, fs::Permissions::from_mode(0o700)).expect("ours");
            let script = format!(r#"{} && exec "$0" "$@""#, line(&spec.store));
            spec.clone()
                .under(&["unshare", "--mount", "--", "sh", "-c", &script])
        };
        let spec = PairSpec {
            a: under(&self.spec.a),
            b: under(&self.spec.b),
        };
        Pair::start(&self.net, &spec)
    }

    fn connect(&self) -> Fetched {
        Fetch::new(self.net.server_address(Family::V4), FILE).curl(&self.net.client)
    }

    /// The first connection is well, and those after it are rewritten from memory.
    #[track_caller]
    fn is_well(&self, pair: &Pair) {
        self.connect().is(&self.file);
        pair.wait_learned(1);
        pair.rewrites(&self.file, || self.connect());
    }
}

#[test]
fn a_full_disk_costs_no_connection_and_the_store_recovers_when_there_is_room() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let mut pair = scene.start_under(|store| {
        format!(
            "mount -t tmpfs -o size=1m,mode=700 tmpfs {}",
            store.display()
        )
    });
    let fillers: Vec<PathBuf> = [(&pair.a, &scene.spec.a), (&pair.b, &scene.spec.b)]
        .map(|(daemon, spec)| {
            // The daemon's view of its store: the file system is mounted for it alone.
            let inside = daemon.path_inside(&spec.store);
            wait_until("the store is made", || inside.join(DATABASE).exists());
            fill(&inside.join("filler"))
        })
        .into();
    scene.is_well(&pair);
    for daemon in [&pair.a, &pair.b] {
        daemon.wait_for_log("cannot write to");
    }
    pair.rewrites(&scene.file, || scene.connect());
    assert!(pair.a.is_alive() && pair.b.is_alive());
    for filler in fillers {
        fs::remove_file(filler).expect("it is there");
    }
    for daemon in [&pair.a, &pair.b] {
        daemon.wait_for_log("can be written again; nothing was lost");
    }
    pair.end(&scene.net);
}

/// Writes a file until the disk is full.
fn fill(path: &Path) -> PathBuf {
    let mut file = fs::File::create(path).expect("there is room yet");
    let mut block = 4096;
    while block > 0 {
        match file.write(&vec![0; block]) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::StorageFull => block /= 2,
            Err(error) => panic!("{error}"),
        }
    }
    path.to_owned()
}

#[test]
fn a_disk_without_room_from_the_start_costs_no_connection() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let pair = scene.start_under(|store| {
        format!(
            "mount -t tmpfs -o size=4k,mode=700 tmpfs {}",
            store.display()
        )
    });
    for daemon in [&pair.a, &pair.b] {
        daemon.wait_for_log("WARN");
    }
    scene.is_well(&pair);
    pair.end(&scene.net);
}

#[test]
fn a_store_that_may_not_be_written_costs_no_connection() {
    if !can_run() {
        return;
    }
    // A disk that is mounted so; and a folder of somebody else's, which root's daemon may not write
    // either, since it gives that right up.
    let readonly = |store: &Path| {
        let store = store.display();
        format!("mount -t tmpfs -o mode=700 tmpfs {store} && mount -o remount,ro {store}")
    };
    let foreign = |store: &Path| {
        let store = store.display();
        format!("mount -t tmpfs -o mode=700 tmpfs {store} && chown 65534:65534 {store}")
    };
    for line in [&readonly as &dyn Fn(&Path) -> String, &foreign] {
        let scene = Scene::new();
        let pair = scene.start_under(line);
        for daemon in [&pair.a, &pair.b] {
            daemon.wait_for_log("cannot keep a store in");
        }
        scene.is_well(&pair);
        pair.end(&scene.net);
    }
}

#[test]
fn a_damaged_store_is_put_aside_and_begun_anew() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let pair = Pair::start(&scene.net, &scene.spec);
    scene.is_well(&pair);
    pair.end(&scene.net);
    let stores = [&scene.spec.a.store, &scene.spec.b.store];
    let damages: [fn(&mut Vec<u8>); 3] = [
        // Other bytes from the first on; other bytes in the middle; the second half is gone.
        |bytes| bytes.fill(0x5a),
        |bytes| {
            let from = bytes.len() / 8;
            bytes[from..].fill(0xa5);
        },
        |bytes| bytes.truncate(bytes.len() / 2 + 100),
    ];
    for damage in damages {
        for store in stores {
            let path = store.join(DATABASE);
            let mut bytes = fs::read(&path).expect("it was kept");
            assert!(bytes.len() > 4096, "there is something to damage");
            damage(&mut bytes);
            fs::write(&path, bytes).expect("it is ours");
        }
        let pair = Pair::start(&scene.net, &scene.spec);
        scene.connect().is(&scene.file);
        for daemon in [&pair.a, &pair.b] {
            daemon.wait_for_log("WARN");
        }
        pair.wait_learned(1);
        pair.rewrites(&scene.file, || scene.connect());
        pair.end(&scene.net);
    }
}

#[test]
fn a_store_that_is_removed_under_the_daemons_costs_no_connection() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let mut pair = Pair::start(&scene.net, &scene.spec);
    for store in [&scene.spec.a.store, &scene.spec.b.store] {
        wait_until("the store is made", || store.join(DATABASE).exists());
        fs::remove_dir_all(store).expect("it is ours");
    }
    scene.is_well(&pair);
    for daemon in [&pair.a, &pair.b] {
        daemon.wait_for_log("it was removed");
        assert_eq!(daemon.gauge("store_on_disk"), 0);
    }
    pair.rewrites(&scene.file, || scene.connect());
    assert!(pair.a.is_alive() && pair.b.is_alive());
    pair.end(&scene.net);
}

#[test]
fn two_daemons_with_one_store_are_told_so_and_both_work() {
    if !can_run() {
        return;
    }
    let scene = Scene::new();
    let shared = scene.net.path("shared");
    let a = Daemon::start(&scene.net.a, &scene.spec.a.clone().store(shared.clone()));
    let b = Daemon::start(&scene.net.b, &scene.spec.b.clone().store(shared));
    b.wait_for_log("is in use by process");
    let pair = Pair { a, b };
    scene.is_well(&pair);
    pair.end(&scene.net);
}

#[test]
fn what_was_learned_outlives_a_daemon_however_it_ends() {
    if !can_run() {
        return;
    }
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let scene = Scene::new();
        let pair = Pair::start(&scene.net, &scene.spec);
        scene.connect().is(&scene.file);
        pair.wait_learned(1);
        if signal == Signal::SIGKILL {
            wait_until("what was learned is on the disk", || {
                [&pair.a, &pair.b].iter().all(|daemon| {
                    daemon.gauge("store_objects") >= 1 && daemon.gauge("store_unwritten_bytes") == 0
                })
            });
        }
        for daemon in [pair.a, pair.b] {
            let ended = daemon.end(signal);
            assert_eq!(ended.code.is_some(), signal == Signal::SIGTERM, "{ended:?}");
        }
        let pair = Pair::start(&scene.net, &scene.spec);
        pair.rewrites(&scene.file, || scene.connect());
        for daemon in [&pair.a, &pair.b] {
            assert!(!daemon.log().contains("damaged"), "{}", daemon.log());
            assert_eq!(daemon.gauge("store_on_disk"), 1);
        }
        assert_eq!(pair.a.counter("packet_hellos_nothing_held"), 0);
        pair.end(&scene.net);
    }
}
