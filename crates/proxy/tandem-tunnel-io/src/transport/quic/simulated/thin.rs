//! Thin lines whose rate is stated: nothing crosses twice, and a loss does not slow the tunnel
//! down.

use super::*;

#[test]
fn at_2400_bit_a_second_nothing_is_sent_twice_and_nothing_probed_for() {
    let mut pair = Pair::up(link("iridium"));
    let small = [
        (500, 300),
        (300, 1_000),
        (4, 3_000),
        (2_000, 100),
        (500, 300),
    ];
    for (request, response) in small
        .into_iter()
        .chain([(500, 20_000), (20_000, 4), (500, 300)])
    {
        pair.exchange(request, response);
        pair.pass(MINUTE);
    }
    pair.assert_nothing_twice(0);
}

#[test]
fn a_handshake_beside_a_download_waits_for_two_of_its_datagrams_at_most() {
    let mut pair = Pair::up(link("iridium"));
    let download = pair.ask(100, 40_000);
    pair.pass(MINUTE);
    let start = pair.now;
    let handshake = pair.ask(500, 300);
    pair.finish(handshake, 300, MINUTE);
    // 3.9 s alone; 4.2 s for each datagram that is on its way or next.
    let took = pair.now.saturating_since(start);
    assert!(took < Duration::from_secs(13), "{took:?}");
    pair.finish(download, 40_000, HOUR);
}

/// Which part of the line's rate a download uses where such a part of the packets is lost.
fn used(name: &str, percent: u8, bytes: usize) -> f64 {
    let config =
        link(name).with_both(|way| way.loss = Loss::Independent(Probability::percent(percent)));
    let rate = config.down.rate.expect("it has one").bits_per_second();
    let mut pair = Pair::up(config);
    let took = pair.exchange(100, bytes);
    bytes as f64 * 8.0 / took.as_secs_f64() / rate as f64
}

#[test]
fn a_stated_rate_is_used_and_losses_do_not_halve_it() {
    for (name, bytes) in [
        ("iridium", 30_000),
        ("certus-100", 500_000),
        ("certus-700", 2_000_000),
    ] {
        for (percent, least) in [(0, 0.92), (2, 0.85), (5, 0.8)] {
            let used = used(name, percent, bytes);
            assert!(used > least, "{name}, {percent} % lost: {used}");
        }
    }
    // One stream's window is the limit here, not the loss.
    let whole = used("geo-hts", 0, 10_000_000);
    assert!(whole > 0.8, "{whole}");
    let lossy = used("geo-hts", 2, 10_000_000);
    assert!(lossy > 0.3, "{lossy}");
}

#[test]
fn reordered_doubled_and_lost_packets_leave_the_bytes_as_they_are() {
    for name in ["iridium", "certus-100", "tcdl-10"] {
        let config = link(name).with_both(|way| {
            way.reordering.probability = Probability::percent(20);
            way.reordering.extra_delay = Duration::from_millis(700);
            way.duplication.probability = Probability::percent(20);
            way.duplication.after = Duration::from_millis(300);
            way.loss = Loss::Independent(Probability::percent(5));
        });
        for seed in 0..5 {
            let (up, down) = stated(&config);
            let mut pair = Pair::with_lines(config.clone(), seed, &up, &down);
            pair.until(MINUTE * 5, Pair::is_up);
            let all = [(500, 300), (20_000, 4), (4, 20_000)];
            let asked = all.map(|(request, response)| pair.ask(request, response));
            for (number, (_, response)) in asked.into_iter().zip(all) {
                pair.finish(number, response, HOUR);
            }
        }
    }
}
