//! `tandem off`.

use clap::Args;

/// Stop every proxy of this machine and take their firewall rules away (root)
///
/// For a hurry. It asks each proxy to end, kills one that does not within three seconds, and
/// removes the rules that killed ones left. Connections go on as they would without Tandem; those
/// inside a tunnel end. What it did is printed; where there was nothing to do, it says so, and that
/// is no failure. A proxy in tunnel mode without `--link` sets no rules; unless it is a service, it
/// runs on.
///
/// It looks into the network namespace that it runs in. Where systemd runs the proxies, it is told
/// to stop them; they stay off until they are started again, their interface comes anew, or the
/// machine does.
#[derive(Debug, Args)]
pub(crate) struct OffArgs {}
