//! `tandem off`.

use clap::Args;

/// Stop every proxy of this machine and remove their firewall rules (root)
///
/// For emergencies. It asks each proxy to end, kills those that do not end within three seconds,
/// and removes the rules that killed proxies left. Connections continue as without Tandem; those
/// inside a tunnel end. It prints what it did. If there was nothing to do, it says so, which is not
/// a failure. A proxy in tunnel mode without `--link` and `--out client` sets no rules; unless
/// it is a service, it continues to run.
///
/// It works in its own network namespace. If systemd runs the proxies, it tells systemd to stop
/// them; they stay off until they are started again, their interface reappears, or the machine
/// reboots.
#[derive(Debug, Args)]
pub(crate) struct OffArgs {}
