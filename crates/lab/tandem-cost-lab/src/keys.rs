//! What the kind of the server's key costs: full handshakes with each kind, at several servers.

use tandem_measure_io::TlsVersion;
use tandem_report::cost_row::{CostRow, KeyRow};
use tandem_testbed::pki::KeyKind;
use tandem_testbed::{LabError, interrupt};

use crate::arms::Arm;
use crate::load::Measurement;
use crate::servers::{Keeping, Program, Wanted};
use crate::site::SIZES;
use crate::stage::Stage;

/// The kinds, and what tables call them. The first is what the others are compared with.
const KINDS: [(KeyKind, &str); 6] = [
    (KeyKind::Rsa2048, "RSA-2048"),
    (KeyKind::Rsa3072, "RSA-3072"),
    (KeyKind::Rsa4096, "RSA-4096"),
    (KeyKind::EcdsaP256, "P-256"),
    (KeyKind::EcdsaP384, "P-384"),
    (KeyKind::Ed25519, "Ed25519"),
];
/// One server of each TLS library, and of OpenSSL those that cost least beside it.
const SERVERS: [Program; 5] = [
    Program::Nginx,
    Program::Haproxy,
    Program::Go,
    Program::Openssl,
    Program::Hyper,
];

/// Measures all of them.
///
/// # Errors
/// `Io`, `Interrupted`, `ProgramMissing`; `Command` where the generator itself fails.
pub(crate) fn measure_all(run: &mut Stage, chosen: &[Program]) -> Result<(), LabError> {
    run.console.say("kinds of keys");
    let mut servers: Vec<Program> = SERVERS.to_vec();
    servers.retain(|program| chosen.contains(program) && program.missing().is_none());
    for (kind, key) in KINDS {
        let chain = match run.site.issue(kind) {
            Ok(chain) => chain,
            Err(error @ LabError::Command { .. }) => {
                run.absent(key, &error.to_string());
                continue;
            }
            Err(error) => return Err(error),
        };
        let wanted = Wanted {
            chain: &chain,
            keeping: Keeping::All,
            workers: 1,
            timed: None,
        };
        for program in &servers {
            let Some(server) = run.start(*program, &wanted)? else {
                continue;
            };
            for version in [TlsVersion::V13, TlsVersion::V12] {
                interrupt::check()?;
                let arm = Arm::secure(version, 0, SIZES[1]);
                let measurement = run.measurement(program.name(), &server, &wanted, arm);
                let taken = Measurement { key, ..measurement }.take()?;
                run.rows.push(CostRow::Key(KeyRow {
                    load: taken.row,
                    chain_bytes: chain.sizes.iter().sum(),
                    handshake_bytes: taken.handshake_bytes,
                }));
            }
        }
    }
    Ok(())
}
