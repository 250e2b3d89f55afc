//! `cargo xtask test`: the tests that `cargo test` would run, several test programs at a time.
//!
//! Cargo runs one test program after the other. Most of ours wait for a link, a time-out or another
//! process, so two processors stand idle for most of that time. Here cargo builds the programs and
//! this starts them side by side, each in its package's folder as cargo does, and the documentation
//! tests beside them. A program's output is shown whole when it has ended, as it wrote it.
//!
//! Each program is linked with all that it uses, so a crate's tests are modules of a few programs
//! (`tests/NAME/main.rs`). Here each of these modules is a process of its own all the same: they
//! run side by side, and none sees what another does to its process.
//!
//! Invariants: every program runs, whatever becomes of the others; programs that were started are
//! named at once, so that one that hangs is known.
//!
//! Is not: a choice of tests, nor a harness: options go to cargo, and each program runs its own
//! tests in threads as always (`RUST_TEST_THREADS`).

use std::collections::{BTreeMap, VecDeque};
use std::fs::{self, File};
use std::io::{BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use cargo_metadata::{Message, TargetKind};

/// How many programs run at a time, beside one for each processor. With twice as many programs, and
/// twice as many tests in each, tests failed that hold a proxy's time-outs against the kernel's, on
/// a machine that was busy already.
const MORE_PROGRAMS: usize = 1;

/// Where another number of programs is given.
const JOBS: &str = "TANDEM_TEST_JOBS";

/// Something to run, and how to name it.
#[derive(Debug)]
struct Program {
    /// Options of `cargo test` that run it alone.
    name: String,
    command: Command,
    /// Bytes of the executable.
    size: u64,
}

/// Builds the tests with these options of `cargo test` and runs them; whether all passed.
///
/// # Errors
/// A build that fails, and a file that cannot be written.
pub(crate) fn run(root: &Path, options: &[String]) -> Result<bool, String> {
    let mut programs = built(root, options)?;
    // The largest first: they hold the tests with whole programs, which take longest.
    programs.sort_by(|a, b| b.size.cmp(&a.size).then_with(|| a.name.cmp(&b.name)));
    if !choose_programs(options) {
        let mut documentation = cargo(root);
        documentation
            .args(["test", "--doc", "--no-fail-fast"])
            .args(options);
        programs.insert(
            0,
            Program {
                name: "--doc".to_owned(),
                command: documentation,
                size: 0,
            },
        );
    }
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = std::env::var(JOBS).ok().and_then(|jobs| jobs.parse().ok());
    let failed = run_all(
        programs,
        jobs.unwrap_or(processors + MORE_PROGRAMS),
        &mut |text| {
            let mut out = std::io::stdout().lock();
            let _ = out.write_all(text).and_then(|()| out.flush());
        },
    )?;
    for name in &failed {
        eprintln!("error: test failed, to rerun pass `{name}`");
    }
    Ok(failed.is_empty())
}

/// Whether these options choose among the test programs: then the documentation's examples, which
/// are none, do not run.
fn choose_programs(options: &[String]) -> bool {
    const CHOICES: [&str; 10] = [
        "--lib",
        "--bin",
        "--bins",
        "--test",
        "--tests",
        "--example",
        "--examples",
        "--bench",
        "--benches",
        "--all-targets",
    ];
    let chooses = |option: &String| {
        let name = option.split_once('=').map_or(&**option, |(name, _)| name);
        CHOICES.contains(&name)
    };
    options.iter().any(chooses)
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// What cargo builds with these options.
fn built(root: &Path, options: &[String]) -> Result<Vec<Program>, String> {
    let mut build = cargo(root)
        .args([
            "test",
            "--no-run",
            "--message-format=json-render-diagnostics",
        ])
        .args(options)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("cargo: {error}"))?;
    let messages = build.stdout.take().ok_or("cargo writes nothing")?;
    let mut programs = Vec::new();
    for message in Message::parse_stream(BufReader::new(messages)) {
        if let Message::CompilerArtifact(artifact) = message.map_err(|error| error.to_string())?
            && artifact.profile.test
            && let (Some(executable), Some(folder)) =
                (artifact.executable, artifact.manifest_path.parent())
        {
            let target = &artifact.target;
            let chosen = match target.kind.first() {
                Some(TargetKind::Test) => format!("--test {}", target.name),
                Some(TargetKind::Bin) => format!("--bin {}", target.name),
                Some(TargetKind::Example) => format!("--example {}", target.name),
                _ => "--lib".to_owned(),
            };
            let package = folder.file_name().unwrap_or_default();
            let name = format!("-p {package} {chosen}");
            let size = fs::metadata(&executable).map_or(0, |file| file.len());
            let start = || {
                let mut command = Command::new(&executable);
                command
                    .current_dir(folder)
                    .env("CARGO_MANIFEST_DIR", folder);
                command
            };
            let modules = match target.kind.first() {
                Some(TargetKind::Test) => by_module(&names_of_tests(start())?),
                _ => BTreeMap::new(),
            };
            if modules.len() < 2 {
                let command = start();
                programs.push(Program {
                    name,
                    command,
                    size,
                });
                continue;
            }
            for (module, tests) in modules {
                let mut command = start();
                command.arg("--exact").args(tests);
                programs.push(Program {
                    name: format!("{name} {module}"),
                    command,
                    size,
                });
            }
        }
    }
    match build.wait() {
        Ok(status) if status.success() => Ok(programs),
        Ok(_) => Err("the tests could not be built".to_owned()),
        Err(error) => Err(format!("cargo: {error}")),
    }
}

/// The names of the tests in a program, ignored ones too.
fn names_of_tests(mut program: Command) -> Result<Vec<String>, String> {
    let output = program
        .args(["--list", "--format", "terse"])
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("{program:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": test"));
    Ok(names.map(str::to_owned).collect())
}

/// The tests of each module at a program's root, by the module's name as `cargo test` takes it;
/// those in no module are together.
fn by_module(tests: &[String]) -> BTreeMap<String, Vec<String>> {
    let mut modules: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for test in tests {
        let module = test
            .split_once("::")
            .map(|(module, _)| format!("{module}::"));
        let tests = modules.entry(module.unwrap_or_default()).or_default();
        tests.push(test.clone());
    }
    modules
}

/// Runs the programs, so many at a time, in their order; the names of those that failed. What is to
/// be shown goes to `show`.
fn run_all(
    programs: Vec<Program>,
    jobs: usize,
    show: &mut (dyn FnMut(&[u8]) + Send),
) -> Result<Vec<String>, String> {
    let outputs = folder_for_outputs()?;
    let waiting = Mutex::new(programs.into_iter().enumerate().collect::<VecDeque<_>>());
    let shown = Mutex::new(show);
    let failed = Mutex::new(Vec::new());
    let show = |text: &[u8]| shown.lock().unwrap_or_else(PoisonError::into_inner)(text);
    let next = || {
        let mut waiting = waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.pop_front()
    };
    let work = || {
        while let Some((number, mut program)) = next() {
            show(format!("     Running {}\n", program.name).as_bytes());
            let start = Instant::now();
            let passed = output_of(&mut program.command, &outputs.join(number.to_string()));
            let (passed, mut text) = passed.unwrap_or_else(|why| (false, why.into_bytes()));
            let seconds = start.elapsed().as_secs_f32();
            let head = format!("\n       Ended {} after {seconds:.1} s\n", program.name);
            text.splice(0..0, head.into_bytes());
            show(&text);
            if !passed {
                let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                failed.push(program.name);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
    let _ = fs::remove_dir_all(outputs);
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort();
    Ok(failed)
}

/// A folder for what programs write. A file, unlike a pipe, is not held open by what a test has
/// left running.
fn folder_for_outputs() -> Result<PathBuf, String> {
    static NEXT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let number = NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let name = format!("tandem-tests-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Runs a program to its end; whether it succeeded, and what it wrote.
fn output_of(command: &mut Command, path: &Path) -> Result<(bool, Vec<u8>), String> {
    let said = |error: std::io::Error| format!("{command:?}: {error}\n");
    let file = File::create_new(path).map_err(said)?;
    let errors = file.try_clone().map_err(said)?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(errors)
        .status()
        .map_err(|error| format!("{command:?}: {error}\n"))?;
    let mut text = fs::read(path).map_err(|error| format!("{}: {error}\n", path.display()))?;
    if !status.success() && status.code() != Some(TESTS_FAILED) {
        text.extend_from_slice(format!("{status}\n").as_bytes());
    }
    Ok((status.success(), text))
}

/// What a test program ends with when a test has failed, and has said so.
const TESTS_FAILED: i32 = 101;

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(name: &str, script: &str) -> Program {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        Program {
            name: name.to_owned(),
            command,
            size: 0,
        }
    }

    fn ran(programs: Vec<Program>, jobs: usize) -> (Vec<String>, String) {
        let mut text = Vec::new();
        let failed = run_all(programs, jobs, &mut |part| text.extend_from_slice(part));
        let text = String::from_utf8(text).expect("scripts write ASCII");
        (failed.expect("there is room for files"), text)
    }

    #[test]
    fn all_run_whatever_fails_and_what_failed_is_named() {
        let programs = vec![
            shell("first", "echo of the first; exit 101"),
            shell("second", "echo of the second >&2"),
            shell("third", "kill -9 $$"),
            Program {
                command: Command::new("/nonexistent"),
                ..shell("fourth", "")
            },
        ];
        let (failed, text) = ran(programs, 1);
        assert_eq!(failed, ["first", "fourth", "third"]);
        for words in ["of the first", "of the second", "signal: 9", "/nonexistent"] {
            assert!(text.contains(words), "{words} is not in {text}");
        }
        let at = |words: &str| text.find(words).expect("it is there");
        assert!(at("Running first") < at("of the first") && at("of the first") < at("second"));
    }

    #[test]
    fn who_chooses_programs_gets_no_examples_of_the_documentation() {
        let choose = |text: &str| {
            let options: Vec<String> = text.split(' ').map(str::to_owned).collect();
            choose_programs(&options)
        };
        assert!(!choose("--locked --workspace --features tandem/kademlia"));
        assert!(choose("-p tandem --test help"));
        assert!(choose("--workspace --bin=tandem"));
    }

    #[test]
    fn each_module_of_a_test_program_runs_by_itself() {
        let listed = "echo 'faults::inner::one: test'; echo 'paths::one: test'; echo 'two: test'; \
            echo 'faults::two: test'; echo 'faults::slow: benchmark'";
        let names = names_of_tests(shell("lists", listed).command).expect("sh is there");
        assert_eq!(
            by_module(&names).into_iter().collect::<Vec<_>>(),
            [
                ("", vec!["two"]),
                ("faults::", vec!["faults::inner::one", "faults::two"]),
                ("paths::", vec!["paths::one"]),
            ]
            .map(|(module, tests)| (
                module.to_owned(),
                tests.into_iter().map(str::to_owned).collect()
            ))
        );
    }

    #[test]
    fn programs_run_side_by_side() {
        // Each waits for the other, by a pipe with a name that both know.
        let folder = folder_for_outputs().expect("there is room for files");
        let pipe = folder.join("pipe");
        let made = Command::new("mkfifo").arg(&pipe).status();
        assert!(made.is_ok_and(|made| made.success()));
        let pipe = pipe.display();
        let programs = vec![
            shell("reads", &format!("read line <{pipe}; echo it was $line")),
            shell("writes", &format!("echo written >{pipe}")),
        ];
        let (failed, text) = ran(programs, 2);
        assert!(failed.is_empty(), "{failed:?}");
        assert!(text.contains("it was written"), "{text}");
        fs::remove_dir_all(folder).expect("ours");
    }
}
