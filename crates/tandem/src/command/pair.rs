//! `tandem pair`: makes the key, carries it to the other side, and writes what both sides need.
//!
//! Is not: the exchange itself (`tandem-pair`).
//!
//! Invariants: whatever can fail on this side is tried before the other side hears of anything;
//! what is written is written whole or not at all; an invitation is used up only by a client side
//! that can keep the key.

mod files;

use std::io::{self, IsTerminal as _, Read as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Serialize;
use tandem_daemon::listener;
use tandem_daemon::runtime::{self, unless};
use tandem_packet_io::config::{Key, Role, read_key};
use tandem_pair::{Handover, Invitation, Inviter, PairError, Stranger, Target, accept};
use tandem_wire::clock::UnixTime;
use tokio::time::timeout;

use crate::cli::{AcceptArgs, InviteArgs, PairCommand};
use crate::exit::Failure;
use crate::settings::SettingsError;
use crate::{moment, output};
use files::Files;

/// Where a tunnel comes, unless something else is said.
const LISTEN: (Ipv4Addr, u16) = (Ipv4Addr::UNSPECIFIED, 4433);

/// Strangers that are told of, one line each.
const MAX_STRANGERS_TOLD: u32 = 8;

/// The most that is read for an invitation.
const MAX_INVITATION: u64 = 4096;

pub(crate) fn run(command: PairCommand) -> Result<(), Failure> {
    match command {
        PairCommand::Invite(arguments) => runtime::run(invite(arguments)),
        PairCommand::Accept(arguments) => {
            // Read before signals are caught: Ctrl-C ends the question, too.
            let invitation = match &arguments.invitation {
                Some(text) => text.parse()?,
                None => asked()?.parse()?,
            };
            runtime::run(accepted(arguments, invitation))
        }
    }
}

/// What programs are told.
#[derive(Serialize)]
#[serde(rename_all = "kebab-case")]
enum Told<'a> {
    /// Once it is waited for the other side.
    Invitation {
        text: String,
        address: String,
        /// Seconds since 1970.
        expires: u64,
    },
    /// At the end.
    Paired {
        /// The other side.
        with: String,
        key: &'a Path,
        #[serde(skip_serializing_if = "Option::is_none")]
        config: Option<&'a Path>,
    },
}

type End = Pin<Box<dyn Future<Output = ()>>>;

fn asked_to_end() -> Result<End, Failure> {
    Ok(Box::pin(runtime::asked_to_end()?))
}

async fn invite(arguments: InviteArgs) -> Result<(), Failure> {
    let mut files = Files::of(Role::ServerSide, &arguments.files)?;
    let listen = match (arguments.listen, files.said().listen) {
        (Some(listen), _) => listen,
        (None, Some(said)) => said,
        (None, None) => LISTEN.into(),
    };
    if listen.port() == 0 {
        let problem = "0 is no port here: the other side has to find it again";
        return Err(SettingsError::value("listen", problem).into());
    }
    let key = match files.has_key()? {
        true => read_key(files.key())?,
        false => files.make_key(Key::from_bytes(super::keygen::random()?))?,
    };
    files.set_mode();
    files.set_key();
    files.set("listen", &listen.to_string());
    files.prepare()?;

    let tunnel = target(&arguments.address, listen.port())?;
    let (address, wait_at) = match arguments.tcp_port {
        Some(port) => (with_port(&tunnel, port), SocketAddr::new(listen.ip(), port)),
        None => (tunnel.clone(), listen),
    };
    let mut end = asked_to_end()?;
    // Named after what helps where the port is taken, as by the server side itself.
    let waiting = listener::listen("--tcp-port", wait_at).await?;
    let minutes = arguments.minutes;
    let lasts = Duration::from_secs(60 * u64::from(minutes));
    let expires = UnixTime(moment::now().0 + lasts.as_secs());
    let inviter = Inviter::new(address, expires)?;
    tell_invitation(inviter.invitation(), wait_at, &arguments)?;

    let told = AtomicU32::new(0);
    let guest = timeout(
        lasts,
        inviter.guest(waiting, |stranger| tell(&stranger, &told)),
    );
    let guest = unless(&mut end, guest)
        .await
        .ok_or(Failure::Interrupted)?
        .map_err(|_| Failure::NobodyCame { minutes })?;
    let from = guest.from();
    files.keep()?;
    let handover = Handover {
        key: (*key.bytes()).into(),
        port: tunnel.port(),
    };
    let unconfirmed = |source| Failure::Unconfirmed {
        key: files.key().to_owned(),
        source,
    };
    match unless(&mut end, guest.hand_over(&handover)).await {
        Some(Ok(())) => {}
        Some(Err(PairError::Unconfirmed { source })) => return Err(unconfirmed(source)),
        Some(Err(error)) => return Err(error.into()),
        None => return Err(unconfirmed(io::ErrorKind::Interrupted.into())),
    }
    eprintln!("paired with {}", from.ip());
    finish(&files, from.to_string(), arguments.files.json)
}

fn tell_invitation(
    invitation: &Invitation,
    wait_at: SocketAddr,
    arguments: &InviteArgs,
) -> Result<(), Failure> {
    if arguments.files.json {
        return output::print_json_line(&Told::Invitation {
            text: invitation.to_string(),
            address: invitation.address().to_string(),
            expires: invitation.expires().0,
        });
    }
    let minutes = arguments.minutes;
    let key_only = match arguments.files.key_only {
        true => " --key-only",
        false => "",
    };
    eprintln!("This invitation works once, within {minutes} minutes; keep it secret until then.");
    eprintln!("Give it to `tandem pair accept{key_only}` on the other side:");
    eprintln!();
    output::print(&invitation.to_string())?;
    eprintln!();
    eprintln!("Waiting at {wait_at} (TCP). Ctrl-C ends it, and nothing is written.");
    Ok(())
}

/// Says that somebody came who does not have the invitation.
fn tell(stranger: &Stranger, told: &AtomicU32) {
    let before = told.fetch_add(1, Ordering::Relaxed);
    if before < MAX_STRANGERS_TOLD {
        eprintln!(
            "{} connected without the invitation ({})",
            stranger.from, stranger.why
        );
    } else if before == MAX_STRANGERS_TOLD {
        eprintln!("others do, too; no more of them are shown");
    }
}

async fn accepted(arguments: AcceptArgs, invitation: Invitation) -> Result<(), Failure> {
    let mut files = Files::of(Role::ClientSide, &arguments.files)?;
    match arguments.force {
        true => files.replace(),
        false => files.is_free()?,
    }
    files.expect_key()?;
    files.set_mode();
    files.set_key();
    if !files.said().has_way_in() {
        files.set("socks", "127.0.0.1:1080");
    }
    files.set("peer", &stand_in(&invitation));
    files.prepare()?;

    let mut end = asked_to_end()?;
    eprintln!("asking {} for the key", invitation.address());
    let received = unless(&mut end, accept(&invitation))
        .await
        .ok_or(Failure::Interrupted)?
        .map_err(|error| expired(error, &invitation))?;
    files.put_key(&Key::from_bytes(*received.handover.key))?;
    files.set("peer", &received.peer.to_string());
    files.prepare()?;
    files.keep()?;
    let peer = received.peer;
    match unless(&mut end, received.confirm()).await {
        Some(Ok(())) => eprintln!("paired with {peer}"),
        Some(Err(_)) | None => eprintln!(
            "paired with {peer}, which may not have learned of it: there is nothing to do, \
             even if it says so there"
        ),
    }
    finish(&files, peer.to_string(), arguments.files.json)
}

/// A peer for trying out what the settings will be, as long as its address is not known.
fn stand_in(invitation: &Invitation) -> String {
    SocketAddr::from((Ipv4Addr::LOCALHOST, invitation.address().port())).to_string()
}

/// Where nobody answers and the invitation's time is over, that is why.
fn expired(error: PairError, invitation: &Invitation) -> PairError {
    match error {
        PairError::Unreachable { address, .. } if moment::now() > invitation.expires() => {
            PairError::Expired { address }
        }
        other => other,
    }
}

/// What was written, and what comes next.
fn finish(files: &Files, with: String, json: bool) -> Result<(), Failure> {
    let (key, config) = (files.key(), files.config());
    if json {
        return output::print_json_line(&Told::Paired { with, key, config });
    }
    eprintln!("key:      {}", key.display());
    let role = files.role_name();
    match config {
        Some(config) => {
            eprintln!("settings: {}", config.display());
            eprintln!("start it: tandem {role} --config {}", config.display());
        }
        None => eprintln!(
            "start it: tandem {role} --key {} --link IFACE",
            key.display()
        ),
    }
    Ok(())
}

/// What standard input has to say, after a question where somebody sits in front of it.
fn asked() -> Result<String, Failure> {
    let input = io::stdin();
    let mut text = String::new();
    let read = if input.is_terminal() {
        eprintln!("The invitation, one line (`tandem pair invite` on the other side prints it):");
        input.read_line(&mut text).map(drop)
    } else {
        let mut input = input.lock().take(MAX_INVITATION);
        input.read_to_string(&mut text).map(drop)
    };
    read.map_err(|source| Failure::file(Path::new("standard input"), source))?;
    Ok(text)
}

/// `HOST` or `HOST:PORT`.
fn target(text: &str, port: u16) -> Result<Target, SettingsError> {
    let wrong = || {
        let problem = format!("`{text}` is neither a name nor an address, with :PORT or without");
        SettingsError::value("address", problem)
    };
    // An IPv6 address without brackets has no port: its last part would be taken for one.
    if let Ok(target) = Target::new(text, port) {
        return Ok(target);
    }
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse().map_err(|_| wrong())?;
    Target::new(host, port).map_err(|_| wrong())
}

fn with_port(target: &Target, port: u16) -> Target {
    match target {
        Target::Address(address) => Target::Address(SocketAddr::new(address.ip(), port)),
        Target::Name { name, .. } => Target::Name {
            name: name.clone(),
            port,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_may_have_a_port_of_its_own() {
        for (text, expected) in [
            ("gw.example.net", "gw.example.net:4433"),
            ("gw.example.net:5000", "gw.example.net:5000"),
            ("192.0.2.1", "192.0.2.1:4433"),
            ("192.0.2.1:5000", "192.0.2.1:5000"),
            ("2001:db8::1", "[2001:db8::1]:4433"),
            ("[2001:db8::1]:5000", "[2001:db8::1]:5000"),
        ] {
            let target = target(text, 4433).expect(text);
            assert_eq!(target.to_string(), expected);
            let other = with_port(&target, 7).to_string();
            assert!(other.ends_with(":7"), "{other}");
        }
        for text in ["", ":5000", "gw:x", "gw:0", "a b", "http://gw/"] {
            let error = target(text, 4433).expect_err(text).to_string();
            assert!(error.starts_with("address: "), "{error}");
        }
    }
}
