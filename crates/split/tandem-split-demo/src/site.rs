//! The small site that the demonstration serves: a page, a chart that is some hundred kilobytes,
//! and a file of twenty megabytes.
//!
//! Is not: reachable from elsewhere. A plain server of HTTP/1.1 on loopback, as any that an origin
//! stands in front of.

use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};

use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use hyper::{Method, StatusCode};
use tandem_daemon::http::{Request, Response, Server};

use crate::error::DemoError;

const PAGE: &str = include_str!("site.html");
/// Bytes of the file.
const FILE: usize = 20_000_000;
/// Lines of the chart.
const CONTOURS: u32 = 120;

/// Starts it, until the process ends. Where it is.
pub(crate) fn start() -> Result<SocketAddr, DemoError> {
    let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let failed = |source| DemoError::Listen {
        address: free,
        source,
    };
    let listener = TcpListener::bind(free).map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let files = Files {
        chart: chart().into(),
        file: file().into(),
    };
    Server::start("site", listener, move |request| files.answer(&request))
        .map_err(failed)?
        .detach();
    Ok(address)
}

struct Files {
    chart: Bytes,
    file: Bytes,
}

impl Files {
    fn answer(&self, request: &Request) -> Response<Full<Bytes>> {
        let found = |kind, body: Bytes| (StatusCode::OK, kind, body);
        let refused = |status, body: &'static str| (status, "text/plain", Bytes::from(body));
        let (status, kind, body) = match (request.method(), request.uri().path()) {
            (&Method::GET | &Method::HEAD, path) => match path {
                "/" => found("text/html; charset=utf-8", Bytes::from(PAGE)),
                "/chart.svg" => found("image/svg+xml", self.chart.clone()),
                "/file.bin" => found("application/octet-stream", self.file.clone()),
                // What the broker looks at.
                "/health" => found("text/plain", Bytes::from("well\n")),
                _ => refused(StatusCode::NOT_FOUND, "there is no such page\n"),
            },
            _ => refused(StatusCode::METHOD_NOT_ALLOWED, "only GET\n"),
        };
        let mut response = Response::new(Full::from(body));
        *response.status_mut() = status;
        // A browser that asks again shows what asking again costs.
        for (name, value) in [(CONTENT_TYPE, kind), (CACHE_CONTROL, "no-cache")] {
            let value = HeaderValue::from_static(value);
            response.headers_mut().insert(name, value);
        }
        response
    }
}

/// Contour lines about three peaks: a picture that is as large as pictures are.
fn chart() -> String {
    const WIDTH: f64 = 1200.0;
    const HEIGHT: f64 = 640.0;
    const PEAKS: [(f64, f64, f64); 3] = [
        (380.0, 300.0, 300.0),
        (760.0, 240.0, 220.0),
        (900.0, 470.0, 180.0),
    ];
    const STEPS: u32 = 180;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" fill=\"none\" stroke=\"#1f4e5f\" stroke-width=\"0.7\">\n"
    );
    for contour in 0..CONTOURS {
        let (x, y, size) = PEAKS[contour as usize % PEAKS.len()];
        let radius = size * f64::from(contour / 3 + 1) / f64::from(CONTOURS / 3);
        svg += "<path opacity=\"0.75\" d=\"";
        for step in 0..=STEPS {
            let angle = std::f64::consts::TAU * f64::from(step) / f64::from(STEPS);
            let wave = 1.0
                + 0.13 * (3.0 * angle + radius / 60.0).sin()
                + 0.05 * (7.0 * angle - radius / 25.0).cos();
            let (dx, dy) = (
                radius * wave * angle.cos(),
                0.7 * radius * wave * angle.sin(),
            );
            let letter = if step == 0 { 'M' } else { 'L' };
            // Writing to a string does not fail.
            let _ = write!(svg, "{letter}{:.2} {:.2}", x + dx, y + dy);
        }
        svg += "\"/>\n";
    }
    svg + "</svg>\n"
}

/// Bytes that repeat nowhere: what saves is that a volunteer has them, not that they are dull.
fn file() -> Vec<u8> {
    let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
    let mut bytes = Vec::with_capacity(FILE);
    while bytes.len() < FILE {
        // Xorshift (Marsaglia 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(FILE);
    bytes
}
