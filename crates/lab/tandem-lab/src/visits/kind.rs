//! The kinds of visits that there are.
//!
//! Is not: what each does.

use serde::Deserialize;

use super::application::Application;
use super::{apt, git, mail, mqtt, web};

/// A kind of visit, as the experiment's file calls it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    /// A page with objects from several hosts.
    Page,
    /// A client of an API that asks for news.
    Poll,
    /// `git fetch`.
    Git,
    /// `apt-get update`.
    Apt,
    /// A device that reports by MQTT.
    Mqtt,
    /// A look into a mailbox by IMAP.
    Imap,
}

impl Kind {
    /// What it does.
    pub(super) fn application(self) -> &'static dyn Application {
        match self {
            Self::Page => &web::Page,
            Self::Poll => &web::Poll,
            Self::Git => &git::Fetch,
            Self::Apt => &apt::Update,
            Self::Mqtt => &mqtt::Report,
            Self::Imap => &mail::Check,
        }
    }
}
