//! Questions after sites' next chains, and answers: what either side writes and makes of them.
//!
//! Is not: who is asked after and when, or what a site's answer means (`tandem-engine`); sockets.
//! Invariants: an answer is taken in only if its check is right; a site is looked at only if it has
//! shown here what the question says that it shows.

use tandem_engine::{Engine, Found, Look, Wanted};
use tandem_link::tunnel::{self, Malformed, Piece, RenewalAnswer, RenewalQuery, Target};
use tandem_store::{HostName, Site, Store};
use tandem_wire::UnixTime;

/// What became of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// The site's next chain is held now.
    Renewed,
    /// There is none, or it could not be had.
    Nothing,
}

/// What a question leads to.
#[derive(Debug)]
pub enum Step {
    /// This site is to be looked at, by a connection to it.
    Look(Target, Box<Look>),
    /// This is the answer.
    Answer(Vec<u8>),
}

/// The question for this site; `None` where its name may not cross.
pub fn question(wanted: &Wanted) -> Option<Vec<u8>> {
    let target = match &wanted.site {
        Site::Name(name) => Target::new(name.as_str(), wanted.port).ok()?,
        Site::Address(address) => Target::Address(*address),
        Site::Any => return None,
    };
    let held = wanted.held.prefix4();
    let mut question = Vec::new();
    RenewalQuery { target, held }.write(&mut question)?;
    Some(question)
}

/// Takes the answer in.
///
/// # Errors
/// [`Malformed`] for what is none.
pub fn take_answer<S: Store>(
    engine: &mut Engine<S>,
    wanted: &Wanted,
    answer: &[u8],
) -> Result<Answered, Malformed> {
    match RenewalAnswer::parse(answer)? {
        RenewalAnswer::Same | RenewalAnswer::NotHeld | RenewalAnswer::NotRead => {
            Ok(Answered::Nothing)
        }
        RenewalAnswer::Renewed { check, delta } => {
            let list = engine.rebuild_renewal(wanted, delta.bytes());
            let list = list.filter(|list| tunnel::check(list) == check);
            let is_held = list.is_some_and(|list| engine.renewed(wanted, &list));
            Ok(match is_held {
                true => Answered::Renewed,
                false => Answered::Nothing,
            })
        }
    }
}

/// Reads a question, of which this is the whole; `random` is for the hello to its site.
///
/// # Errors
/// [`Malformed`] for what is none.
pub fn read_question<S: Store>(
    engine: &mut Engine<S>,
    question: &[u8],
    (random, now): ([u8; 32], UnixTime),
) -> Result<Step, Malformed> {
    let RenewalQuery { target, held } = RenewalQuery::parse(question)?;
    let site = match &target {
        Target::Name { name, .. } => Site::Name(HostName::new(name).map_err(|_| Malformed)?),
        Target::Address(address) => Site::Address(*address),
    };
    Ok(match engine.look_at(site, held, (random, now)) {
        Some(look) => Step::Look(target, Box::new(look)),
        None => Step::Answer(written(&RenewalAnswer::NotHeld)),
    })
}

/// The answer to a question whose site was looked at: `seen` is the list that it shows, if any.
pub fn answer<S: Store>(
    engine: &mut Engine<S>,
    look: &Look,
    (seen, now): (Option<Vec<u8>>, UnixTime),
) -> Vec<u8> {
    let answer = match engine.looked(look, seen, now) {
        Found::Same => RenewalAnswer::Same,
        Found::Unreadable => RenewalAnswer::NotRead,
        Found::Renewed { list, delta } => match Piece::new(delta) {
            Some(delta) => RenewalAnswer::Renewed {
                check: tunnel::check(&list),
                delta,
            },
            None => RenewalAnswer::NotRead,
        },
    };
    written(&answer)
}

fn written(answer: &RenewalAnswer) -> Vec<u8> {
    let mut bytes = Vec::new();
    answer.write(&mut bytes);
    bytes
}
