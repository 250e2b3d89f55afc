//! `apt-get update` of a small signed repository over HTTPS.
//!
//! Invariant: apt has folders of its own; the machine's sources, lists and keys are neither read
//! nor changed.

use std::fs;
use std::path::Path;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::command;
use tandem_testbed::installed::Question;
use tandem_testbed::server::Server;

use super::application::{Application, Scene};
use super::grounds::{Grounds, empty, noise, put};
use super::web;
use crate::hosts;

const HOST: &str = "apt.tandem.example";

/// Packages in the list.
const PACKAGES: usize = 40;

/// Where the list lies in the repository, below the release.
const LIST: &str = "main/binary-amd64/Packages";

/// A client without lists updates them.
pub(super) struct Update;

impl Application for Update {
    fn about(&self) -> &'static str {
        "apt-get update of a signed repository with 40 packages, without lists from before; nginx"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["apt-get", "gpg", "gpgv", "xz", "nginx", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        vec![
            ("apt-get", Question::new("apt-get", &["--version"])),
            ("nginx", Question::new("nginx", &["-v"])),
        ]
    }

    fn names(&self) -> &'static [&'static str] {
        &[HOST]
    }

    fn make(&self, grounds: &Grounds) -> Result<(), LabError> {
        let release = grounds.path("apt/dists/lab");
        let list = release.join(LIST);
        put(&list, (0..PACKAGES).map(package).collect::<String>())?;
        command::run(Command::new("xz").arg("--keep").arg(&list))?;
        let mut text = format!(
            "Origin: Tandem Lab\nSuite: lab\nCodename: lab\nArchitectures: amd64\nComponents: main\n\
             Date: {}\nSHA256:\n",
            run(Command::new("date")
                .env("LC_ALL", "C")
                .args(["-u", "+%a, %d %b %Y %H:%M:%S UTC"]))?
        );
        for file in [LIST.to_owned(), format!("{LIST}.xz")] {
            let path = release.join(&file);
            let sum = run(Command::new("sha256sum").arg(&path))?;
            let digest = sum.split(' ').next().unwrap_or_default();
            let length = fs::metadata(&path)
                .map_err(LabError::io("read a list"))?
                .len();
            text.push_str(&format!(" {digest} {length} {file}\n"));
        }
        let plain = grounds.path("apt-release");
        put(&plain, text)?;
        // Its own keys, and an agent that goes when they go.
        let keys = grounds.path("apt-keys");
        empty(&keys)?;
        let made = sign(
            &keys,
            &plain,
            &release.join("InRelease"),
            &grounds.path("apt.asc"),
        );
        let ended = command::run(
            Command::new("gpgconf")
                .arg("--homedir")
                .arg(&keys)
                .args(["--kill", "all"]),
        );
        made.and(ended.map(|_| ()))
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let root = scene.grounds.path("apt");
        let location = format!("location / {{ root {}; }}", root.display());
        Ok(vec![web::nginx(scene, &[(HOST, location)])?])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let folder = scene.folder.join("apt");
        empty(&folder)?;
        for path in [
            "etc/apt/apt.conf.d",
            "var/lib/apt/lists/partial",
            "var/cache/apt/archives/partial",
        ] {
            fs::create_dir_all(folder.join(path)).map_err(LabError::io("make a folder"))?;
        }
        put(&folder.join("status"), "")?;
        let key = scene.grounds.path("apt.asc");
        put(
            &folder.join("etc/apt/sources.list"),
            format!(
                "deb [signed-by={}] https://{HOST}/ lab main\n",
                key.display()
            ),
        )?;
        let settings = scene.folder.join("apt.conf");
        put(
            &settings,
            format!(
                "Dir \"{dir}/\";\nDir::State::status \"{dir}/status\";\n\
                 APT::Architecture \"amd64\";\nAPT::Architectures {{ \"amd64\"; }};\n\
                 APT::Sandbox::User \"root\";\nAcquire::Languages \"none\";\n\
                 Acquire::EnableSrvRecords \"false\";\nAcquire::https::CaInfo \"{root}\";\n",
                dir = folder.display(),
                root = scene.grounds.chain(HOST)?.root.display()
            ),
        )?;
        let mut command = hosts::with(&scene.grounds.hosts());
        command
            .env("APT_CONFIG", settings)
            .env("LC_ALL", "C")
            .args(["apt-get", "-qq", "update"]);
        Ok(command)
    }

    fn verify(&self, scene: &Scene<'_>, _output: &[u8]) -> Result<(), String> {
        let lists = scene.folder.join("apt/var/lib/apt/lists");
        let name = format!("{HOST}/dists/lab/{LIST}").replace('/', "_");
        let wanted = fs::read(scene.grounds.path("apt/dists/lab").join(LIST));
        match (fs::read(lists.join(name)), wanted) {
            (Ok(got), Ok(wanted)) if got == wanted => Ok(()),
            (Ok(_) | Err(_), _) => Err("the list is not the server's".to_owned()),
        }
    }
}

/// A key, a text signed with it, and the key's public half.
fn sign(keys: &Path, plain: &Path, signed: &Path, public: &Path) -> Result<(), LabError> {
    let gpg = |words: &[&str]| {
        let mut command = Command::new("gpg");
        command.args(["--batch", "--quiet", "--homedir"]).arg(keys);
        command.args(words);
        command
    };
    let whose = "Lab <lab@tandem.example>";
    let mut key = gpg(&[
        "--pinentry-mode",
        "loopback",
        "--passphrase",
        "",
        "--quick-gen-key",
    ]);
    command::run(key.args([whose, "ed25519", "sign", "never"]))?;
    command::run(gpg(&["--clearsign", "--output"]).arg(signed).arg(plain))?;
    command::run(gpg(&["--armor", "--export", "--output"]).arg(public)).map(|_| ())
}

/// A package as a list has it.
fn package(number: usize) -> String {
    // Digests do not compress.
    let digest: String = noise(9_000 + number as u64, 32)
        .into_iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let size = 10_000 + number * 731;
    format!(
        "Package: lab-tool-{number}\nVersion: 1.{number}.2-1\nInstalled-Size: {}\n\
         Maintainer: Lab <lab@tandem.example>\nArchitecture: amd64\nDepends: libc6 (>= 2.34)\n\
         Description: tool number {number} of the lab\nSection: misc\nPriority: optional\n\
         Filename: pool/main/l/lab-tool-{number}_1.{number}.2-1_amd64.deb\nSize: {size}\n\
         SHA256: {digest}\n\n",
        size / 512
    )
}

/// What a program prints.
fn run(program: &mut Command) -> Result<String, LabError> {
    let output = command::run(program)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
