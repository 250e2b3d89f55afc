//! What waits for the thread: its bounds, and that all of it is given back. Not here: what a server
//! makes of it (`tests/servers.rs`).

use std::sync::mpsc::channel;

use super::*;
use crate::address::Address;
use crate::support::{self, RealServer};

const PEER: PeerId = PeerId([1; 32]);

/// A proxy of which the thread has not begun, and what the thread would do.
fn proxy(address: &str) -> (Valkey, Worker) {
    let address: Address = address.parse().expect(address);
    let proxy = Valkey::new(address.into(), &[7; 32]);
    let worker = proxy.beginning.lock().expect("nobody has it").take();
    (proxy, worker.expect("it has not begun"))
}

/// One of which the server is not there.
fn alone() -> (Valkey, Worker) {
    proxy("unix:/nowhere/socket")
}

fn number(proxy: &Valkey, name: &str) -> u64 {
    let numbers = proxy.numbers();
    let found = numbers.iter().find(|(it, _)| *it == name);
    found.expect(name).1
}

/// The thread's next turn, if anything waits.
fn turn(worker: &mut Worker) -> bool {
    let job = worker.waiting.try_recv();
    job.map(|job| worker.work(job)).is_ok()
}

fn waiting(proxy: &Valkey) -> [usize; 2] {
    let counts = &proxy.counts;
    [&counts.waiting_notes, &counts.waiting_recalls].map(|it| it.load(Ordering::Relaxed))
}

#[test]
fn pauses_double_up_to_half_a_minute() {
    let pauses: Vec<u128> = std::iter::successors(Some(MIN_PAUSE), |it| Some(longer(*it)))
        .take(8)
        .map(|it| it.as_millis())
        .collect();
    assert_eq!(
        pauses,
        [500, 1_000, 2_000, 4_000, 8_000, 16_000, 30_000, 30_000]
    );
}

#[test]
fn so_much_waits_of_each_kind_and_there_is_room_for_a_flush_whatever_waits() {
    let (proxy, mut worker) = alone();
    assert_eq!(proxy.state(), "not tried yet");
    for _ in 0..MAX_NOTES + 3 {
        proxy.note(PEER, b"note".to_vec());
    }
    for _ in 0..MAX_WAITING_RECALLS + 2 {
        proxy.recall(PEER, Box::new(drop));
    }
    assert_eq!(waiting(&proxy), [MAX_NOTES, MAX_WAITING_RECALLS]);
    assert_eq!(number(&proxy, "shared_store_notes_dropped"), 3);
    assert_eq!(number(&proxy, "shared_store_recalls_failed"), 2);
    let asked = MAX_WAITING_RECALLS as u64 + 2;
    assert_eq!(number(&proxy, "shared_store_recalls"), asked);
    let (done, is_done) = sync_channel(1);
    assert!(proxy.jobs.try_send(Job::Flush(done)).is_ok());
    while turn(&mut worker) {}
    assert!(is_done.try_recv().is_ok());
    // All places are free again, and what found no server is counted.
    assert_eq!(waiting(&proxy), [0, 0]);
    let notes = MAX_NOTES as u64 + 3;
    assert_eq!(number(&proxy, "shared_store_notes_dropped"), notes);
    assert_eq!(number(&proxy, "shared_store_recalls_failed"), asked);
}

#[test]
fn a_turn_takes_so_much_and_no_more_after_a_flush() {
    let (proxy, mut worker) = alone();
    for _ in 0..MAX_BATCH + 1 {
        proxy.note(PEER, b"note".to_vec());
    }
    assert!(turn(&mut worker));
    assert_eq!(waiting(&proxy), [1, 0]);
    for _ in 0..MAX_RECALLS {
        proxy.recall(PEER, Box::new(drop));
    }
    assert!(turn(&mut worker));
    assert_eq!(waiting(&proxy), [0, 0]);
    for _ in 0..MAX_RECALLS + 1 {
        proxy.recall(PEER, Box::new(drop));
    }
    assert!(turn(&mut worker));
    assert_eq!(waiting(&proxy), [0, 1]);
    assert!(turn(&mut worker));
    proxy.note(PEER, b"before".to_vec());
    let (done, is_done) = sync_channel(1);
    assert!(proxy.jobs.try_send(Job::Flush(done)).is_ok());
    proxy.note(PEER, b"after".to_vec());
    assert!(turn(&mut worker));
    assert!(is_done.try_recv().is_ok());
    assert_eq!(waiting(&proxy), [1, 0]);
}

#[test]
fn who_has_waited_too_long_for_notes_gets_none() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let (proxy, mut worker) = proxy(&server.address());
    proxy.note(PEER, b"note".to_vec());
    assert!(turn(&mut worker));
    let now = Instant::now();
    for (since, comes) in [(now - MAX_AGE, false), (now, true)] {
        let (said, heard) = channel();
        let then = move |notes| said.send(notes).expect("the test waits");
        worker.work(Job::Recall(PEER, Box::new(then), since));
        proxy.counts.waiting_recalls.store(0, Ordering::Relaxed);
        let expected = comes.then(|| vec![b"note".to_vec()]);
        assert_eq!(heard.try_recv().ok(), expected);
        assert_eq!(number(&proxy, "shared_store_recalls_failed"), 1);
    }
}

#[test]
fn after_a_restart_the_connection_is_made_anew_and_nothing_is_lost() {
    let Some(mut server) = RealServer::start(&[]) else {
        return;
    };
    let (proxy, mut worker) = proxy(&server.address());
    for (number_of_notes, restarts) in [(1, true), (2, false)] {
        proxy.note(PEER, b"note".to_vec());
        assert!(turn(&mut worker));
        assert_eq!(
            number(&proxy, "shared_store_notes_written"),
            number_of_notes
        );
        assert_eq!(number(&proxy, "shared_store_connected"), 1);
        if restarts {
            server.kill();
            server.start_again();
        }
    }
    assert_eq!(number(&proxy, "shared_store_failures"), 0);
}

#[test]
fn a_server_that_reads_nothing_holds_the_thread_for_a_moment() {
    let Some(server) = RealServer::start(&[]) else {
        return;
    };
    let (proxy, mut worker) = proxy(&server.address());
    proxy.note(PEER, b"note".to_vec());
    assert!(turn(&mut worker));
    server.signal("STOP");
    // More than a socket holds.
    for _ in 0..MAX_BATCH {
        proxy.note(PEER, vec![0; 30_000]);
    }
    let (said, heard) = channel();
    std::thread::spawn(move || {
        turn(&mut worker);
        // It fails only where the test has given up.
        let _ = said.send(worker);
    });
    let worker = heard.recv_timeout(support::PATIENCE);
    server.signal("CONT");
    worker.expect("it waits no longer");
    let dropped = number(&proxy, "shared_store_notes_dropped");
    assert_eq!(dropped, MAX_BATCH as u64);
}
