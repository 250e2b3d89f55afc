//! `tandem top` with a real proxy: once, as JSON, and in a terminal, which is as before afterwards.
//!
//! Is not: what the screen says (`src/command/top/screen.rs`).

use std::fs::File;
use std::io::Read as _;
use std::io::Write as _;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex};

use crate::support::{common, real, split_site, tunnel_pair};
use common::{run, tandem};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{Termios, tcgetattr};
use nix::unistd::Pid;
use real::wait_until;
use tunnel_pair::{Pair, local, start};

#[test]
fn once_and_as_json_it_says_what_the_proxy_saves() {
    let pair = Pair::new();
    let _client_side = start(&mut pair.client_side());
    let admin = local(pair.client_side_admin());
    let once = run(&mut tandem(&["top", "--once", "--admin", &admin]));
    let once = once.succeeded();
    assert!(once.starts_with("client-side on 127.0.0.1:"), "{once}");
    assert!(
        once.contains("LAST CONNECTIONS") && !once.contains('\x1b') && !once.contains("q: end"),
        "{once}"
    );
    let json = run(&mut tandem(&["top", "--json", "--admin", &admin]));
    let json: serde_json::Value = serde_json::from_str(json.succeeded()).expect("JSON");
    assert_eq!(json["activity"]["connections"], 0);
    let none = run(&mut tandem(&["top", "--admin", &admin]));
    assert!(none.failed_with(2).contains("--once"), "{none:?}");
}

#[test]
fn without_a_proxy_it_says_where_it_asked() {
    let admin = local(split_site::free_port());
    let ran = run(&mut tandem(&["top", "--once", "--admin", &admin]));
    assert!(ran.failed_with(1).contains(&admin), "{ran:?}");
}

/// `tandem top` in a terminal of 80 by 24.
struct InTerminal {
    child: Child,
    /// The other end of the terminal.
    master: OwnedFd,
    slave: OwnedFd,
    seen: Arc<Mutex<String>>,
}

impl InTerminal {
    fn start(admin: &str) -> Self {
        let size = Winsize {
            ws_row: 24,
            ws_col: 80,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pty = openpty(&size, None).expect("a terminal");
        let slave = || Stdio::from(pty.slave.try_clone().expect("a descriptor"));
        let child = tandem(&["top", "--admin", admin])
            .stdin(slave())
            .stdout(slave())
            .stderr(slave())
            .spawn()
            .expect("it was built");
        let seen = Arc::new(Mutex::new(String::new()));
        let mut reader = File::from(pty.master.try_clone().expect("a descriptor"));
        std::thread::spawn({
            let seen = Arc::clone(&seen);
            move || {
                let mut piece = [0; 4096];
                while let Ok(count @ 1..) = reader.read(&mut piece) {
                    let text = String::from_utf8_lossy(&piece[..count]);
                    seen.lock().expect("nobody panics").push_str(&text);
                }
            }
        });
        Self {
            child,
            master: pty.master,
            slave: pty.slave,
            seen,
        }
    }

    fn settings(&self) -> Termios {
        tcgetattr(self.slave.as_fd()).expect("it is a terminal")
    }

    fn waits_for(&self, text: &str) {
        wait_until(text, || {
            self.seen.lock().expect("nobody panics").contains(text)
        });
    }

    fn press(&self, key: u8) {
        let mut master = File::from(self.master.try_clone().expect("a descriptor"));
        master.write_all(&[key]).expect("it takes keys");
    }

    fn ends(&mut self) -> Option<i32> {
        let mut code = None;
        wait_until("it ends", || {
            let ended = self.child.try_wait().expect("it is ours");
            code = ended.and_then(|status| status.code());
            ended.is_some()
        });
        code
    }
}

impl Drop for InTerminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn in_a_terminal_it_takes_keys_and_leaves_the_terminal_as_it_was() {
    let pair = Pair::new();
    let client_side = start(&mut pair.client_side());
    let admin = local(pair.client_side_admin());
    for ending in ["key", "signal"] {
        let mut top = InTerminal::start(&admin);
        top.waits_for("by bytes saved");
        let lines = nix::sys::termios::LocalFlags::ICANON | nix::sys::termios::LocalFlags::ECHO;
        assert!(!top.settings().local_flags.intersects(lines));
        top.press(b's');
        top.waits_for("by visits");
        match ending {
            "key" => top.press(b'q'),
            _ => {
                let pid = i32::try_from(top.child.id()).expect("process numbers are small");
                kill(Pid::from_raw(pid), Signal::SIGTERM).expect("it runs");
            }
        }
        assert_eq!(top.ends(), Some(0), "{ending}");
        top.waits_for("\x1b[?25h\x1b[?1049l");
        assert!(top.settings().local_flags.contains(lines), "{ending}");
    }
    let mut top = InTerminal::start(&admin);
    top.waits_for("by bytes saved");
    assert_eq!(client_side.end(Signal::SIGTERM), Some(0));
    top.waits_for("these are the last figures");
    top.press(b'q');
    assert_eq!(top.ends(), Some(0));
}
