//! What a client is to do at a split site, and what is right then.
//!
//! Is not: how a program is told ([`super::clients`]).

use super::files;

/// Bytes of the file that most jobs are about: some objects of it.
const FILE: usize = 2_000_000;
/// Another file of that size.
pub(super) const OTHER_SEED: u64 = 8;
const SEED: u64 = 7;
/// Bytes of the large file.
const LARGE: usize = 32 << 20;
/// Bytes of the range, from the middle.
const RANGE: (usize, usize) = (123_456, 1_700_000);
/// Bytes that are sent.
const UPLOAD: usize = 3_000_000;

/// A job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Job {
    Page,
    Resume,
    Keep,
    Head,
    NotModified,
    Range,
    Large,
    Upload,
    Chunked,
}

/// A whole answer, as it should be.
pub(super) struct Expected {
    pub(super) status: u16,
    pub(super) body: Vec<u8>,
}

impl Job {
    pub(super) const ALL: [Self; 9] = [
        Self::Page,
        Self::Resume,
        Self::Keep,
        Self::Head,
        Self::NotModified,
        Self::Range,
        Self::Large,
        Self::Upload,
        Self::Chunked,
    ];

    /// What tables call it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Page => "page",
            Self::Resume => "resumption",
            Self::Keep => "keep-alive",
            Self::Head => "HEAD",
            Self::NotModified => "304",
            Self::Range => "range",
            Self::Large => "32 MiB",
            Self::Upload => "upload",
            Self::Chunked => "upload in chunks",
        }
    }

    /// What the lab's own programs call it.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Page | Self::Large => "get",
            Self::Resume => "twice",
            Self::Keep => "keep",
            Self::Head => "head",
            Self::NotModified => "fresh",
            Self::Range => "range",
            Self::Upload => "upload",
            Self::Chunked => "chunked",
        }
    }

    pub(super) fn path(self) -> String {
        match self {
            Self::Page => "/page".to_owned(),
            Self::Large => format!("/file/{LARGE}/{SEED}"),
            Self::Upload | Self::Chunked => "/sum".to_owned(),
            Self::Resume | Self::Keep | Self::Head | Self::NotModified | Self::Range => path(SEED),
        }
    }

    /// What goes with the word.
    pub(super) fn argument(self) -> String {
        match self {
            Self::NotModified => files::tag(FILE, SEED),
            Self::Range => format!("{}-{}", RANGE.0, RANGE.1),
            Self::Upload | Self::Chunked => UPLOAD.to_string(),
            Self::Page | Self::Resume | Self::Keep | Self::Head | Self::Large => String::new(),
        }
    }

    /// The bytes that are sent.
    pub(super) fn upload(self) -> Option<Vec<u8>> {
        matches!(self, Self::Upload | Self::Chunked).then(|| files::upload(UPLOAD))
    }

    /// How many answers come.
    pub(super) fn times(self) -> usize {
        match self {
            Self::Resume => 2,
            Self::Keep => 3,
            Self::Page
            | Self::Head
            | Self::NotModified
            | Self::Range
            | Self::Large
            | Self::Upload
            | Self::Chunked => 1,
        }
    }

    /// What each of them is.
    pub(super) fn expected(self) -> Expected {
        let (status, body) = match self {
            Self::Page => (200, files::PAGE.into()),
            Self::Resume | Self::Keep => (200, file(SEED)),
            Self::Head => (200, Vec::new()),
            Self::NotModified => (304, Vec::new()),
            Self::Range => (206, file(SEED)[RANGE.0..=RANGE.1].to_vec()),
            Self::Large => (200, files::body(LARGE, SEED)),
            Self::Upload | Self::Chunked => {
                (200, files::receipt(&files::upload(UPLOAD)).into_bytes())
            }
        };
        Expected { status, body }
    }
}

/// The path of a file of the usual size.
pub(super) fn path(seed: u64) -> String {
    format!("/file/{FILE}/{seed}")
}

/// Its bytes.
pub(super) fn file(seed: u64) -> Vec<u8> {
    files::body(FILE, seed)
}
