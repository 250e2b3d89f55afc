//! A site of a Rust program, split in the program itself: no server and no proxy stand beside it.
//!
//!     cargo run --example in_process -- site.pem site.key 127.0.0.1:7443
//!     tandem split volunteer --origin 127.0.0.1:7443 --listen 127.0.0.1:8443
//!     curl --cacert ca.pem --resolve SITE:8443:127.0.0.1 https://SITE:8443/
//!
//! The certificate is RSA and names one host. What the program answers is public: volunteers read
//! it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use http_body_util::{BodyExt as _, Full};
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use tandem_split_io::SplitIoError;
use tandem_split_io::origin::{CutOff, Origin, RequestBody, Resumption, Settings, Upstream};

/// What this site is: a page, a large file that seldom changes, and a form.
async fn answer(request: Request<RequestBody>) -> Result<Response<Full<Bytes>>, CutOff> {
    let (head, body) = request.into_parts();
    Ok(match (&head.method, head.uri.path()) {
        (&Method::GET | &Method::HEAD, "/") => page("text/html", "<h1>Split in process</h1>\n"),
        // The second client that asks costs this program half a percent of it.
        (&Method::GET | &Method::HEAD, "/map") => {
            page("application/octet-stream", vec![b'm'; 1 << 20])
        }
        (&Method::POST, "/length") => {
            let sent = body.collect().await?.to_bytes();
            page("text/plain", format!("{}\n", sent.len()))
        }
        _ => {
            let mut answer = page("text/plain", "not here\n");
            *answer.status_mut() = StatusCode::NOT_FOUND;
            answer
        }
    })
}

fn page(kind: &'static str, body: impl Into<Bytes>) -> Response<Full<Bytes>> {
    let mut answer = Response::new(Full::new(body.into()));
    let kind = hyper::header::HeaderValue::from_static(kind);
    answer
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    answer
}

/// The site, listening for volunteers.
pub(crate) async fn site(
    certificate: PathBuf,
    key: PathBuf,
    listen: SocketAddr,
) -> Result<Origin, SplitIoError> {
    Origin::bind(Settings {
        listen,
        upstream: Upstream::service(service_fn(answer)),
        certificate,
        key,
        channel_key: None,
        admitted: None,
        resumption: Resumption::Offered,
    })
    .await
}

#[allow(
    clippy::print_stdout,
    dead_code,
    reason = "a program prints; a test takes only the rest"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [certificate, key, listen] = arguments.as_slice() else {
        return Err("give a certificate, its key, and where to listen".into());
    };
    let origin = site(certificate.into(), key.into(), listen.parse()?).await?;
    println!("volunteers know it by --origin-key {}", origin.key());
    let numbers = origin.numbers();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(60)).await;
            for number in &numbers {
                println!("{} {}", number.name(), number.value());
            }
        }
    });
    origin.serve().await;
    Ok(())
}
