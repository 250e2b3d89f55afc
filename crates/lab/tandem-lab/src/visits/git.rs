//! `git fetch` over HTTPS: git at one end, its own server behind nginx at the other.

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

const HOST: &str = "git.tandem.example";

/// Where fcgiwrap listens, on the server's host alone.
const FCGI_PORT: u16 = 9000;

/// Files of the project.
const FILES: u64 = 40;

/// Files that the new commit changes.
const CHANGED: u64 = 4;

/// One new commit is fetched into a clone that has all before it.
pub(super) struct Fetch;

impl Application for Fetch {
    fn about(&self) -> &'static str {
        "git fetch of one commit that changes 4 files by 1 kB each, into a clone; git http-backend \
         behind nginx"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["git", "fcgiwrap", "nginx", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        vec![
            ("git", Question::new("git", &["--version"])),
            ("nginx", Question::new("nginx", &["-v"])),
        ]
    }

    fn names(&self) -> &'static [&'static str] {
        &[HOST]
    }

    fn make(&self, grounds: &Grounds) -> Result<(), LabError> {
        let folder = grounds.path("git");
        let work = folder.join("work");
        let commit = |message: &str, files: u64, seed: u64| {
            for file in 0..files {
                let text = lines(seed + file);
                put(&work.join(format!("file-{file}")), text)?;
            }
            git(&work, &["add", "--all"])?;
            git(&work, &["commit", "--quiet", "-m", message]).map(|_| ())
        };
        empty(&work)?;
        git(&work, &["init", "--quiet", "--initial-branch", "main"])?;
        commit("Begin", FILES, 1_000)?;
        git(
            &folder,
            &["clone", "--quiet", "--bare", "work", "project.git"],
        )?;
        git(&folder, &["clone", "--quiet", "project.git", "clone"])?;
        let url = format!("https://{HOST}/project.git");
        git(
            &folder.join("clone"),
            &["remote", "set-url", "origin", &url],
        )?;
        commit("Change", CHANGED, 2_000)?;
        git(&work, &["push", "--quiet", "../project.git", "main"]).map(|_| ())
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let programs = git(Path::new("/"), &["--exec-path"])?;
        let location = format!(
            "client_max_body_size 0;\nlocation / {{\n\
             fastcgi_pass 127.0.0.1:{FCGI_PORT};\n\
             fastcgi_param SCRIPT_FILENAME {programs}/git-http-backend;\n\
             fastcgi_param GIT_PROJECT_ROOT {root};\n\
             fastcgi_param GIT_HTTP_EXPORT_ALL \"1\";\n\
             fastcgi_param GIT_PROTOCOL $http_git_protocol;\n\
             fastcgi_param PATH_INFO $uri;\n\
             fastcgi_param QUERY_STRING $query_string;\n\
             fastcgi_param REQUEST_METHOD $request_method;\n\
             fastcgi_param CONTENT_TYPE $content_type;\n\
             fastcgi_param CONTENT_LENGTH $content_length;\n\
             fastcgi_param HTTP_CONTENT_ENCODING $http_content_encoding;\n}}",
            root = scene.grounds.path("git").display()
        );
        let mut fcgi = Command::new("fcgiwrap");
        fcgi.args(["-s", &format!("tcp:127.0.0.1:{FCGI_PORT}")]);
        let fcgi = Server::launch(
            scene.server,
            &mut fcgi,
            FCGI_PORT,
            &scene.folder.join("fcgiwrap.log"),
        )?;
        Ok(vec![web::nginx(scene, &[(HOST, location)])?, fcgi])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let clone = scene.folder.join("clone");
        if clone.exists() {
            fs::remove_dir_all(&clone).map_err(LabError::io("remove a clone"))?;
        }
        let template = scene.grounds.path("git").join("clone");
        command::run(Command::new("cp").arg("-a").args([&template, &clone]))?;
        let mut command = hosts::with(&scene.grounds.hosts());
        alone(&mut command);
        let root = &scene.grounds.chain(HOST)?.root;
        command
            .env("GIT_SSL_CAINFO", root)
            .args(["git", "-C"])
            .arg(&clone)
            .args(["fetch", "--quiet", "origin", "main"]);
        Ok(command)
    }

    fn verify(&self, scene: &Scene<'_>, _output: &[u8]) -> Result<(), String> {
        let clone = scene.folder.join("clone");
        let say = |error: LabError| error.to_string();
        let fetched = git(&clone, &["rev-parse", "FETCH_HEAD"]).map_err(say)?;
        let project = scene.grounds.path("git").join("project.git");
        let wanted = git(&project, &["rev-parse", "main"]).map_err(say)?;
        // Each object that git takes in it has checked against its digest.
        git(&clone, &["rev-list", "--objects", "--quiet", "FETCH_HEAD"]).map_err(say)?;
        if fetched == wanted {
            Ok(())
        } else {
            Err("the commit is not the server's".to_owned())
        }
    }
}

/// A file's text: 1 kB that compresses to half.
fn lines(seed: u64) -> String {
    let words = noise(seed, 512)
        .into_iter()
        .map(|byte| format!("{byte:02x}"));
    let words: Vec<String> = words.collect();
    let lines = words.chunks(16).map(|line| line.concat() + "\n");
    lines.collect()
}

/// Neither the machine's settings of git nor the user's.
fn alone(command: &mut Command) {
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    for role in ["AUTHOR", "COMMITTER"] {
        command
            .env(format!("GIT_{role}_NAME"), "Lab")
            .env(format!("GIT_{role}_EMAIL"), "lab@tandem.example")
            .env(format!("GIT_{role}_DATE"), "2026-01-01T00:00:00Z");
    }
}

/// Runs git in a folder; what it prints.
fn git(folder: &Path, words: &[&str]) -> Result<String, LabError> {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(words);
    alone(&mut command);
    let output = command::run(&mut command)?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}
