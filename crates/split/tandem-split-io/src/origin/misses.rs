//! What a volunteer lacks: answers from the spool, in the order of the questions.
//!
//! Is not: pushed. Nothing crosses here that was not asked for by its digest.
//!
//! Invariants: a volunteer that asks nothing for long, or takes nothing, is left; one that leaves
//! without a close has left all the same; one keeps its place from its first question on.

use std::collections::HashSet;
use std::io::ErrorKind;
use std::sync::Arc;
use std::time::Duration;

use tandem_split::message::{Absent, Found, Message, Miss, list_parts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use tokio::time::{sleep, timeout};

use super::session::STALL;
use super::work::Account;
use super::{Failed, Shared};
use crate::places::Place;
use tandem_channel::ServerChannel;
use tandem_split::payload::MAX_PAYLOAD_LEN;
use tandem_split::{Decoder, Payload, PayloadName};

/// How long nothing may be asked: longer than a volunteer keeps a channel that it does not use.
const IDLE: Duration = Duration::from_secs(90);
/// What is written at once.
const BATCH: usize = 64 << 10;

/// Serves one channel of misses until the volunteer closes it.
pub(super) async fn serve(
    shared: &Arc<Shared>,
    mut io: ServerChannel,
    mut decoder: Decoder,
    place: &Place,
    account: &Account,
) -> Result<(), Failed> {
    let mut buffer = vec![0; 16 << 10];
    let mut out = Vec::new();
    loop {
        while let Some(message) = decoder.next_message()? {
            if let Message::Miss(miss) = message {
                place.keep();
                answer(shared, account, miss, &mut out, &mut io).await?;
            }
        }
        write(account, &mut io, &mut out).await?;
        let len = match timeout(IDLE, io.read(&mut buffer)).await {
            Ok(Ok(len @ 1..)) => len,
            Ok(Err(error)) if error.kind() != ErrorKind::UnexpectedEof => {
                return Err(error.into());
            }
            Ok(Ok(_) | Err(_)) | Err(_) => return Ok(()),
        };
        let mut bytes = &buffer[..len];
        while !bytes.is_empty() {
            let taken = decoder.push(bytes);
            bytes = &bytes[taken..];
            if taken == 0 {
                // A whole message waits.
                if let Some(Message::Miss(miss)) = decoder.next_message()? {
                    place.keep();
                    answer(shared, account, miss, &mut out, &mut io).await?;
                }
            }
        }
    }
}

async fn answer(
    shared: &Shared,
    account: &Account,
    miss: Miss,
    out: &mut Vec<u8>,
    io: &mut ServerChannel,
) -> Result<(), Failed> {
    shared.numbers.misses.add(1);
    // Lists, and what is not there, take no turn.
    let delay = account.delay();
    if !delay.is_zero() {
        sleep(delay).await;
    }
    match miss {
        Miss::Payload(name) => match found(shared, account, name).await {
            Some(payload) => Message::Found(Found::new(&payload)).write(out),
            None => absent(shared, miss, out),
        },
        Miss::Object {
            object,
            first,
            count,
        } => {
            let Some(list) = shared.spool.list(object) else {
                absent(shared, miss, out);
                return Ok(());
            };
            for part in list_parts(&list) {
                Message::ListPart(part).write(out);
            }
            let mut answered = HashSet::new();
            for name in list.chunks().skip(first as usize).take(count as usize) {
                // One that is in the object twice crosses once.
                if !answered.insert(name) {
                    continue;
                }
                match found(shared, account, name).await {
                    Some(payload) => Message::Found(Found::new(&payload)).write(out),
                    None => absent(shared, Miss::Payload(name), out),
                }
                if out.len() >= BATCH {
                    write(account, io, out).await?;
                }
            }
        }
    }
    if out.len() >= BATCH {
        write(account, io, out).await?;
    }
    Ok(())
}

/// A payload, which is read and hashed when it is its volunteer's turn.
async fn found(shared: &Shared, account: &Account, name: PayloadName) -> Option<Payload> {
    let _turn = account.turn(MAX_PAYLOAD_LEN as u64).await;
    shared.spool.payload(name)
}

/// Sends what waits, which is little more than a batch.
async fn write(account: &Account, io: &mut ServerChannel, out: &mut Vec<u8>) -> Result<(), Failed> {
    let written = async {
        io.write_all(out).await?;
        io.flush().await
    };
    timeout(STALL, written)
        .await
        .map_err(|_| Failed::Stalled)??;
    account.note_sent(out.len() as u64);
    out.clear();
    Ok(())
}

fn absent(shared: &Shared, miss: Miss, out: &mut Vec<u8>) {
    shared.numbers.absent.add(1);
    Message::Absent(Absent(miss)).write(out);
}
