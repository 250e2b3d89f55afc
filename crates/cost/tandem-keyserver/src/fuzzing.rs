//! What must hold for any input of this crate's parsers, called by the fuzz target in `fuzz/` and
//! by the replay of its corpus.
//!
//! Not part of the public interface. A function returns where all is well and panics where an
//! invariant is broken.

use crate::content::Content;
use crate::frame::{Answer, Frames, Request};

/// A function that checks the invariants of a parser on any input.
pub type Check = fn(&[u8]);

/// All checks of this crate by the name of their fuzz target.
pub const CHECKS: [(&str, Check); 1] = [("key_frames", key_frames)];

/// Frames are the same in whatever pieces they come, and what is read and written again is the
/// same bytes. A request's message leads back to the same parts, so nothing else can be signed.
pub fn key_frames(data: &[u8]) {
    for new in [Frames::of_requests, Frames::of_answers] {
        let whole = bodies(new(), data, data.len().max(1));
        for piece in [1, 3, 64] {
            assert_eq!(bodies(new(), data, piece), whole, "in pieces of {piece}");
        }
        for body in whole {
            if let Ok(request) = Request::read(&body) {
                assert_eq!(&request.to_frame()[2..], body);
                let message = request.content.message();
                assert_eq!(Content::of_message(&message), Some(request.content));
            }
            if let Ok(answer) = Answer::read(&body) {
                assert_eq!(&answer.to_frame()[2..], body);
            }
        }
    }
    if let Some(content) = Content::of_message(data) {
        assert_eq!(content.message(), data);
    }
}

/// The frames up to the first that is too long.
fn bodies(mut frames: Frames, data: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let mut bodies = Vec::new();
    for bytes in data.chunks(piece) {
        frames.push(bytes);
        loop {
            match frames.next_body() {
                Ok(Some(body)) => bodies.push(body),
                Ok(None) => break,
                Err(_) => return bodies,
            }
        }
    }
    bodies
}
