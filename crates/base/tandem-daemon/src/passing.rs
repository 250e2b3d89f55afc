//! Which headers of a request pass to a web server behind a daemon, whoever asks.
//!
//! Is not: their values, which pass as they are; nor the headers that frame a request (Host,
//! Content-Length), which are the daemon's to judge.
//!
//! Invariants: only a header that stands in the list passes. So nothing passes that tells one
//! client from another (Cookie, Authorization), that a server takes for the word of a proxy
//! (Forwarded, Via, Client-IP and the like), or that concerns one connection alone (RFC 9110,
//! 7.6.1), under whatever name.

/// Headers that pass, in lower case.
const PASS: [&str; 33] = [
    // What the client can read, and prefers (RFC 9110, 12.5).
    "accept",
    "accept-charset",
    "accept-encoding",
    "accept-language",
    "save-data",
    // Conditions and ranges (RFC 9110, 13.1 and 14.2).
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "range",
    // What a cache may answer (RFC 9111, 5.2.1 and 5.4).
    "cache-control",
    "pragma",
    // What the request's body is (RFC 9110, 8.3 to 8.5).
    "content-encoding",
    "content-language",
    "content-type",
    // Which page asks (Fetch, 3.2).
    "access-control-request-headers",
    "access-control-request-method",
    "origin",
    "referer",
    "x-requested-with",
    // Which program asks, and what for.
    "dnt",
    "last-event-id",
    "priority",
    "purpose",
    "sec-fetch-dest",
    "sec-fetch-mode",
    "sec-fetch-site",
    "sec-fetch-user",
    "sec-gpc",
    "sec-purpose",
    "upgrade-insecure-requests",
    "user-agent",
];
/// Names of client hints begin with this (RFC 8942, 4.2): there are many, and more each year.
const HINT: &str = "sec-ch-";

/// Whether a header passes, its name in lower case. One with `_` does not: many servers read it as
/// `-`.
#[must_use]
pub fn passes(name: &str) -> bool {
    PASS.contains(&name) || (name.starts_with(HINT) && !name.contains('_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_public_answer_depends_on_passes() {
        for name in [
            "accept",
            "accept-language",
            "content-type",
            "if-none-match",
            "origin",
            "range",
            "sec-ch-ua-mobile",
            "user-agent",
        ] {
            assert!(passes(name), "{name}");
        }
        assert!(PASS.iter().all(|name| *name == name.to_ascii_lowercase()));
    }

    #[test]
    fn what_a_proxy_or_a_known_client_says_stays_and_what_nobody_has_listed() {
        for name in [
            "client-ip",
            "true-client-ip",
            "cf-connecting-ip",
            "fastly-client-ip",
            "x-client-ip",
            "x-cluster-client-ip",
            "x-forwarded-for",
            "x-forwarded-proto",
            "x-original-url",
            "x-rewrite-url",
            "x-real-ip",
            "forwarded",
            "via",
            "x-api-key",
            "x-auth-token",
            "x-remote-user",
            "remote-user",
            "x-http-method-override",
            "cookie",
            "authorization",
            "proxy-authorization",
            "ssl-client-cert",
            "connection",
            "content-length",
            "transfer-encoding",
            "te",
            "expect",
            "upgrade",
            "proxy",
            "user_agent",
            "sec-ch-client_ip",
            "sec-websocket-key",
            "x-anything",
            "",
        ] {
            assert!(!passes(name), "{name}");
        }
    }
}
