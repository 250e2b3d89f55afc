//! `tandem split broker`: the file becomes a configuration, and `tandem-broker` serves.

use tandem_broker::{Broker, Config, broker};
use tandem_daemon::runtime;

use super::{say_ready, start_logging, until_asked};
use crate::cli::BrokerArgs;
use crate::exit::Failure;
use crate::output;

pub(super) fn run(arguments: &BrokerArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config)?;
    if arguments.uri {
        return output::print(&broker::uri(&config)?.to_string());
    }
    if arguments.ds {
        return output::print(&broker::ds(&config)?);
    }
    start_logging(&arguments.logging)?;
    runtime::run(async move {
        let broker = Broker::bind(&config).await?;
        match broker.uri() {
            Some(uri) => tracing::info!(%uri, "volunteers are given this"),
            None => tracing::warn!("volunteers cannot be told where this broker is: set `address`"),
        }
        if let Some(ds) = broker.ds() {
            tracing::info!(
                ds,
                "the zone above has to show this record (ask the registrar)"
            );
        }
        if let Some(address) = config.admin {
            let bound = broker.show(address)?;
            tracing::info!(address = %bound, "the page is shown");
        }
        say_ready();
        until_asked(broker.serve()).await
    })
}
