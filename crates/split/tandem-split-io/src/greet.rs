//! The first words on a channel, at the end that is asked: what the other wants, and what it gets.
//!
//! Is not: what follows, which depends on the kind of channel.

use std::io;

use tandem_split::Decoder;
use tandem_split::message::{Encodings, Greeting, Message};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use tandem_channel::{KeyExchange, Protocol, ServerChannel};

/// The channel between origin and volunteer, and between volunteers. What crosses it is public, so
/// no hybrid key exchange is worth its bytes on a slow line.
pub const SPLIT: Protocol = Protocol {
    name: b"tandem-split/1",
    key_exchange: KeyExchange::Classical,
};

/// Hears what a volunteer wants, and says what it gets.
pub(crate) async fn greet(io: &mut ServerChannel, decoder: &mut Decoder) -> io::Result<Greeting> {
    let answer = hear(io, decoder).await?;
    say(io, answer).await?;
    Ok(answer)
}

/// Hears what a volunteer wants: the answer, which is still to be said.
pub(crate) async fn hear(io: &mut ServerChannel, decoder: &mut Decoder) -> io::Result<Greeting> {
    let mut buffer = [0; 4096];
    loop {
        if let Some(Message::Greeting(greeting)) =
            decoder.next_message().map_err(io::Error::other)?
        {
            return Ok(greeting.answer(Encodings::DEFAULT));
        }
        let len = io.read(&mut buffer).await?;
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut bytes = &buffer[..len];
        while !bytes.is_empty() {
            match decoder.push(bytes) {
                // The decoder is full, and no greeting was in what it holds.
                0 => return Err(io::ErrorKind::InvalidData.into()),
                taken => bytes = &bytes[taken..],
            }
        }
    }
}

/// Says the answer.
pub(crate) async fn say(io: &mut ServerChannel, answer: Greeting) -> io::Result<()> {
    let mut out = Vec::new();
    Message::Greeting(answer).write(&mut out);
    io.write_all(&out).await?;
    io.flush().await
}
