//! Where a response leads: to the site by `http` becomes to the site by `https`. A server that does
//! not know of HTTPS leads there, and there anybody can answer in the site's name.
//!
//! Is not: the links in a body, which passes as it is; nor what leads to another host.
//!
//! Invariants: after it no Location, Content-Location, Refresh or target of Link leads to `http` of
//! the host, on whatever port, in a spelling that curl or a browser follows (WHATWG URL, 4.4); a
//! host in letters that are not ASCII is taken for another. What leads elsewhere is the same bytes.

use hyper::header::{HeaderMap, HeaderValue};

const SCHEME: [u8; 5] = *b"http:";

/// The site, as a client has asked for it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own<'a> {
    pub(super) host: &'a str,
    /// Where it is not that of HTTPS.
    pub(super) port: Option<u16>,
}

/// Rewrites what leads to `http` of the site. How many lines that were.
pub(super) fn secure(headers: &mut HeaderMap, own: Own<'_>) -> u64 {
    let mut count = 0;
    for (name, value) in headers {
        let line = value.as_bytes();
        let secured = match name.as_str() {
            "location" | "content-location" => own.uri(line),
            "refresh" => own.refresh(line),
            "link" => own.link(line),
            _ => None,
        };
        // Nothing but what a value may hold has come in.
        if let Some(Ok(secured)) = secured.map(HeaderValue::try_from) {
            *value = secured;
            count += 1;
        }
    }
    count
}

impl Own<'_> {
    /// The URI by HTTPS, if this is one of the host by HTTP.
    fn uri(self, uri: &[u8]) -> Option<Vec<u8>> {
        if !is_http(uri) {
            return None;
        }
        // Browsers read over tabs wherever they stand, and need no slashes before the host.
        let uri: Vec<u8> = uri.iter().copied().filter(|byte| *byte != b'\t').collect();
        let rest = uri.trim_ascii().get(SCHEME.len()..)?;
        let slashes = rest.iter().take_while(|byte| matches!(byte, b'/' | b'\\'));
        let rest = &rest[slashes.count()..];
        // A backslash ends the host for browsers, and does not for curl.
        [&b"/?#\\"[..], b"/?#"].into_iter().find_map(|ends| {
            let end = rest.iter().position(|byte| ends.contains(byte));
            let (authority, path) = rest.split_at(end.unwrap_or(rest.len()));
            self.is_named(authority).then(|| self.by_https(path))
        })
    }

    /// Whether an authority names the host: whoever the user is, whatever the port.
    fn is_named(self, authority: &[u8]) -> bool {
        let user = authority.iter().rposition(|byte| *byte == b'@');
        let named = &authority[user.map_or(0, |at| at + 1)..];
        let name = match named.strip_prefix(b"[") {
            // An address of IPv6 has colons of its own.
            Some(address) => address.split(|byte| *byte == b']').next(),
            None => named.split(|byte| *byte == b':').next(),
        };
        let name = decoded(name.unwrap_or_default());
        name.strip_suffix(b".")
            .unwrap_or(&name)
            .eq_ignore_ascii_case(self.host.as_bytes())
    }

    fn by_https(self, path: &[u8]) -> Vec<u8> {
        let port = self.port.map(|port| format!(":{port}"));
        let port = port.unwrap_or_default();
        let path = match path.split_first() {
            Some((b'/' | b'\\', after)) => after,
            Some(_) | None => path,
        };
        let host = match self.host.contains(':') {
            true => format!("[{}]", self.host),
            false => self.host.to_owned(),
        };
        let mut uri = format!("https://{host}{port}/").into_bytes();
        uri.extend_from_slice(path);
        uri
    }

    /// The same for the URI in a Refresh (HTML, 4.2.5.3): `SECONDS; url="URI"`, of which browsers
    /// need neither the name nor the quotes, and take a comma or a space for the semicolon.
    fn refresh(self, line: &[u8]) -> Option<Vec<u8>> {
        let line = line.trim_ascii_start();
        let time = line.iter().take_while(|byte| !is_between(**byte)).count();
        let between = line[time..].iter().take_while(|byte| is_between(**byte));
        let mut rest = &line[time + between.count()..];
        if let Some((name, after)) = rest.split_at_checked(3)
            && name.eq_ignore_ascii_case(b"url")
            && let Some(after) = after.trim_ascii_start().strip_prefix(b"=")
        {
            rest = after.trim_ascii_start();
        }
        let mut end = rest.len();
        if let Some((quote, after)) = rest.split_first()
            && matches!(quote, b'"' | b'\'')
        {
            rest = after;
            let closing = rest.iter().position(|byte| byte == quote);
            end = closing.unwrap_or(rest.len());
        }
        let before = &line[..line.len() - rest.len()];
        let (uri, after) = rest.split_at(end);
        let secured = self.uri(uri)?;
        Some([before, secured.as_slice(), after].concat())
    }

    /// The same for the targets in a Link (RFC 8288, 3): what stands between `<` and `>`.
    fn link(self, line: &[u8]) -> Option<Vec<u8>> {
        let mut secured = Vec::with_capacity(line.len());
        let mut is_changed = false;
        for part in line.split_inclusive(|byte| *byte == b'>') {
            match self.targets(part) {
                Some(part) => {
                    secured.extend_from_slice(&part);
                    is_changed = true;
                }
                None => secured.extend_from_slice(part),
            }
        }
        is_changed.then_some(secured)
    }

    /// A part of a Link that ends with `>`, its target by HTTPS. The target begins at any `<`: a
    /// title may have one, and a URI that is not well-formed, so that several may lead to the site.
    /// Quotes are not looked at: what is rewritten in a title harms nobody.
    fn targets(self, part: &[u8]) -> Option<Vec<u8>> {
        let mut secured = part.strip_suffix(b">")?.to_vec();
        let mut is_changed = false;
        for behind in (1..=secured.len()).rev() {
            if secured[behind - 1] == b'<'
                && let Some(uri) = self.uri(&secured[behind..])
            {
                secured.truncate(behind);
                secured.extend_from_slice(&uri);
                is_changed = true;
            }
        }
        secured.push(b'>');
        is_changed.then_some(secured)
    }
}

/// Whether a URI's scheme is HTTP.
fn is_http(uri: &[u8]) -> bool {
    uri.trim_ascii_start()
        .iter()
        .filter(|byte| **byte != b'\t')
        .take(SCHEME.len())
        .map(|byte| byte.to_ascii_lowercase())
        .eq(SCHEME)
}

/// Whether a byte may stand between the time in a Refresh and its URI.
fn is_between(byte: u8) -> bool {
    matches!(byte, b';' | b',' | b' ' | b'\t')
}

/// A host's name without its percent-encoding (RFC 3986, 3.2.2).
fn decoded(name: &[u8]) -> Vec<u8> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut decoded = Vec::with_capacity(name.len());
    let mut rest = name;
    while let [byte, after @ ..] = rest {
        rest = after;
        let mut byte = *byte;
        if let (b'%', [high, low, after @ ..]) = (byte, rest)
            && let (Some(high), Some(low)) = (digit(*high), digit(*low))
        {
            byte = (high * 16 + low) as u8;
            rest = after;
        }
        decoded.push(byte);
    }
    decoded
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderName;

    use super::*;

    const OWN: Own<'static> = Own {
        host: "split.test",
        port: None,
    };

    /// What becomes of one line; nothing where it stays.
    fn secured(own: Own<'_>, name: &'static str, line: &[u8]) -> Option<String> {
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(line).expect("a value");
        headers.insert(HeaderName::from_static(name), value);
        let count = secure(&mut headers, own);
        let after = headers[name].as_bytes();
        assert_eq!(count, u64::from(after != line), "{line:?}");
        (count > 0).then(|| String::from_utf8(after.to_vec()).expect("ASCII"))
    }

    #[test]
    fn http_of_the_host_becomes_https_in_every_spelling_that_clients_follow() {
        for (line, expected) in [
            ("http://split.test:18081/dir/", "https://split.test/dir/"),
            ("http://split.test", "https://split.test/"),
            ("http://split.test?a=b", "https://split.test/?a=b"),
            ("http://split.test:80#part", "https://split.test/#part"),
            ("http://split.test:/a", "https://split.test/a"),
            ("http://split.test:x/a", "https://split.test/a"),
            ("HTTP://Split.TEST:18081/Dir", "https://split.test/Dir"),
            ("http://split.test.:18081/a", "https://split.test/a"),
            ("http://user@split.test/a", "https://split.test/a"),
            (
                "http://other.test:80@split.test:81/a",
                "https://split.test/a",
            ),
            ("http://a@b@split.test/a", "https://split.test/a"),
            ("http://other.test\\@split.test/a", "https://split.test/a"),
            (
                "http://split.test\\@other.test/a",
                "https://split.test/@other.test/a",
            ),
            ("http:split.test/a", "https://split.test/a"),
            ("http:/split.test/a", "https://split.test/a"),
            ("http:////split.test/a", "https://split.test/a"),
            ("http:\\\\split.test\\a", "https://split.test/a"),
            ("\tht\ttp:/\t/split\t.test/a\t", "https://split.test/a"),
            ("http://spl%69t%2etest%2E/a", "https://split.test/a"),
            (
                "http://split.test/a?u=http://split.test/",
                "https://split.test/a?u=http://split.test/",
            ),
        ] {
            for name in ["location", "content-location"] {
                let after = secured(OWN, name, line.as_bytes());
                assert_eq!(after.as_deref(), Some(expected), "{line:?}");
            }
        }
    }

    #[test]
    fn what_leads_elsewhere_stays_as_it_is() {
        for line in [
            "/dir/",
            "dir/",
            "",
            "http:",
            "http",
            "//split.test:18081/dir/",
            "https://split.test:18081/dir/",
            "http://other.test/dir/",
            "http://www.split.test/",
            "http://split.test.other.test/",
            "http://split.test@other.test/",
            "http://split.test:80@other.test/",
            "http://other.test/?http://split.test/",
            "http://other.test#@split.test/",
            "http://split.test../",
            "http://split.tes%7/",
            "http://[::1]/",
            "httpx://split.test/",
            "/redirect?to=http://split.test/",
        ] {
            for name in ["location", "content-location"] {
                assert_eq!(secured(OWN, name, line.as_bytes()), None, "{line:?}");
            }
        }
        // Bytes of no character pass, too.
        let line = b"http://split.test/\xff";
        let mut headers = HeaderMap::new();
        let value = HeaderValue::from_bytes(line).expect("a value");
        headers.insert("location", value);
        assert_eq!(secure(&mut headers, OWN), 1);
        assert_eq!(headers["location"].as_bytes(), b"https://split.test/\xff");
        assert_eq!(secured(OWN, "location", b"http://split.test\xff/"), None);
        assert_eq!(secured(OWN, "x-location", b"http://split.test/"), None);
    }

    #[test]
    fn the_port_is_the_one_that_the_client_knows() {
        let port = Some(8443);
        let own = Own { port, ..OWN };
        assert_eq!(
            secured(own, "location", b"http://split.test:18081/dir/").as_deref(),
            Some("https://split.test:8443/dir/")
        );
    }

    #[test]
    fn the_uri_of_a_refresh_is_found_wherever_browsers_find_it() {
        for (line, expected) in [
            (
                "0; url=http://split.test:81/a",
                "0; url=https://split.test/a",
            ),
            (
                "5;URL = 'http://split.test/a'",
                "5;URL = 'https://split.test/a'",
            ),
            (
                "0.5, url=\"http://split.test/a\"; x",
                "0.5, url=\"https://split.test/a\"; x",
            ),
            ("0 \"http://split.test/a", "0 \"https://split.test/a"),
            ("0;\thttp://split.test/a", "0;\thttps://split.test/a"),
            ("; ;url=http://split.test/a", "; ;url=https://split.test/a"),
            (" 0;http://split.test/a;b,c", "0;https://split.test/a;b,c"),
        ] {
            let after = secured(OWN, "refresh", line.as_bytes());
            assert_eq!(after.as_deref(), Some(expected), "{line:?}");
        }
        for line in [
            "5",
            "",
            "0; url=/a",
            "0; url=http://other.test/",
            "0; url=https://split.test:81/",
            "0; url=\"\"http://split.test/",
        ] {
            assert_eq!(secured(OWN, "refresh", line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn every_target_of_a_link_is_looked_at() {
        for (line, expected) in [
            (
                "<http://split.test:81/a.css>; rel=preload, </b>; rel=next,< http://split.test/c >",
                "<https://split.test/a.css>; rel=preload, </b>; rel=next,<https://split.test/c>",
            ),
            (
                "<http://split.test:81/a<b>; rel=preload",
                "<https://split.test/a<b>; rel=preload",
            ),
            (
                "</a>; title=\"<\", <http://split.test/b>; rel=next",
                "</a>; title=\"<\", <https://split.test/b>; rel=next",
            ),
            (
                "<http://split.test/a<http://split.test/b>; rel=next",
                "<https://split.test/a<https://split.test/b>; rel=next",
            ),
            (
                "</a>; title=\"<http://split.test/\", <http://split.test/b>; rel=next",
                "</a>; title=\"<https://split.test/\", <https://split.test/b>; rel=next",
            ),
            (
                "<http://split.test/a>; title=\">, <b\"",
                "<https://split.test/a>; title=\">, <b\"",
            ),
        ] {
            let after = secured(OWN, "link", line.as_bytes());
            assert_eq!(after.as_deref(), Some(expected), "{line:?}");
        }
        for line in [
            "",
            ">",
            "<",
            "<>",
            "</a>; rel=preload",
            "<http://other.test/>; title=\"http://split.test/\"",
            "http://split.test/>",
            "<http://split.test/",
        ] {
            assert_eq!(secured(OWN, "link", line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn a_host_that_is_an_address_is_found_in_its_brackets() {
        let own = Own {
            host: "2001:db8::1",
            port: Some(8443),
        };
        let line = b"http://a@[2001:DB8::1]:18081/dir/";
        let expected = "https://[2001:db8::1]:8443/dir/";
        assert_eq!(secured(own, "location", line).as_deref(), Some(expected));
        for line in ["http://[2001:db8::2]/", "http://[2001:db8::1", "http://["] {
            let after = secured(own, "location", line.as_bytes());
            assert_eq!(after.is_some(), line == "http://[2001:db8::1", "{line}");
        }
    }

    #[test]
    fn each_of_several_lines_is_rewritten() {
        let mut headers = HeaderMap::new();
        for line in ["</a>", "<http://split.test/b>", "<http://split.test/c>"] {
            headers.append("link", HeaderValue::from_static(line));
        }
        assert_eq!(secure(&mut headers, OWN), 2);
        let after: Vec<&HeaderValue> = headers.get_all("link").iter().collect();
        assert_eq!(
            after,
            ["</a>", "<https://split.test/b>", "<https://split.test/c>"]
        );
    }
}
