//! Puts settings into a settings file that people have written, and leaves the rest of it alone.
//!
//! Is not: a parser of TOML. It goes by lines, and then reads the result as any settings file: what
//! it could not place is an error, never a wrong file.
//!
//! Invariant: lines that are not those of the settings in question stay, byte for byte.

use std::path::Path;

use tandem_packet_io::config::Role;

use super::{Settings, SettingsError};

/// How a file begins that was not there.
const HEAD: &str =
    "# Settings of Tandem, made by `tandem pair`. `tandem ROLE --help` explains each.\n";

/// A settings file that is to say something.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edit<'a> {
    /// Where it is, for errors.
    pub(crate) path: &'a Path,
    /// What it says; empty where there is none.
    pub(crate) text: &'a str,
    /// Whose settings they are.
    pub(crate) role: Role,
}

impl Edit<'_> {
    /// The file with these settings in place of what it says of them.
    ///
    /// # Errors
    /// They cannot be placed, or do not go with the others.
    pub(crate) fn replacing(&self, wanted: &[(&str, String)]) -> Result<String, SettingsError> {
        let mut text = match self.text {
            "" => HEAD.replace("ROLE", tandem_packet_io::config::role_name(self.role)),
            text => text.to_owned(),
        };
        for (name, value) in wanted {
            if self.said(&text, name)?.as_deref() != Some(value) {
                text = with(&text, name, value);
            }
            if self.said(&text, name)?.as_deref() != Some(value) {
                let problem = format!("put `{name} = \"{value}\"` into {}", self.path.display());
                return Err(SettingsError::value("config", problem));
            }
        }
        let mode = Settings::parse(&text, self.path)?.mode(self.role);
        mode.map(|_| text)
    }

    /// The same, unless it says something else of one of them.
    ///
    /// # Errors
    /// It does; or as [`Self::replacing`].
    pub(crate) fn adding(&self, wanted: &[(&str, String)]) -> Result<String, SettingsError> {
        for (name, value) in wanted {
            match self.said(self.text, name)? {
                Some(said) if said != *value => {
                    let path = self.path.display();
                    let problem = format!(
                        "{path} says {name} = \"{said}\" and not \"{value}\"; change it there, \
                         or name another file"
                    );
                    return Err(SettingsError::value("config", problem));
                }
                Some(_) | None => {}
            }
        }
        self.replacing(wanted)
    }

    /// What a text says of a setting whose value is a string.
    fn said(&self, text: &str, name: &str) -> Result<Option<String>, SettingsError> {
        // As it is read when a proxy starts: this finds what is wrong with it.
        Settings::parse(text, self.path)?;
        let table: toml::Table = toml::from_str(text).unwrap_or_default();
        let said = table.get(name).and_then(toml::Value::as_str);
        Ok(said.map(str::to_owned))
    }
}

/// `text` with this setting: in its line, or in the line where it is commented out, or in a new
/// one.
fn with(text: &str, name: &str, value: &str) -> String {
    // What JSON escapes in a string TOML reads in the same way.
    let line = format!("{name} = {}", serde_json::Value::from(value));
    // Settings stand before the first table.
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let tables = lines
        .iter()
        .position(|line| line.trim_start().starts_with('['));
    let front = tables.unwrap_or(lines.len());
    let place = lines[..front]
        .iter()
        .position(|line| is_of(line, name))
        .or_else(|| {
            lines[..front].iter().position(|line| {
                line.strip_prefix('#')
                    .is_some_and(|line| is_of(line.trim_start(), name))
            })
        });
    let (before, after) = match place {
        Some(place) => (&lines[..place], &lines[place + 1..]),
        None => (&lines[..front], &lines[front..]),
    };
    let mut text = before.concat();
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text + &line + "\n" + &after.concat()
}

/// Whether a line sets this setting.
fn is_of(line: &str, name: &str) -> bool {
    line.strip_prefix(name)
        .is_some_and(|rest| rest.trim_start().starts_with('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKAGED: &str = include_str!("../../../../packaging/etc/tunnel-client-side.toml");

    fn edit(text: &str) -> Edit<'_> {
        Edit {
            path: Path::new("t.toml"),
            text,
            role: Role::ClientSide,
        }
    }

    fn wanted() -> Vec<(&'static str, String)> {
        [
            ("mode", "tunnel"),
            ("key", "/etc/tandem/key"),
            ("socks", "127.0.0.1:1080"),
            ("peer", "192.0.2.9:5000"),
        ]
        .map(|(name, value)| (name, value.to_owned()))
        .to_vec()
    }

    #[test]
    fn a_file_that_was_not_there_says_what_is_wanted_and_no_more() {
        let text = edit("").adding(&wanted()).expect("they go together");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(
            lines[1..],
            [
                "mode = \"tunnel\"",
                "key = \"/etc/tandem/key\"",
                "socks = \"127.0.0.1:1080\"",
                "peer = \"192.0.2.9:5000\"",
            ]
        );
        assert!(lines[0].contains("`tandem client-side --help`"), "{text}");
    }

    #[test]
    fn of_the_packaged_file_one_line_changes() {
        let text = edit(PACKAGED).adding(&wanted()).expect("it is the default");
        let expected = PACKAGED.replace(
            "#peer = \"192.0.2.1:4433\"\n",
            "peer = \"192.0.2.9:5000\"\n",
        );
        assert_ne!(expected, PACKAGED);
        assert_eq!(text, expected);
        let again = edit(&text).adding(&wanted()).expect("it says so");
        assert_eq!(again, text);
    }

    #[test]
    fn the_other_lines_stay_byte_for_byte() {
        let text = "# mine\r\n#peer = 1\r\n\tlink-rtt = 600 \r\n\n[[rules]]\ndo = \"refuse\"";
        let edited = with(&with(text, "peer", "p"), "key", "k");
        let expected = "# mine\r\npeer = \"p\"\n\tlink-rtt = 600 \r\n\nkey = \"k\"\n\
                        [[rules]]\ndo = \"refuse\"";
        assert_eq!(edited, expected);
        assert_eq!(with("log = 1", "key", "k"), "log = 1\nkey = \"k\"\n");
    }

    #[test]
    fn what_is_said_otherwise_is_replaced_only_on_request() {
        let text = "# mine\npeer = \"192.0.2.7:4433\" # the ship\nlink-rtt = 600\n";
        let error = edit(text).adding(&wanted()).expect_err("another peer");
        assert_eq!(
            error.to_string(),
            "config: t.toml says peer = \"192.0.2.7:4433\" and not \"192.0.2.9:5000\"; change it \
             there, or name another file"
        );
        let text = edit(text).replacing(&wanted()).expect("on request");
        assert!(
            text.starts_with("# mine\npeer = \"192.0.2.9:5000\"\nlink-rtt = 600\nmode = "),
            "{text}"
        );
    }

    #[test]
    fn what_does_not_go_with_it_or_cannot_be_placed_is_an_error() {
        for text in [
            // Of packet mode.
            "wire = \"safe\"\n",
            "mode = \"packet\"\n",
            // No settings at all.
            "peer = \n",
            // A line that only looks like the setting's.
            "log = \"\"\"\n#peer = 1\n\"\"\"\n",
        ] {
            assert!(edit(text).adding(&wanted()).is_err(), "{text}");
        }
    }

    #[test]
    fn values_are_quoted_as_they_have_to_be() {
        let odd = "/a \"b\"/\\c";
        let text = with("", "key", odd);
        let read: Settings = toml::from_str(&text).expect("TOML");
        assert_eq!(read.key.as_deref(), Some(Path::new(odd)));
    }
}
