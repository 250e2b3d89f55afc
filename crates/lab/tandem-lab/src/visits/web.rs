//! Visits by curl to nginx: a page with objects from six hosts, and a poll of an API; and nginx for
//! those that others make.

use std::fs;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::installed::Question;
use tandem_testbed::nginx;
use tandem_testbed::server::{PORT, Server};

use super::application::{Application, Scene, protocol};
use super::grounds::{Grounds, empty, noise, put};
use crate::hosts;

/// The page's hosts. Each has as many objects as any other.
const HOSTS: [&str; 6] = [
    "www.tandem.example",
    "static.tandem.example",
    "img.tandem.example",
    "fonts.tandem.example",
    "cdn.tandem.example",
    "data.tandem.example",
];

/// Objects of the page.
const OBJECTS: usize = 30;

/// Bytes of the page's document.
const DOCUMENT: usize = 3_168;

/// Runs curl with each of these settings, all at once; fails where one does. None outlives it.
const SIX_AT_ONCE: &str = "\
    for settings; do setpriv --pdeathsig KILL curl -q -sS --config \"$settings\" & all=\"$all $!\"; done; \
    for one in $all; do wait $one || failed=1; done; exit ${failed:-0}";

/// The API's host.
const API: &str = "api.tandem.example";

/// What the API answers with: 314 bytes, as a device's state may have.
const STATE: &str = r#"{"device":"pump-7","firmware":"2.14.3","state":"running","pressure":[4.01,4.02,3.98,4.00,4.03,4.01,3.99,4.00],"flow":12.7,"temperature":{"motor":61.4,"bearing":48.9,"fluid":22.1},"alarms":[],"next":{"command":"none","after":60},"links":{"self":"/v1/devices/pump-7","history":"/v1/devices/pump-7/history?hours=24"}}"#;

/// A page of 30 objects from 6 hosts.
pub(super) struct Page;

/// One question to an API.
pub(super) struct Poll;

/// The host of an object of the page, and its path.
fn object(number: usize) -> (&'static str, String) {
    (HOSTS[number % HOSTS.len()], format!("object-{number}"))
}

/// Bytes of an object: a document, and others from 100 to 716, 15,000 in all.
fn length(number: usize) -> usize {
    match number {
        0 => DOCUMENT,
        number => 100 + (number - 1) * 22,
    }
}

impl Application for Page {
    fn about(&self) -> &'static str {
        "30 objects, 15 kB, from 6 hosts with a certificate each, all hosts at once, a connection each: \
         curl (HTTP/2), nginx"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["curl", "nginx", "setpriv", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        web_programs()
    }

    fn names(&self) -> &'static [&'static str] {
        &HOSTS
    }

    fn make(&self, grounds: &Grounds) -> Result<(), LabError> {
        for number in 0..OBJECTS {
            let (host, path) = object(number);
            let file = grounds.path("page").join(host).join(path);
            put(&file, noise(number as u64, length(number)))?;
        }
        Ok(())
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let sites = HOSTS.map(|host| {
            let root = scene.grounds.path("page").join(host);
            let location = format!("location / {{ root {}; }}", root.display());
            (host, location)
        });
        Ok(vec![nginx(scene, &sites)?])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let got = scene.folder.join("got");
        empty(&got)?;
        // A program for each host: a connection that one end gives up holds up its own host alone.
        let mut command = hosts::with(&scene.grounds.hosts());
        command.args(["sh", "-c", SIX_AT_ONCE, "page"]);
        for host in HOSTS {
            let root = &scene.grounds.chain(host)?.root;
            let mut settings = format!("cacert = \"{}\"\nfail\n", root.display());
            let own = (0..OBJECTS).map(object).filter(|(of, _)| *of == host);
            for (_, path) in own {
                let file = got.join(&path);
                let transfer = format!(
                    "url = \"https://{host}/{path}\"\noutput = \"{}\"\n",
                    file.display()
                );
                settings.push_str(&transfer);
            }
            let file = scene.folder.join(format!("{host}.curl"));
            put(&file, settings)?;
            command.arg(file);
        }
        Ok(command)
    }

    fn verify(&self, scene: &Scene<'_>, _output: &[u8]) -> Result<(), String> {
        let is_right = |number: &usize| {
            let (_, path) = object(*number);
            let got = fs::read(scene.folder.join("got").join(path));
            got.is_ok_and(|got| got == noise(*number as u64, length(*number)))
        };
        let wrong = (0..OBJECTS).find(|number| !is_right(number));
        wrong.map_or(Ok(()), |number| {
            Err(format!("object {number} is not the server's"))
        })
    }
}

impl Application for Poll {
    fn about(&self) -> &'static str {
        "a client asks an API for 314 bytes of JSON, by a new connection each time: curl, nginx"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["curl", "nginx", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        web_programs()
    }

    fn names(&self) -> &'static [&'static str] {
        &[API]
    }

    fn make(&self, grounds: &Grounds) -> Result<(), LabError> {
        put(&grounds.path("api").join("state"), STATE)
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let root = scene.grounds.path("api");
        let location = format!(
            "location / {{ root {}; default_type application/json; }}",
            root.display()
        );
        Ok(vec![nginx(scene, &[(API, location)])?])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let mut command = hosts::with(&scene.grounds.hosts());
        command
            .args(["curl", "-q", "-sS", "--fail", "--cacert"])
            .arg(&scene.grounds.chain(API)?.root)
            .arg(format!("https://{API}/state"));
        Ok(command)
    }

    fn verify(&self, _scene: &Scene<'_>, output: &[u8]) -> Result<(), String> {
        if output == STATE.as_bytes() {
            Ok(())
        } else {
            Err("the answer is not the server's".to_owned())
        }
    }
}

fn web_programs() -> Vec<(&'static str, Question)> {
    vec![
        ("curl", Question::new("curl", &["--version"])),
        ("nginx", Question::new("nginx", &["-v"])),
    ]
}

/// Starts nginx with its stock settings, but for the version: a site for each name, with what
/// stands in its block.
pub(super) fn nginx(scene: &Scene<'_>, sites: &[(&str, String)]) -> Result<Server, LabError> {
    let directory = scene.folder.join("nginx");
    fs::create_dir_all(&directory).map_err(LabError::io("make the server's directory"))?;
    let protocol = protocol(scene.version);
    let mut blocks = "default_type application/octet-stream;\n".to_owned();
    for (name, block) in sites {
        let chain = scene.grounds.chain(name)?;
        blocks.push_str(&format!(
            "server {{ listen {PORT} ssl http2; server_name {name};\n\
             ssl_certificate {}; ssl_certificate_key {}; ssl_protocols {protocol};\n{block} }}\n",
            chain.full.display(),
            chain.key.display()
        ));
    }
    let mut command = nginx::command(&directory, &blocks)?;
    Server::launch(scene.server, &mut command, PORT, &directory.join("log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_and_the_answer_are_as_large_as_is_said() {
        assert_eq!((0..OBJECTS).map(length).sum::<usize>(), 15_000);
        assert_eq!(STATE.len(), 314);
        for host in HOSTS {
            let own = (0..OBJECTS).filter(|number| object(*number).0 == host);
            assert_eq!(own.count(), OBJECTS / HOSTS.len(), "{host}");
        }
    }
}
