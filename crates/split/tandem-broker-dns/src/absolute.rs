//! A host's name in the form of the DNS library.
//!
//! Is not: a check of the name; [`uri::Name`] is one already.

use hickory_proto::rr::Name;
use tandem_barnraising::uri;

use crate::error::DnsError;

/// This name, from the root on.
pub(crate) fn absolute(name: &uri::Name) -> Result<Name, DnsError> {
    let mut name = Name::from_ascii(name.as_str()).map_err(DnsError::library)?;
    name.set_fqdn(true);
    Ok(name)
}
