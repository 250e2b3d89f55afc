//! What the command line says of a middlebox on the way: where it is, what its certificate is for,
//! and what it may do.
//!
//! `[NAME@]HOST:PORT[=GRANTS]`, where GRANTS are a kind's (`filter`), or contexts with their rights
//! (`request-headers:read,4:write`). Nothing is granted that is not written.

use mctls::config::{Context, PathMode, Right};
use mctls::party::{ContextId, MAX_MIDDLEBOXES};
use mctls_io::Via;

use crate::error::McError;
use crate::layout::{DIGEST, Kind, OFFERS, contexts, is_spare};

/// A middlebox on the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViaArgument {
    /// Where it is, and its name.
    pub via: Via,
    /// What it may do.
    pub grants: Grants,
    /// The name under which DNS proposed it; none where the user named it himself.
    pub found_by: Option<String>,
}

/// What a middlebox may do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Grants {
    /// What a kind needs.
    Kind(Kind),
    /// Rights in some contexts, by their purposes or numbers; none in all others.
    Some(Vec<Grant>),
}

/// A right in a context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    context: String,
    right: Right,
}

impl ViaArgument {
    /// One out of its text.
    ///
    /// # Errors
    /// What is wrong with the text, and what would be right.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (place, grants) = match text.split_once('=') {
            Some((place, grants)) => (place, Some(grants)),
            None => (text, None),
        };
        let (name, address) = match place.split_once('@') {
            Some((name, address)) => (Some(name), address),
            None => (None, place),
        };
        let host = host_of(address).ok_or_else(|| {
            format!("{address:?} is no address; write HOST:PORT, such as 127.0.0.1:4443")
        })?;
        let name = name.unwrap_or(host);
        if name.is_empty() {
            return Err("a name has to stand before the @".into());
        }
        Ok(Self {
            via: Via {
                address: address.to_owned(),
                name: name.to_owned(),
            },
            grants: match grants {
                None => Grants::Some(Vec::new()),
                Some(grants) => Grants::parse(grants)?,
            },
            found_by: None,
        })
    }

    /// Whether it is there to hold bodies.
    fn has_cache(&self) -> bool {
        match &self.grants {
            Grants::Kind(kind) => *kind == Kind::Cache,
            Grants::Some(grants) => grants.iter().any(|grant| grant.context == OFFERS),
        }
    }

    /// What it may do in a context.
    fn right(&self, context: &Context) -> Right {
        match &self.grants {
            Grants::Kind(kind) => kind.needs_in(&context.purpose),
            Grants::Some(grants) => {
                let found = grants.iter().find(|grant| grant.is_for(context));
                found.map_or(Right::None, |grant| grant.right)
            }
        }
    }
}

impl Grants {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some(kind) = Kind::named(text) {
            return Ok(Self::Kind(kind));
        }
        let wrong = |part: &str| {
            let kinds = Kind::ALL.map(Kind::name).join(", ");
            format!("{part:?} grants nothing; write CONTEXT:read, CONTEXT:write, or one of {kinds}")
        };
        let grants = text.split(',').map(|part| {
            let (context, right) = part.split_once(':').ok_or_else(|| wrong(part))?;
            let right = match right {
                "read" => Right::Read,
                "write" => Right::Write,
                _ => return Err(wrong(part)),
            };
            Ok(Grant {
                context: context.to_owned(),
                right,
            })
        });
        Ok(Self::Some(grants.collect::<Result<_, _>>()?))
    }
}

impl Grant {
    fn is_for(&self, context: &Context) -> bool {
        self.context == context.purpose || self.context.parse() == Ok(context.id.0)
    }
}

/// The host of `HOST:PORT`, without brackets; `None` where it is none.
#[must_use]
pub fn host_of(address: &str) -> Option<&str> {
    let (host, port) = address.rsplit_once(':')?;
    let bare = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']')?,
        None if host.contains(':') => return None,
        None => host,
    };
    let is_host = !bare.is_empty() && bare.bytes().all(|byte| byte.is_ascii_graphic());
    let is_port = port.parse::<u16>().is_ok_and(|port| port > 0);
    (is_host && is_port && address.len() <= MAX_ADDRESS_LEN).then_some(bare)
}

/// Longest address that a route can carry (`docs/mctls13.md`, section 3).
const MAX_ADDRESS_LEN: usize = 255;

/// The contexts of a session by these middleboxes, each with its rights. The path is required
/// wherever a middlebox has one: nobody can lead data past it unnoticed, and each change is named.
///
/// # Errors
/// [`McError::Argument`]: more middleboxes or other numbers of contexts than can be, or a grant in
/// a context that is not there.
pub fn granted(via: &[ViaArgument], count: u8) -> Result<Vec<Context>, McError> {
    if via.len() > MAX_MIDDLEBOXES {
        return Err(McError::Argument(format!(
            "--via: {} middleboxes, and a session has {MAX_MIDDLEBOXES} at most",
            via.len()
        )));
    }
    let mut contexts = contexts(count, via.len()).ok_or_else(|| {
        McError::Argument(format!(
            "--contexts {count}: HTTP has 1 context, or 4, or more of which it uses 4"
        ))
    })?;
    if via.iter().any(ViaArgument::has_cache) {
        for purpose in [OFFERS, DIGEST] {
            let id = contexts.len() + 1;
            let id = u8::try_from(id).map_err(|_| {
                McError::Argument("--contexts: a cache needs two more contexts; give 253".into())
            })?;
            contexts.push(Context {
                id: ContextId(id),
                purpose: purpose.to_owned(),
                path: PathMode::Off,
                rights: Vec::new(),
            });
        }
    }
    with_rights(via, contexts)
}

/// These contexts, with the rights of these middleboxes; the path is required where one has any.
///
/// # Errors
/// [`McError::Argument`]: a grant in a context that is not there.
pub fn with_rights(
    via: &[ViaArgument],
    mut contexts: Vec<Context>,
) -> Result<Vec<Context>, McError> {
    for argument in via {
        if let Grants::Some(grants) = &argument.grants {
            for grant in grants {
                if !contexts.iter().any(|context| grant.is_for(context)) {
                    let names: Vec<&str> = contexts
                        .iter()
                        .map(|context| context.purpose.as_str())
                        .filter(|name| !is_spare(name))
                        .collect();
                    return Err(McError::Argument(format!(
                        "--via: no context {:?}; there are {}",
                        grant.context,
                        names.join(", ")
                    )));
                }
            }
        }
    }
    for context in &mut contexts {
        let rights = via.iter().map(|argument| argument.right(context));
        context.rights = rights.collect();
        if context.rights.iter().any(|right| *right != Right::None) {
            context.path = PathMode::Required;
        }
    }
    Ok(contexts)
}

/// The context with this number.
#[must_use]
pub fn purpose(contexts: &[Context], id: ContextId) -> Option<&str> {
    let found = contexts.iter().find(|context| context.id == id);
    found.map(|context| context.purpose.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    use Right::{None as No, Read, Write};

    fn rights(text: &str, count: u8) -> Vec<Right> {
        let argument = ViaArgument::parse(text).expect("good");
        let contexts = granted(&[argument], count).expect("good");
        contexts.iter().map(|context| context.rights[0]).collect()
    }

    #[test]
    fn nothing_is_granted_that_is_not_written() {
        assert_eq!(rights("127.0.0.1:1", 4), [No; 4]);
        assert_eq!(
            rights("127.0.0.1:1=request-headers:read,4:write", 4),
            [Read, No, No, Write]
        );
        assert_eq!(rights("127.0.0.1:1=compress", 4), [No, No, Write, Write]);
        assert_eq!(rights("127.0.0.1:1=compress", 1), [Write]);
        assert_eq!(rights("127.0.0.1:1=all:read", 1), [Read]);
        assert_eq!(rights("127.0.0.1:1=ids", 5), [Read, Read, Read, Read, No]);
    }

    #[test]
    fn a_cache_has_a_context_to_offer_in_and_none_for_what_it_is_checked_by() {
        assert_eq!(
            rights("127.0.0.1:1=cache", 4),
            [Read, No, Write, Write, Write, No]
        );
        assert_eq!(rights("127.0.0.1:1=cache", 1), [Write, Write, No]);
        assert_eq!(
            rights("127.0.0.1:1=cache-offers:write", 4),
            [No, No, No, No, Write, No]
        );
        let cache = ViaArgument::parse("h:1=cache").expect("good");
        assert!(granted(std::slice::from_ref(&cache), 253).is_ok());
        assert!(granted(&[cache], 254).is_err());
    }

    #[test]
    fn the_name_is_the_host_unless_it_is_written() {
        let name = |text| ViaArgument::parse(text).expect("good").via.name;
        assert_eq!(name("box.example:443"), "box.example");
        assert_eq!(name("[::1]:443"), "::1");
        assert_eq!(
            name("filter.example@127.0.0.1:4443=filter"),
            "filter.example"
        );
    }

    #[test]
    fn a_path_is_required_where_somebody_has_a_right() {
        let filter = ViaArgument::parse("127.0.0.1:1=filter").expect("good");
        let contexts = granted(&[filter], 4).expect("good");
        let paths: Vec<_> = contexts.iter().map(|context| context.path).collect();
        use PathMode::{Off, Required};
        assert_eq!(paths, [Required, Off, Off, Off]);
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_word_of_what_can() {
        for text in [
            "",
            "host",
            "host:",
            "host:0",
            "host:99999",
            ":443",
            "::1:443",
            "@h:1",
            "h:1=",
            "h:1=1",
            "h:1=1:look",
            "h:1=filters",
        ] {
            assert!(ViaArgument::parse(text).is_err(), "{text:?}");
        }
        let one = |text| vec![ViaArgument::parse(text).expect("good")];
        assert!(granted(&one("h:1=5:read"), 4).is_err());
        assert!(granted(&one("h:1=cookies:read"), 4).is_err());
        assert!(granted(&one("h:1"), 3).is_err());
        assert!(granted(&vec![one("h:1")[0].clone(); 17], 4).is_err());
    }
}
