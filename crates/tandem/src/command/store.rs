//! `tandem store`: what `tandem_store_sqlite::admin` finds or does, as tables, text or JSON.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use tandem_store::{Kind, Limits, Purge, Reading};
use tandem_store_sqlite::Warning;
use tandem_store_sqlite::admin::{
    self, CertificateDetails, ChainRow, Format, Import, Listing, Several, Shown,
};
use tandem_wire::clock::UnixTime;

use crate::cli::{
    ExportFormat, PurgeChoice, StoreCommand, StoreExportArgs, StoreImportArgs, StoreLsArgs,
    StorePurgeArgs, StoreShowArgs,
};
use crate::exit::Failure;
use crate::moment::{self, date};
use crate::output;

/// Digits of a name that are listed: enough to tell tens of thousands apart, few enough to type.
const LISTED_DIGITS: usize = 12;
/// Names of a chain that are listed in a row; `--json` has all.
const LISTED_NAMES: usize = 3;

pub(crate) fn run(command: StoreCommand) -> Result<(), Failure> {
    match command {
        StoreCommand::Ls(arguments) => ls(&arguments),
        StoreCommand::Show(arguments) => show(&arguments),
        StoreCommand::Import(arguments) => import(arguments),
        StoreCommand::Export(arguments) => export(&arguments),
        StoreCommand::Purge(arguments) => purge(arguments),
    }
}

fn ls(arguments: &StoreLsArgs) -> Result<(), Failure> {
    let listing = admin::list(&arguments.store.directory)?;
    if arguments.json {
        return output::print_json(&listing);
    }
    output::print(&listing_table(&listing))
}

fn listing_table(listing: &Listing) -> String {
    let mut table = format!(
        "{:LISTED_DIGITS$}  {:10}  {:10}  {:>5}  {:>7}  {:>6}  names\n",
        "chain", "last seen", "expires", "certs", "bytes", "hits"
    );
    for chain in &listing.chains {
        table += &format!(
            "{}  {}  {}  {:>5}  {:>7}  {:>6}  {}\n",
            listed(&chain.id.to_string()),
            date_of(Some(chain.last_seen)),
            date_of(chain.not_after),
            certificates_of(chain),
            chain.bytes,
            chain.hits,
            names_of(chain),
        );
    }
    for single in &listing.singles {
        table += &format!(
            "{}  {}  {}  {:>5}  {:>7}  {:>6}  (a single certificate)\n",
            listed(&single.digest.to_string()),
            date_of(Some(single.added)),
            date_of(single.not_after),
            1,
            single.bytes,
            "",
        );
    }
    let counted = |is: fn(&Kind) -> bool| {
        let kinds = listing.chains.iter().map(|row| row.kind);
        kinds.filter(is).count()
    };
    let others = match counted(|kind| !has_certificates(*kind)) {
        0 => String::new(),
        others => format!("{others} times messages beside a chain, "),
    };
    table += &format!(
        "{} chains, {others}{} single certificates, {} bytes\n",
        counted(|kind| has_certificates(*kind)),
        listing.singles.len(),
        listing.bytes
    );
    table
}

/// Whether the parts of such an object are certificates.
fn has_certificates(kind: Kind) -> bool {
    match kind.row().reading {
        Reading::NamesAndEnd | Reading::End => true,
        Reading::Nothing => false,
    }
}

/// How many certificates it has; none, where it is no chain.
fn certificates_of(chain: &ChainRow) -> String {
    if has_certificates(chain.kind) {
        chain.certificates.len().to_string()
    } else {
        "-".to_owned()
    }
}

fn listed(name: &str) -> &str {
    name.get(..LISTED_DIGITS).unwrap_or(name)
}

fn date_of(unix: Option<u64>) -> String {
    match unix.map(i64::try_from) {
        Some(Ok(unix)) => date(unix),
        Some(Err(_)) | None => format!("{:10}", "-"),
    }
}

/// The sites that showed a chain, or else the names that its leaf answers to; a few of them.
fn names_of(chain: &ChainRow) -> String {
    let names: Vec<String> = match chain.sites.as_slice() {
        [] => chain.names.clone(),
        sites => sites.iter().map(ToString::to_string).collect(),
    };
    match names.len().checked_sub(LISTED_NAMES) {
        None | Some(0) => names.join(" "),
        Some(more) => format!("{} and {more} more", names[..LISTED_NAMES].join(" ")),
    }
}

fn show(arguments: &StoreShowArgs) -> Result<(), Failure> {
    let directory = &arguments.store.directory;
    let shown = admin::show(directory, &arguments.prefix)?;
    if arguments.json {
        output::print_json(&shown)?;
    } else if arguments.pem {
        let pems = shown.certificates.iter().map(|part| part.pem.as_str());
        output::print(&pems.collect::<String>())?;
    } else {
        output::print(&shown_text(&shown))?;
    }
    complete(directory, shown.damaged, "parts are not shown")
}

fn shown_text(shown: &Shown) -> String {
    let mut text = String::new();
    let kind = shown.chain.as_ref().map_or(Kind::Chain, |chain| chain.kind);
    if let Some(chain) = &shown.chain {
        text += &format!("{:12} {}\n", kind.row().name, chain.id);
        text += &format!("first seen   {}\n", date_of(Some(chain.first_seen)));
        text += &format!(
            "last seen    {}, {} times again\n",
            date_of(Some(chain.last_seen)),
            chain.hits
        );
        for site in &chain.sites {
            text += &format!("site         {site}\n");
        }
        text += "\n";
    }
    if has_certificates(kind) {
        let certificates: Vec<String> = shown.certificates.iter().map(certificate_text).collect();
        return text + &certificates.join("\n");
    }
    let bytes: usize = shown.certificates.iter().map(|part| part.bytes).sum();
    text + &format!("bytes        {bytes}\n")
}

fn certificate_text(certificate: &CertificateDetails) -> String {
    let mut text = format!(
        "certificate  {}\nbytes        {}\n",
        certificate.digest, certificate.bytes
    );
    let Some(contents) = &certificate.contents else {
        return text + "contents     not X.509\n";
    };
    text += &format!("subject      {}\n", contents.subject);
    text += &format!("issuer       {}\n", contents.issuer);
    text += &format!("serial       {}\n", contents.serial);
    text += &format!(
        "valid        {} to {}\n",
        date(contents.not_before),
        date(contents.not_after)
    );
    for name in &contents.names {
        text += &format!("name         {name}\n");
    }
    text
}

fn import(arguments: StoreImportArgs) -> Result<(), Failure> {
    let StoreImportArgs {
        store,
        files,
        site,
        single,
    } = arguments;
    let several = if single {
        Several::Certificates
    } else {
        Several::Chain
    };
    let how = Import { site, several };
    let (imported, warnings) = admin::import(
        &store.directory,
        &Limits::default(),
        &files,
        &how,
        moment::now(),
    )?;
    warn(&warnings);
    output::print(&format!(
        "taken in: {} chains, {} single certificates; {} left out (beyond the store's limits)",
        imported.chains, imported.certificates, imported.refused
    ))
}

fn export(arguments: &StoreExportArgs) -> Result<(), Failure> {
    let format = match arguments.format {
        ExportFormat::Json => Format::JsonLines,
        ExportFormat::Pem => Format::Pem,
    };
    let directory = &arguments.store.directory;
    let exported = match &arguments.file {
        None => {
            let mut out = io::BufWriter::new(io::stdout().lock());
            let exported = admin::export(directory, format, &mut out)?;
            out.flush().map_err(Failure::Output)?;
            exported
        }
        Some(path) => {
            let mut file = io::BufWriter::new(new_file(path)?);
            let exported = admin::export(directory, format, &mut file)?;
            file.flush().map_err(|source| Failure::file(path, source))?;
            output::print(&format!(
                "written to {}: {} chains and single certificates",
                path.display(),
                exported.written
            ))?;
            exported
        }
    };
    complete(directory, exported.damaged, "objects were left out")
}

/// What could be read has been printed; damage is a failure all the same.
fn complete(store: &Path, damaged: usize, lacking: &str) -> Result<(), Failure> {
    match damaged {
        0 => Ok(()),
        damaged => Err(Failure::ReadInPart {
            path: store.to_owned(),
            damage: format!("{damaged} {lacking}, because their bytes are damaged"),
        }),
    }
}

/// A file that was not there before, for its owner only: it is a browsing history.
fn new_file(path: &Path) -> Result<std::fs::File, Failure> {
    let opened = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    opened.map_err(|source| Failure::file(path, source))
}

fn purge(arguments: StorePurgeArgs) -> Result<(), Failure> {
    let what = choice(arguments.what, moment::now())?;
    let (purged, warnings) = admin::purge(&arguments.store.directory, &Limits::default(), &what)?;
    warn(&warnings);
    let single = purged.of(Kind::Certificate);
    output::print(&format!(
        "forgotten: {} chains, {} single certificates",
        purged.total() - single,
        single
    ))
}

/// What to forget. Clap's group sees to it that exactly one choice was made; if none was, nothing
/// is forgotten.
fn choice(choice: PurgeChoice, now: UnixTime) -> Result<Purge, Failure> {
    const SECONDS_A_DAY: u64 = 86_400;
    match choice {
        PurgeChoice {
            site: Some(site), ..
        } => Ok(Purge::Site(site)),
        PurgeChoice {
            unseen: Some(days), ..
        } => {
            let before = now.0.saturating_sub(u64::from(days) * SECONDS_A_DAY);
            Ok(Purge::NotSeenSince(UnixTime(before)))
        }
        PurgeChoice { expired: true, .. } => Ok(Purge::ExpiredBefore(now)),
        PurgeChoice { all: true, .. } => Ok(Purge::All),
        PurgeChoice {
            all: false,
            expired: false,
            unseen: None,
            site: None,
        } => Err(Failure::Usage(
            "say what to forget: --all, --expired, --unseen or --site".to_owned(),
        )),
    }
}

fn warn(warnings: &[Warning]) {
    for warning in warnings {
        eprintln!("tandem: {warning}");
    }
}
