//! TLS programs that know no HTTP: they are given requests on standard input, and what they print
//! is read here.
//!
//! Is not: a client of HTTP for anybody else. Whether an answer is whole is decided by its
//! Content-Length, as such a client would.

use std::path::Path;
use std::process::Command;

use tandem_testbed::LabError;

use super::job::Job;
use super::process::{Ran, run};
use super::task::{Answer, Outcome, Task, Then, Tools};

/// What gnutls-cli writes behind what it has received.
const NOISE: [&[u8]; 3] = [
    b"*** Fatal error",
    b"- Peer has closed",
    b"*** Server has terminated",
];

/// OpenSSL's client. To resume, it keeps the session of a first connection in a file.
pub(super) fn s_client(task: &Task, tools: &Tools, folder: &Path) -> Result<Outcome, LabError> {
    let file = folder.join("session");
    let connect = |more: Option<&str>| {
        let mut openssl = Command::new("openssl");
        openssl
            .args(["s_client", "-quiet", "-verify_return_error"])
            .args(["-servername", task.host, "-verify_hostname", task.host])
            .args(["-connect", &task.at.to_string()])
            .arg("-CAfile")
            .arg(&tools.authority);
        if let Some(word) = more {
            openssl.arg(word).arg(&file);
        }
        openssl
    };
    if task.job != Job::Resume {
        return Ok(read(
            &run(connect(None), &requests(task), task.limit)?,
            task.job,
        ));
    }
    let mut all = Outcome::default();
    for word in ["-sess_out", "-sess_in"] {
        let ran = run(connect(Some(word)), &requests(task), task.limit)?;
        let outcome = read(&ran, task.job);
        all.answers.extend(outcome.answers);
        all.words = outcome.words;
    }
    Ok(all)
}

/// GnuTLS's client. To resume, it makes a first connection of its own on which nothing is asked.
pub(super) fn gnutls_cli(task: &Task, tools: &Tools) -> Result<Outcome, LabError> {
    let mut gnutls = Command::new("gnutls-cli");
    gnutls
        .args(["--port", &task.at.port().to_string()])
        .args(["--sni-hostname", task.host, "--verify-hostname", task.host])
        .arg("--x509cafile")
        .arg(&tools.authority)
        .arg("127.0.0.1");
    if task.job == Job::Resume {
        gnutls.arg("--resume");
    }
    Ok(read(&run(gnutls, &requests(task), task.limit)?, task.job))
}

/// All requests at once; the last ends the connection.
fn requests(task: &Task) -> Vec<u8> {
    let mut text = Vec::new();
    let times = match task.job {
        Job::Resume => 1,
        job => job.times(),
    };
    for number in 1..=times {
        let argument = task.job.argument();
        let (method, field) = match task.job {
            Job::Head => ("HEAD", String::new()),
            Job::NotModified => ("GET", format!("If-None-Match: {argument}\r\n")),
            Job::Range => ("GET", format!("Range: bytes={argument}\r\n")),
            Job::Upload => ("POST", format!("Content-Length: {argument}\r\n")),
            Job::Chunked => ("POST", "Transfer-Encoding: chunked\r\n".to_owned()),
            Job::Page | Job::Resume | Job::Keep | Job::Large => ("GET", String::new()),
        };
        let end = match task.then {
            Then::Close if number == times => "Connection: close\r\n",
            Then::Close | Then::Stay => "",
        };
        let (path, host) = (&task.path, task.host);
        text.extend(
            format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{field}{end}\r\n").into_bytes(),
        );
        let upload = task.job.upload().unwrap_or_default();
        if task.job != Job::Chunked {
            text.extend_from_slice(&upload);
            continue;
        }
        for chunk in upload.chunks(10_000) {
            text.extend(format!("{:x}\r\n", chunk.len()).into_bytes());
            text.extend_from_slice(chunk);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"0\r\n\r\n");
    }
    text
}

/// The answers in what the program printed.
fn read(ran: &Ran, job: Job) -> Outcome {
    let mut outcome = Outcome::default();
    let mut rest = &ran.stdout[..];
    while let Some(start) = find(rest, b"HTTP/1.1 ") {
        rest = &rest[start..];
        let Some(end) = find(rest, b"\r\n\r\n") else {
            break;
        };
        let head = String::from_utf8_lossy(&rest[..end]).to_lowercase();
        rest = &rest[end + 4..];
        let status = head.get(9..12).and_then(|text| text.parse().ok());
        let status = status.unwrap_or(0);
        let len = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .and_then(|len| len.parse().ok())
            .filter(|_| job != Job::Head && status != 304)
            .unwrap_or(0);
        let is_whole = rest.len() >= len;
        let mut bytes = &rest[..len.min(rest.len())];
        if !is_whole {
            let noise = NOISE.iter().filter_map(|noise| find(bytes, noise)).min();
            bytes = &bytes[..noise.unwrap_or(bytes.len())];
        }
        outcome.answers.push(Answer::of(status, bytes, is_whole));
        rest = &rest[len.min(rest.len())..];
    }
    let is_told = |line: &&str| line.contains("rror") || line.contains("waited");
    let words = format!("{}\n{}", String::from_utf8_lossy(rest), ran.words);
    outcome.words = words
        .lines()
        .rfind(is_told)
        .unwrap_or_default()
        .trim()
        .to_owned();
    outcome
}

fn find(bytes: &[u8], part: &[u8]) -> Option<usize> {
    bytes.windows(part.len()).position(|window| window == part)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_out_of_what_is_printed_and_noise_is_left() {
        let ran = |stdout: &[u8]| Ran {
            stdout: stdout.to_vec(),
            words: "error: bad record mac\n".to_owned(),
            is_success: false,
        };
        let text = b"- Handshake was completed\n\nHTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\noneHTTP/1.1 206 Part\r\nContent-Length: 50\r\n\r\ntwo*** Fatal error: no\n";
        let outcome = read(&ran(text), Job::Keep);
        assert_eq!(
            outcome.answers,
            [
                Answer::of(200, b"one", true),
                Answer::of(206, b"two", false)
            ]
        );
        assert_eq!(outcome.words, "error: bad record mac");
        let head = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n";
        assert_eq!(
            read(&ran(head), Job::Head).answers,
            [Answer::of(200, b"", true)]
        );
        assert!(read(&ran(b"nothing"), Job::Page).answers.is_empty());
    }
}
