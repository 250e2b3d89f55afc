//! A middlebox in less than a page: it asks servers for pages in a language, whatever the client
//! said. It writes the heads of requests, and sees nothing else.
//!
//!     cargo run --package tandem-mc --example language -- 127.0.0.1:4443 box.pem box.key de
//!     tandem mc get https://page.example/ --trust ca.pem \
//!         --via box.example@127.0.0.1:4443=request-headers:write
//!
//! Is not: useful. Read [`tandem_mc::service`] beside it.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;

use mctls::config::Right;
use mctls_io::{Service, Timeouts};
use tandem_mc::http::{Head, Side};
use tandem_mc::layout::Rights;
use tandem_mc::middlebox::Standing;
use tandem_mc::service::{Decision, HttpService, OverHttp};
use tandem_mc::settings::{BoxSettings, identity};

/// What it needs; a session that grants less is not let through.
const NEEDS: Rights = [Right::Write, Right::None, Right::None, Right::None];

/// The language.
struct Language(Arc<str>);

impl HttpService for Language {
    fn head(&mut self, _: Side, head: &mut Head) -> Decision {
        head.remove("Accept-Language");
        *head = head.clone().with("Accept-Language", self.0.as_bytes());
        Decision::Change
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [listen, cert, key, language] = arguments.as_slice() else {
        return Err("give ADDR:PORT CERT KEY LANGUAGE".into());
    };
    let own = identity(Path::new(cert), Path::new(key))?;
    let language = Arc::<str>::from(language.as_str());
    let service = Arc::new(move || -> Box<dyn Service> {
        let language = Language(Arc::clone(&language));
        Box::new(OverHttp::new(language, NEEDS))
    });
    let (settings, timeouts) = (BoxSettings::default(), Timeouts::default());
    let standing = Standing::with(listen.parse()?, own, settings, service, timeouts);
    standing.await?.serve().await;
    Ok(())
}
