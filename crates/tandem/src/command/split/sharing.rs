//! What knows which of the other volunteers to ask, as `--sharing` says.

#[cfg(feature = "kademlia")]
use std::net::SocketAddr;
use std::sync::Arc;

#[cfg(feature = "kademlia")]
use tandem_dht::Kademlia;
use tandem_split_io::SplitIoError;
use tandem_split_io::volunteer::{Directory, Nobody, Placement, Settings};

use crate::cli::Sharing;

/// These settings with what knows whom of their members to ask. Must be called within a runtime.
pub(super) fn among(settings: Settings, sharing: Sharing) -> Result<Settings, SplitIoError> {
    let members = settings.members.clone();
    let directory: Arc<dyn Directory> = match sharing {
        Sharing::Placement => Arc::new(Placement::over(members)),
        Sharing::None => Arc::new(Nobody),
        #[cfg(feature = "kademlia")]
        Sharing::Kademlia => {
            Kademlia::start(&settings.key, &above(&settings.peer_listen)?, members)?
        }
        #[cfg(not(feature = "kademlia"))]
        Sharing::Kademlia => {
            return Err(SplitIoError::Setting {
                setting: "--sharing kademlia",
                reason: "not in this program; build it with `--features kademlia`".to_owned(),
            });
        }
    };
    Ok(Settings {
        directory,
        ..settings
    })
}

/// One port above those for other volunteers.
#[cfg(feature = "kademlia")]
fn above(peers: &[SocketAddr]) -> Result<Vec<SocketAddr>, SplitIoError> {
    let unfit = |reason: &str| SplitIoError::Setting {
        setting: "--sharing kademlia",
        reason: reason.to_owned(),
    };
    if peers.is_empty() {
        return Err(unfit("needs --peer-listen"));
    }
    let above = peers.iter().map(|peers| {
        let port = peers.port().checked_add(1);
        let port = port.ok_or_else(|| unfit("needs a port above that of --peer-listen"))?;
        Ok(SocketAddr::new(peers.ip(), port))
    });
    above.collect()
}
