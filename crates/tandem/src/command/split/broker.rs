//! `tandem split broker`: the file becomes a configuration, and `tandem-broker` serves.

use tandem_broker::{Broker, Config, broker};
use tandem_daemon::runtime;

use super::{guard, say_ready, start_logging};
use crate::cli::BrokerArgs;
use crate::exit::Failure;
use crate::output;

pub(super) fn run(arguments: &BrokerArgs) -> Result<(), Failure> {
    let config = Config::load(&arguments.config)?.with_consent(guard::consent(&arguments.name));
    if arguments.uri {
        return output::print(&broker::uri(&config)?.to_string());
    }
    if arguments.ds {
        return output::print(&broker::ds(&config)?);
    }
    if config.dns.is_some() && guard::has_options(&arguments.name) {
        return Err(Failure::Usage(
            "--resolver, --trust-anchor and --observant are for a broker without [dns]; \
             write `resolver`, `trust-anchor` and `observant` there"
                .to_owned(),
        ));
    }
    start_logging(&arguments.logging)?;
    let options = guard::options(&arguments.name);
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
        let site = config.site.as_str();
        guard::warn(site, config.safeguard);
        // Heard from here on to the end: who is asked to end while it looks does so.
        let mut ended = Box::pin(runtime::asked_to_end()?);
        // A name server has to serve before its name can be looked at: it looks itself, and names
        // no volunteer until then.
        if config.dns.is_none() {
            let looking = guard::look(site, config.safeguard, &options);
            let Some(looked) = runtime::unless(&mut ended, looking).await else {
                return Ok(());
            };
            looked?;
        }
        if let Some(address) = config.admin {
            let bound = broker.show(address)?;
            tracing::info!(address = %bound, "the page is shown");
        }
        say_ready();
        runtime::first(broker.serve(), ended).await;
        Ok(())
    })
}
