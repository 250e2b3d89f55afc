//! What the broker shows: one page for people, all of it in itself, and the same as JSON.
//!
//! Is not: a control. Nothing can be changed here.
//!
//! Invariants: what volunteers say of themselves is called that; what nobody has said yet is no
//! zero; nothing that a stranger chose is shown unescaped.

use std::fmt::Write as _;

use serde_json::json;
use tandem_barnraising::certificate_policy::Safeguard;
use tandem_barnraising::talk::Told;

use crate::database::Standing;
use crate::keeper::{Look, Place, Shown, Snapshot, sum};
use crate::pair_status::{Role, Status};

const STYLE: &str = include_str!("page.css");

/// Seconds after which a browser asks again.
const REFRESH: u32 = 10;

/// Of what no volunteer has told anything yet: each tells what it did when it renews.
const UNMEASURED: &str = "<small>not yet measured</small>";

/// The page.
pub(crate) fn html(snapshot: &Snapshot, safeguard: Safeguard) -> String {
    let site = escaped(snapshot.published.site.as_str());
    let mut body = String::new();
    let healthy = snapshot.members.iter();
    let healthy = healthy.filter(|member| member.is_healthy()).count();
    let count = snapshot.members.len();
    let (mark, state) = match (healthy, snapshot.published.own.is_empty()) {
        (0, true) => ("ill", "No volunteer is well, and no address of the origin's own is configured: browsers are sent nowhere.".to_owned()),
        (0, false) => ("new", "No volunteer is well: browsers are sent to the origin.".to_owned()),
        (healthy, _) => ("well", format!("Browsers are sent to {}.", counted(healthy, "volunteer"))),
    };
    let total = total(snapshot);
    let told = |count: u64| match total == Told::default() {
        true => UNMEASURED.to_owned(),
        false => bytes(count),
    };
    let tiles = [
        (
            "volunteers well",
            format!("{healthy}<small> of {count}</small>"),
        ),
        ("sent to browsers*", told(total.sent)),
        ("of the origin for that*", told(total.from_origin)),
        ("saved*", share(total)),
    ];
    let tiles: String = tiles
        .iter()
        .map(|(name, value)| format!("<li><b>{value}</b><span>{name}</span></li>"))
        .collect();
    let warning = safeguard.warning().map_or_else(String::new, |warning| {
        format!("<p class=warning role=alert>{}.</p>", escaped(warning))
    });
    let pair = snapshot.pair.map_or_else(String::new, |pair| {
        let (mark, text) = pair_line(pair);
        format!("<p class=state><i class={mark}></i>{text}</p>")
    });
    let _ = write!(
        body,
        "<header><p class=kind>Barnraising</p><h1>{site}</h1><p class=state><i class={mark}></i>{state}</p>{pair}{warning}</header>\
         <ul class=tiles>{tiles}</ul>"
    );
    if snapshot.members.is_empty() {
        body += "<p class=none>Nobody has joined yet. <code>tandem split broker --config FILE --uri</code> prints what volunteers are given.</p>";
    } else {
        body += "<div class=wide><table><thead><tr><th>Volunteer<th>Address<th>Health<th>Last look<th>Renewed\
                 <th class=n>Connections*<th class=n>Sent*<th class=n>Saved*</thead><tbody>";
        for member in &snapshot.members {
            row(&mut body, member);
        }
        body += "</tbody></table></div>";
    }
    let gone = if snapshot.gone == Told::default() {
        String::new()
    } else {
        format!(
            " Those who have left sent {}; the sums above have it in them.",
            bytes(snapshot.gone.sent)
        )
    };
    let _ = write!(
        body,
        "<footer><p>* The volunteers' own words: nobody can check what they say that they sent and saved.{gone} \
         Health is what this broker sees: it fetches the site through each of them, and checks the certificate.</p>\
         <p>A volunteer reads what it serves and learns who fetched it; it cannot change a byte.</p>\
         <p><a href=status.json>JSON</a> · <a href=metrics>metrics</a> · list {}</p></footer>",
        snapshot.version
    );
    format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content=\"width=device-width\">\
         <meta name=color-scheme content=\"light dark\"><meta http-equiv=refresh content={REFRESH}>\
         <title>{site}: volunteers</title><style>{STYLE}</style><main>{body}</main></html>\n"
    )
}

/// How this broker and the other one of the site do.
fn pair_line(pair: Status) -> (&'static str, &'static str) {
    match (pair.role, pair.connected, pair.acting) {
        (Role::Primary, true, _) => ("well", "Primary: the standby has a copy of all this."),
        (Role::Primary, false, _) => (
            "ill",
            "Primary: the standby is not there, and the loss of this machine would lose what has changed since.",
        ),
        (Role::Standby, _, true) => ("new", "Standby: it acts, because the primary is gone."),
        (Role::Standby, true, false) => ("well", "Standby: all this is a copy of the primary's."),
        (Role::Standby, false, false) => ("ill", "Standby: the primary is not there."),
    }
}

/// A volunteer: a line of its table for each of its addresses.
fn row(out: &mut String, member: &Shown) {
    let key = member.key.to_string();
    let lines = member.places.len();
    let told = match member.told == Told::default() {
        true => format!("<td class=n colspan=3 rowspan={lines}>{UNMEASURED}"),
        false => format!(
            "<td class=n rowspan={lines}>{}<td class=n rowspan={lines}>{}<td class=n rowspan={lines}>{}",
            member.told.clients,
            bytes(member.told.sent),
            share(member.told),
        ),
    };
    for (line, place) in member.places.iter().enumerate() {
        let (mark, word) = health(place);
        let address = format!(
            "<td>{}<td><i class={mark}></i>{word}<td class=look>{}",
            place.address,
            looked(place.look.as_ref()),
        );
        let _ = match line {
            0 => write!(
                out,
                "<tr><td rowspan={lines}><code title={key}>{}…</code>{address}\
                 <td rowspan={lines}>{} ago{told}",
                &key[..12],
                lapse(member.renewed),
            ),
            _ => write!(out, "<tr>{address}"),
        };
    }
}

fn health(place: &Place) -> (&'static str, &'static str) {
    match (place.standing, &place.look) {
        _ if place.is_barred => ("ill", "changed what it served"),
        (Standing::Healthy, _) => ("well", "well"),
        (Standing::Unproven, None) => ("new", "new"),
        (Standing::Unproven, Some((look, _))) => match look.result {
            Ok(_) => ("new", "coming up"),
            Err(_) => ("ill", "not well"),
        },
    }
}

fn looked(look: Option<&(Look, u64)>) -> String {
    let Some((look, ago)) = look else {
        return "–".to_owned();
    };
    let ago = lapse(*ago);
    match &look.result {
        Ok(status) => format!(
            "{status} in {} ms<small>, {ago} ago</small>",
            look.took.as_millis()
        ),
        Err(reason) => format!("{}<small>, {ago} ago</small>", escaped(&shortened(reason))),
    }
}

/// The same for programs.
pub(crate) fn json(snapshot: &Snapshot, safeguard: Safeguard) -> String {
    let told = |told: Told| {
        json!({
            "connections": told.clients,
            "sent_bytes": told.sent,
            "from_origin_bytes": told.from_origin,
        })
    };
    let members: Vec<_> = snapshot
        .members
        .iter()
        .map(|member| {
            let addresses: Vec<_> = member.places.iter().map(place).collect();
            json!({
                "key": member.key.to_string(),
                // As it was when a volunteer had one address: its first.
                "address": member.places.first().map(|place| place.address),
                "last_look": addresses.first().map(|first| &first["last_look"]),
                "addresses": addresses,
                "healthy": member.is_healthy(),
                "barred": member.places.iter().any(|place| place.is_barred),
                "joined": member.joined.0,
                "renewed_seconds_ago": member.renewed,
                "own_words": told(member.told),
            })
        })
        .collect();
    let status = json!({
        "site": snapshot.published.site.as_str(),
        "certificates_at_risk": safeguard == Safeguard::Waived,
        "list_version": snapshot.version,
        "addresses": snapshot.published.addresses(),
        "volunteers": members,
        "own_words_of_those_who_left": told(snapshot.gone),
        "pair": snapshot.pair,
    });
    format!("{status:#}\n")
}

/// One of a volunteer's addresses.
fn place(place: &Place) -> serde_json::Value {
    let look = place.look.as_ref().map(|(look, ago)| {
        json!({
            "status": look.result.as_ref().ok(),
            "error": look.result.as_ref().err(),
            "milliseconds": look.took.as_millis() as u64,
            "seconds_ago": ago,
        })
    });
    json!({
        "address": place.address,
        "healthy": place.standing == Standing::Healthy,
        "barred": place.is_barred,
        "last_look": look,
    })
}

fn total(snapshot: &Snapshot) -> Told {
    let members = snapshot.members.iter().map(|member| member.told);
    members.fold(snapshot.gone, sum)
}

/// How much of what browsers got the origin did not have to send.
fn share(told: Told) -> String {
    if told.sent == 0 {
        return UNMEASURED.to_owned();
    }
    let saved = 100.0 * (1.0 - told.from_origin as f64 / told.sent as f64);
    // Who fills a cache costs more than it saves, and says so.
    format!("{saved:.1}<small> %</small>")
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB", "PB"];
    let (mut value, mut unit) = (count as f64, 0);
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    let digits = usize::from(unit > 0 && value < 99.95);
    format!("{value:.digits$}<small> {}</small>", units[unit])
}

fn lapse(seconds: u64) -> String {
    match seconds {
        0..100 => format!("{seconds} s"),
        100..6000 => format!("{} min", seconds / 60),
        6000..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn shortened(text: &str) -> String {
    const MAX_CHARS: usize = 120;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.chars().fold(String::new(), |mut out, letter| {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\'' => out += "&#39;",
            other => out.push(other),
        }
        out
    })
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use tandem_barnraising::PublicKey;
    use tandem_barnraising::uri::Name;
    use tandem_wire::UnixTime;

    use super::*;
    use crate::keeper::Published;

    /// A site without a volunteer.
    fn empty() -> Snapshot {
        Snapshot {
            published: Published {
                site: Name::parse("www.example.org").expect("a name"),
                healthy: Vec::new(),
                own: Vec::new(),
            },
            version: 1,
            members: Vec::new(),
            gone: Told::default(),
            pair: None,
        }
    }

    #[test]
    fn that_volunteers_may_obtain_certificates_stays_on_the_page() {
        let snapshot = empty();
        let page = html(&snapshot, Safeguard::Waived);
        assert!(page.contains("ANY VOLUNTEER MAY OBTAIN"), "{page}");
        let status = json(&snapshot, Safeguard::Waived);
        assert!(
            status.contains("\"certificates_at_risk\": true"),
            "{status}"
        );
        for safeguard in [Safeguard::Needless, Safeguard::Required] {
            let page = html(&snapshot, safeguard);
            assert!(!page.contains("OBTAIN") && !page.contains("class=warning"));
            let status = json(&snapshot, safeguard);
            assert!(
                status.contains("\"certificates_at_risk\": false"),
                "{status}"
            );
        }
    }

    #[test]
    fn how_two_brokers_do_is_shown_where_there_are_two() {
        let mut snapshot = empty();
        let page = html(&snapshot, Safeguard::Needless);
        assert!(
            !page.contains("Primary") && !page.contains("Standby"),
            "{page}"
        );
        assert!(json(&snapshot, Safeguard::Needless).contains("\"pair\": null"));
        snapshot.pair = Some(Status {
            role: Role::Standby,
            connected: false,
            acting: true,
            clock_ahead_seconds: -7,
        });
        let page = html(&snapshot, Safeguard::Needless);
        assert!(page.contains("Standby: it acts"), "{page}");
        let status: serde_json::Value =
            serde_json::from_str(&json(&snapshot, Safeguard::Needless)).expect("JSON");
        assert_eq!(
            status["pair"],
            json!({"role": "standby", "connected": false, "acting": true, "clock_ahead_seconds": -7})
        );
    }

    #[test]
    fn quantities_are_for_people() {
        for (count, shown) in [
            (0, "0<small> B</small>"),
            (999, "999<small> B</small>"),
            (1_000, "1.0<small> kB</small>"),
            (99_940, "99.9<small> kB</small>"),
            (999_499, "999<small> kB</small>"),
            (999_500, "1.0<small> MB</small>"),
            (u64::MAX, "18447<small> PB</small>"),
        ] {
            assert_eq!(bytes(count), shown);
        }
        assert_eq!(lapse(99), "99 s");
        assert_eq!(lapse(100), "1 min");
        assert_eq!(lapse(200_000), "2 days");
        let told = Told {
            clients: 1,
            sent: 1000,
            from_origin: 5,
        };
        assert_eq!(share(told), "99.5<small> %</small>");
        assert_eq!(share(Told::default()), UNMEASURED);
    }

    #[test]
    fn what_no_volunteer_has_told_yet_is_no_zero() {
        let address = IpAddr::from([192, 0, 2, 1]);
        let shown = |told: Told| {
            let snapshot = Snapshot {
                members: vec![Shown {
                    key: PublicKey([1; 32]),
                    places: vec![Place {
                        address,
                        standing: Standing::Unproven,
                        look: None,
                        is_barred: false,
                    }],
                    joined: UnixTime(0),
                    renewed: 0,
                    told,
                }],
                ..empty()
            };
            html(&snapshot, Safeguard::Needless)
        };
        let page = shown(Told::default());
        assert_eq!(page.matches("not yet measured").count(), 4, "{page}");
        assert!(!page.contains("0<small> B"), "{page}");
        let page = shown(Told {
            clients: 1,
            sent: 1000,
            from_origin: 0,
        });
        assert!(!page.contains("not yet measured"), "{page}");
        assert!(page.contains("<b>0<small> B</small></b>"), "{page}");
    }

    #[test]
    fn each_address_of_a_volunteer_has_a_health_of_its_own() {
        let place = |address: &str, standing: Standing, result: Result<u16, String>| Place {
            address: address.parse().expect("an address"),
            standing,
            look: Some((
                Look {
                    result,
                    took: Duration::from_millis(3),
                },
                7,
            )),
            is_barred: false,
        };
        let mut snapshot = Snapshot {
            members: vec![Shown {
                key: PublicKey([1; 32]),
                places: vec![
                    place("192.0.2.1", Standing::Healthy, Ok(200)),
                    place(
                        "2001:db8::1",
                        Standing::Unproven,
                        Err("no route".to_owned()),
                    ),
                ],
                joined: UnixTime(0),
                renewed: 0,
                told: Told::default(),
            }],
            ..empty()
        };
        snapshot.published.healthy = vec![[192, 0, 2, 1].into()];
        let page = html(&snapshot, Safeguard::Needless);
        assert!(page.contains("sent to 1 volunteer."), "{page}");
        assert!(page.contains("<b>1<small> of 1</small></b>"), "{page}");
        let four = page.find("192.0.2.1").expect("shown");
        let six = page.find("2001:db8::1").expect("shown");
        assert!(page[four..six].contains("class=well") && page[six..].contains("no route"));
        let status: serde_json::Value =
            serde_json::from_str(&json(&snapshot, Safeguard::Needless)).expect("JSON");
        let volunteer = &status["volunteers"][0];
        assert_eq!(volunteer["healthy"], true);
        assert_eq!(volunteer["address"], "192.0.2.1");
        assert_eq!(volunteer["last_look"]["status"], 200);
        let healthy = |index: usize| volunteer["addresses"][index]["healthy"].as_bool();
        assert_eq!([healthy(0), healthy(1)], [Some(true), Some(false)]);
        assert_eq!(volunteer["addresses"][1]["last_look"]["error"], "no route");
        assert_eq!(status["addresses"].as_array().map(Vec::len), Some(1));
    }

    #[test]
    fn what_strangers_chose_is_shown_as_text() {
        assert_eq!(
            escaped("<a href='x'>&\"</a>"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;&lt;/a&gt;"
        );
        assert_eq!(shortened(&"é".repeat(200)).chars().count(), 121);
    }
}
