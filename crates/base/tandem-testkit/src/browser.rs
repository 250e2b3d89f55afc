//! Chromium and Firefox without a window, as clients of a test: started once, and told one job
//! after the other.
//!
//! Is not: a judgement of what they say. The head of the script, `browser.py` of `tandem-testbed`,
//! says what jobs there are and what it prints.

use std::io::{BufRead as _, BufReader, Lines, Write as _};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A browser that can be installed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Browser {
    /// Of BoringSSL.
    Chromium,
    /// Of NSS.
    Firefox,
}

impl Browser {
    /// Every browser that a test has to face what it has for one of them.
    pub const ALL: [Self; 2] = [Self::Chromium, Self::Firefox];

    /// What must be installed; the first is the browser itself.
    #[must_use]
    pub const fn needs(self) -> &'static [&'static str] {
        match self {
            Self::Chromium => &["chromium", "certutil", "setpriv", "python3", "bash"],
            Self::Firefox => &["firefox-esr", "certutil", "setpriv", "python3"],
        }
    }

    /// Starts it. It takes each of `names` for 127.0.0.1, reaches nothing else, and trusts the
    /// authority `root` beside its own. Its profile is in `folder` until the end.
    ///
    /// # Panics
    /// Where there is no `python3`.
    #[must_use]
    pub fn start(self, folder: &Path, names: &[&str], root: &Path) -> Driven {
        let script = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../lab/tandem-testbed/programs/browser.py");
        let kind = match self {
            Self::Chromium => "chromium",
            Self::Firefox => "firefox",
        };
        let mut driver = Command::new("python3")
            .arg(script)
            .args([kind, self.needs()[0]])
            .arg(folder)
            .args(["127.0.0.1", "-", &names.join(",")])
            .arg(root)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("python3 runs");
        let jobs = driver.stdin.take();
        let lines = BufReader::new(driver.stdout.take().expect("a pipe")).lines();
        Driven {
            driver,
            jobs,
            lines,
        }
    }
}

/// A browser that runs. It ends when this is dropped, and its profile goes.
#[derive(Debug)]
pub struct Driven {
    driver: Child,
    jobs: Option<ChildStdin>,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Driven {
    /// Has it do a job at `url`, within so many seconds: the lines that come of it.
    ///
    /// # Panics
    /// Where the browser has not started, or is gone.
    pub fn does(&mut self, url: &str, seconds: u32, job: &str) -> Vec<String> {
        let jobs = self.jobs.as_mut().expect("open until the end");
        // Where the script is gone, its last line says why.
        let _ = writeln!(jobs, "{url} {seconds} {job}");
        let mut said = Vec::new();
        loop {
            match self.lines.next() {
                Some(Ok(line)) if line == "done" => return said,
                Some(Ok(line)) => said.push(line.trim_end().to_owned()),
                Some(Err(_)) | None => panic!("the browser is gone: {said:?}"),
            }
        }
    }
}

impl Drop for Driven {
    fn drop(&mut self) {
        // The script ends the browser when there are no more jobs.
        self.jobs = None;
        let _ = self.driver.wait();
    }
}
