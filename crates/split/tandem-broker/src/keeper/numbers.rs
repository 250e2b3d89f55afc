//! What the broker counts of its members, of looks at them, and of those that were not taken.
//!
//! Is not: the counting, which is where the events are.

use tandem_daemon::metrics::Number;

/// What is counted.
#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    pub(super) volunteers: Number,
    pub(super) healthy: Number,
    pub(super) healthy_v4: Number,
    pub(super) healthy_v6: Number,
    pub(super) version: Number,
    pub(super) joined: Number,
    pub(super) renewed: Number,
    pub(super) left: Number,
    pub(super) forgotten: Number,
    pub(super) evicted: Number,
    pub(super) refused: Number,
    pub(super) looks: Number,
    pub(super) bad_looks: Number,
    pub(super) reports: Number,
    pub(super) reported_looks: Number,
    pub(super) altered: Number,
    pub(super) barred: Number,
    pub(super) not_written: Number,
    pub(crate) strangers: Number,
}

impl Numbers {
    pub(super) fn new() -> Self {
        let (counter, gauge) = (Number::counter, Number::gauge);
        Self {
            volunteers: gauge("tandem_broker_volunteers", "Members"),
            healthy: gauge(
                "tandem_broker_healthy_volunteers",
                "Members that are well, at one of their addresses at least",
            ),
            healthy_v4: gauge(
                "tandem_broker_healthy_ipv4_addresses",
                "Addresses of IPv4 at which members are well",
            ),
            healthy_v6: gauge(
                "tandem_broker_healthy_ipv6_addresses",
                "Addresses of IPv6 at which members are well",
            ),
            version: gauge("tandem_broker_list_version", "Version of the list"),
            joined: counter(
                "tandem_broker_joins",
                "Addresses at which volunteers have joined, or to which they have moved",
            ),
            renewed: counter(
                "tandem_broker_renewals",
                "Renewals of members, for each address",
            ),
            left: counter("tandem_broker_leaves", "Members that have left"),
            forgotten: counter(
                "tandem_broker_forgotten",
                "Addresses of members that were not renewed in time",
            ),
            evicted: counter(
                "tandem_broker_evictions",
                "Addresses of members, none of them well, that made room for others",
            ),
            refused: counter("tandem_broker_refusals", "Volunteers that were not taken"),
            looks: counter(
                "tandem_broker_looks",
                "Looks at members in turn, and those after reports that found a changed record",
            ),
            bad_looks: counter(
                "tandem_broker_bad_looks",
                "Looks at members that found no good answer",
            ),
            reports: counter(
                "tandem_broker_reports",
                "Reports of the origin that clients refuse what comes through a member",
            ),
            reported_looks: counter(
                "tandem_broker_reported_looks",
                "Looks at members because of reports",
            ),
            altered: counter(
                "tandem_broker_altered_records",
                "Looks whose own TLS refused a record that came through a member",
            ),
            barred: counter(
                "tandem_broker_barred",
                "Times that a member was put out because of what it changed",
            ),
            not_written: counter(
                "tandem_broker_not_written",
                "Times that the database took nothing",
            ),
            strangers: counter(
                "tandem_broker_failed_channels",
                "Connections that were no volunteer's, or came too often",
            ),
        }
    }

    pub(crate) fn all(&self) -> Vec<Number> {
        [
            &self.volunteers,
            &self.healthy,
            &self.healthy_v4,
            &self.healthy_v6,
            &self.version,
            &self.joined,
            &self.renewed,
            &self.left,
            &self.forgotten,
            &self.evicted,
            &self.refused,
            &self.looks,
            &self.bad_looks,
            &self.reports,
            &self.reported_looks,
            &self.altered,
            &self.barred,
            &self.not_written,
            &self.strangers,
        ]
        .map(Clone::clone)
        .to_vec()
    }
}
