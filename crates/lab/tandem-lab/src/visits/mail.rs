//! A look into a mailbox by IMAP over TLS: Python's imaplib at one end, dovecot at the other.

use std::fs;
use std::path::Path;
use std::process::Command;

use tandem_testbed::LabError;
use tandem_testbed::client::contains;
use tandem_testbed::command;
use tandem_testbed::installed::Question;
use tandem_testbed::server::Server;

use super::application::{Application, Scene, openssl_settings};
use super::grounds::{Grounds, empty, put};
use crate::hosts;

const HOST: &str = "mail.tandem.example";
const PORT: u16 = 993;

/// The client.
const PROGRAM: &str = include_str!("../../programs/check_mail.py");

/// Mails that were read, and others.
const READ: usize = 8;
const NEW: usize = 2;

/// A client looks for new mail and fetches what there is.
pub(super) struct Check;

impl Application for Check {
    fn about(&self) -> &'static str {
        "a client looks into a mailbox of 10 mails and fetches 2 new ones, 1 kB each: Python's imaplib, \
         dovecot"
    }

    fn needs(&self) -> &'static [&'static str] {
        &["dovecot", "python3", "unshare"]
    }

    fn programs(&self) -> Vec<(&'static str, Question)> {
        vec![
            (
                "dovecot",
                Question::new("/usr/sbin/dovecot", &["--version"]),
            ),
            ("Python", Question::new("python3", &["--version"])),
        ]
    }

    fn names(&self) -> &'static [&'static str] {
        &[HOST]
    }

    fn make(&self, grounds: &Grounds) -> Result<(), LabError> {
        let mailbox = grounds.path("mail");
        fs::create_dir_all(mailbox.join("tmp")).map_err(LabError::io("make a mailbox"))?;
        for number in 0..READ + NEW {
            let file = if number < READ {
                format!("cur/17000000{number:02}.M{number}P1.lab:2,S")
            } else {
                format!("new/17000000{number:02}.M{number}P1.lab")
            };
            put(&mailbox.join(file), mail(number))?;
        }
        put(&grounds.path("check_mail.py"), PROGRAM)
    }

    fn serve(&self, scene: &Scene<'_>) -> Result<Vec<Server>, LabError> {
        let chain = scene.grounds.chain(HOST)?;
        let (run, box_) = (scene.folder.join("dovecot"), scene.folder.join("mailbox"));
        empty(&run)?;
        command::run(
            Command::new("cp")
                .arg("-a")
                .args([&scene.grounds.path("mail"), &box_]),
        )?;
        // Dovecot reads no mail as root.
        command::run(
            Command::new("chown")
                .args(["-R", "nobody:nogroup"])
                .arg(&box_),
        )?;
        let settings = scene.folder.join("dovecot.conf");
        put(
            &settings,
            dovecot(
                &run,
                &box_,
                [&chain.full, &chain.key],
                &openssl_settings(scene)?,
            ),
        )?;
        let mut server = Command::new("dovecot");
        server.arg("-F").arg("-c").arg(settings);
        let log = scene.folder.join("dovecot.log");
        Ok(vec![Server::launch(scene.server, &mut server, PORT, &log)?])
    }

    fn client(&self, scene: &Scene<'_>) -> Result<Command, LabError> {
        let mut command = hosts::with(&scene.grounds.hosts());
        command
            .arg("python3")
            .arg(scene.grounds.path("check_mail.py"))
            .args([HOST, &PORT.to_string()])
            .arg(&scene.grounds.chain(HOST)?.root);
        Ok(command)
    }

    fn verify(&self, _scene: &Scene<'_>, output: &[u8]) -> Result<(), String> {
        let is_there = |number: usize| contains(output, &mail(number));
        if (READ..READ + NEW).all(is_there) && !is_there(0) {
            Ok(())
        } else {
            Err("the new mails are not the server's".to_owned())
        }
    }
}

/// A mail, with the ends of lines that IMAP has.
fn mail(number: usize) -> String {
    let head = format!(
        "From: Operator <ops@tandem.example>\r\nTo: Site 7 <site7@tandem.example>\r\n\
         Subject: Orders of day {number}\r\nMessage-ID: <{number}@tandem.example>\r\n\
         Date: Thu, 1 Jan 2026 00:00:{number:02} +0000\r\n\r\n"
    );
    let lines = (0..20).map(|line| format!("Line {line} of mail {number}: keep to the plan.\r\n"));
    head + &lines.collect::<String>()
}

/// The server's settings.
fn dovecot(run: &Path, mailbox: &Path, [chain, key]: [&Path; 2], openssl: &Path) -> String {
    format!(
        "import_environment = $import_environment OPENSSL_CONF={openssl}\n\
         base_dir = {run}\nstate_dir = {run}\nlog_path = /dev/stderr\n\
         protocols = imap\nlisten = *\nssl = required\nssl_cert = <{chain}\nssl_key = <{key}\n\
         mail_location = maildir:{mailbox}\nfirst_valid_uid = 1\n\
         passdb {{\n  driver = static\n  args = password=secret\n}}\n\
         userdb {{\n  driver = static\n  args = uid=nobody gid=nogroup home={mailbox}\n}}\n\
         service imap-login {{\n  inet_listener imap {{\n    port = 0\n  }}\n\
         \u{20} inet_listener imaps {{\n    port = {PORT}\n    ssl = yes\n  }}\n}}\n",
        openssl = openssl.display(),
        run = run.display(),
        mailbox = mailbox.display(),
        chain = chain.display(),
        key = key.display(),
    )
}
