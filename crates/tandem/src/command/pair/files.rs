//! The key file and the settings file of a side that is paired.
//!
//! Is not: how a settings file is changed (`settings/edit.rs`).
//!
//! Invariants: a key and settings that are there stay unless the user says otherwise; of a settings
//! file only the lines change that pairing knows.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use tandem_file::{Draft, Over};
use tandem_packet_io::config::{Key, Role, role_name};

use crate::cli::FileArgs;
use crate::exit::Failure;
use crate::settings::{self, Settings};

/// Of the key: its owner only.
const KEY_PERMISSIONS: u32 = 0o600;
/// Of settings: they hold no secret, and a service may run as another user.
const SETTINGS_PERMISSIONS: u32 = 0o644;

/// See the module.
#[derive(Debug)]
pub(super) struct Files {
    role: Role,
    key: PathBuf,
    config: Option<Config>,
    key_draft: Option<Draft>,
    over: Over,
}

/// The settings file.
#[derive(Debug)]
struct Config {
    path: PathBuf,
    /// What it says now; nothing where it is not there.
    text: String,
    over: Over,
    said: Settings,
    permissions: u32,
    /// What it is to say.
    wanted: Vec<(&'static str, String)>,
    draft: Option<Draft>,
}

impl Files {
    /// Those that the user means.
    ///
    /// # Errors
    /// There is a settings file that cannot be read.
    pub(super) fn of(role: Role, arguments: &FileArgs) -> Result<Self, Failure> {
        let config = match (&arguments.config, arguments.key_only) {
            (_, true) => None,
            (Some(path), false) => Some(Config::read(path.clone())?),
            (None, false) => {
                let name = format!("tunnel-{}.toml", role_name(role));
                Some(Config::read(default_folder()?.join(name))?)
            }
        };
        let said = config.as_ref().and_then(|config| config.said.key.clone());
        let key = match arguments.key.clone().or(said) {
            Some(path) => path,
            None => default_folder()?.join("key"),
        };
        Ok(Self {
            role,
            key,
            config,
            key_draft: None,
            over: Over::Nothing,
        })
    }

    pub(super) fn role_name(&self) -> &'static str {
        role_name(self.role)
    }

    /// The key file.
    pub(super) fn key(&self) -> &Path {
        &self.key
    }

    /// The settings file, if it is wanted.
    pub(super) fn config(&self) -> Option<&Path> {
        self.config.as_ref().map(|config| config.path.as_path())
    }

    /// What the settings file says now.
    pub(super) fn said(&self) -> Settings {
        let config = self.config.as_ref();
        config.map_or_else(Settings::default, |config| config.said.clone())
    }

    /// Whether there is a key file.
    ///
    /// # Errors
    /// That cannot be found out.
    pub(super) fn has_key(&self) -> Result<bool, Failure> {
        let there = fs::exists(&self.key);
        there.map_err(|source| Failure::file(&self.key, source))
    }

    /// From now on what is there is replaced.
    pub(super) fn replace(&mut self) {
        self.over = Over::Another;
    }

    /// Makes sure that this side is not paired yet.
    ///
    /// # Errors
    /// It is.
    pub(super) fn is_free(&self) -> Result<(), Failure> {
        let paired = |what: String| {
            Failure::Usage(format!(
                "{what}: this side is paired already; --force pairs it anew, or --key and \
                 --config name other files"
            ))
        };
        if self.has_key()? {
            return Err(paired(format!("{} exists", self.key.display())));
        }
        match (self.config(), self.said().peer) {
            (Some(path), Some(peer)) => {
                let says = format!("{} says peer = \"{peer}\"", path.display());
                Err(paired(says))
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    /// Makes room for a key that is to come.
    ///
    /// # Errors
    /// There is no room.
    pub(super) fn expect_key(&mut self) -> Result<(), Failure> {
        let draft = Draft::new(&self.key, KEY_PERMISSIONS, self.over);
        self.key_draft = Some(draft.map_err(|source| Failure::file(&self.key, source))?);
        Ok(())
    }

    /// The key that has come.
    ///
    /// # Errors
    /// The disk is full, for instance.
    pub(super) fn put_key(&mut self, key: &Key) -> Result<(), Failure> {
        match &mut self.key_draft {
            Some(draft) => draft
                .write(format!("{}\n", key.to_hex()).as_bytes())
                .map_err(|source| Failure::file(&self.key, source)),
            None => Ok(()),
        }
    }

    /// A key of this side's own making.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn make_key(&mut self, key: Key) -> Result<Key, Failure> {
        self.expect_key()?;
        self.put_key(&key)?;
        Ok(key)
    }

    /// What the settings are to say.
    pub(super) fn set(&mut self, name: &'static str, value: &str) {
        if let Some(config) = &mut self.config {
            config.wanted.retain(|(other, _)| *other != name);
            config.wanted.push((name, value.to_owned()));
        }
    }

    /// The settings are to be tunnel mode's.
    pub(super) fn set_mode(&mut self) {
        // It comes to the same, and is left as it is.
        if self.said().mode.as_deref() != Some("auto") {
            self.set("mode", "tunnel");
        }
    }

    /// The settings are to name the key file.
    pub(super) fn set_key(&mut self) {
        let absolute = std::path::absolute(&self.key).unwrap_or_else(|_| self.key.clone());
        self.set("key", &absolute.to_string_lossy());
    }

    /// Writes the settings, so that they need only be put into their place.
    ///
    /// # Errors
    /// There is no room; or what is there says something else.
    pub(super) fn prepare(&mut self) -> Result<(), Failure> {
        let (role, over) = (self.role, self.over);
        let Some(config) = &mut self.config else {
            return Ok(());
        };
        let file = settings::Edit {
            path: &config.path,
            text: &config.text,
            role,
        };
        let text = match over {
            Over::Nothing => file.adding(&config.wanted)?,
            Over::Another => file.replacing(&config.wanted)?,
        };
        if text == config.text {
            return Ok(());
        }
        let failed = |source| Failure::file(&config.path, source);
        let draft = match &mut config.draft {
            Some(draft) => draft,
            none => {
                let draft = Draft::new(&config.path, config.permissions, config.over);
                none.insert(draft.map_err(failed)?)
            }
        };
        draft.write(text.as_bytes()).map_err(failed)
    }

    /// Puts all into its place.
    ///
    /// # Errors
    /// A file has come meanwhile.
    pub(super) fn keep(&mut self) -> Result<(), Failure> {
        if let Some(draft) = self.key_draft.take() {
            let kept = draft.keep();
            kept.map_err(|source| Failure::file(&self.key, source))?;
        }
        if let Some(config) = &mut self.config
            && let Some(draft) = config.draft.take()
        {
            let kept = draft.keep();
            kept.map_err(|source| Failure::file(&config.path, source))?;
        }
        Ok(())
    }
}

impl Config {
    fn read(path: PathBuf) -> Result<Self, Failure> {
        let (text, over) = match fs::read_to_string(&path) {
            Ok(text) => (text, Over::Another),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (String::new(), Over::Nothing),
            Err(source) => return Err(Failure::file(&path, source)),
        };
        let permissions = fs::metadata(&path).map_or(SETTINGS_PERMISSIONS, |file| {
            file.permissions().mode() & 0o777
        });
        Ok(Self {
            said: Settings::parse(&text, &path)?,
            path,
            text,
            over,
            permissions,
            wanted: Vec::new(),
            draft: None,
        })
    }
}

/// Where files are that are not named; made where it is missing.
fn default_folder() -> Result<PathBuf, Failure> {
    let folder = if nix::unistd::geteuid().is_root() {
        PathBuf::from("/etc/tandem")
    } else {
        let home = std::env::var_os("HOME").filter(|home| !home.is_empty());
        let home = home.ok_or_else(|| {
            let problem = "HOME is not set; name the files by --key and --config";
            Failure::Usage(problem.to_owned())
        })?;
        PathBuf::from(home).join(".config/tandem")
    };
    fs::create_dir_all(&folder).map_err(|source| Failure::file(&folder, source))?;
    Ok(folder)
}
