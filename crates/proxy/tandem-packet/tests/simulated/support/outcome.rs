//! What a connection came to that crossed two proxies, whatever befell one of them on the way.
//!
//! Is not: what was said in it, nor what the proxies know before.

use std::time::Duration;

use tandem_netsim::World;
use tandem_wire::Instant;

use super::{CLIENT_SIDE, SERVER_SIDE, Scenario, clean, complete, proxy, repeats, tls_bytes};

/// Both proxies, the client's side first.
pub const BOTH: [usize; 2] = [CLIENT_SIDE, SERVER_SIDE];

/// What a connection came to.
#[derive(Debug)]
pub struct Outcome {
    /// TLS bytes of the client's that the link was spared.
    pub spared: i64,
    pub repeats: u64,
    pub took: Duration,
}

/// Runs to the end and beyond it; hands back the world too.
pub fn run(scenario: Scenario) -> (Outcome, World) {
    let conversation = scenario.conversation.clone();
    let mut world = scenario.world();
    complete(&mut world, &conversation).expect("it completes");
    let outcome = Outcome {
        spared: conversation.from_client.len() as i64 - tls_bytes(&world).0 as i64,
        repeats: repeats(&world),
        took: world.now().saturating_since(Instant::ZERO),
    };
    world.run_for(Duration::from_secs(400)).expect("it ends");
    clean(&world);
    (outcome, world)
}

/// How often each proxy counted this: the client's side first.
pub fn counted(world: &World, event: &str) -> [usize; 2] {
    BOTH.map(|index| proxy(world, index).count(event))
}

/// Has this befall each proxy, once after each step of a connection: it completes nevertheless, to
/// the byte, with two repeats more than without proxies at most. After how many steps it was tried.
pub fn befall_at_each_step(
    what: &str,
    begin: impl Fn() -> Scenario,
    befall: impl Fn(&mut World, usize),
) -> usize {
    let (plain, _) = run(begin().plain());
    let mut steps = 0;
    for index in BOTH {
        for step in 0.. {
            let scenario = begin();
            let conversation = scenario.conversation.clone();
            let mut world = scenario.world();
            let mut at = 0;
            while at < step && !world.server().script().is_done() {
                world.step().expect("a step");
                at += 1;
            }
            if at < step {
                steps = steps.max(at);
                break;
            }
            befall(&mut world, index);
            if let Err(failure) = complete(&mut world, &conversation) {
                panic!("{what} at {index} after {step}: {failure}");
            }
            let more = repeats(&world).saturating_sub(plain.repeats);
            assert!(more <= 2, "{what} at {index} after {step}: {more}");
            world.run_for(Duration::from_secs(400)).expect("it ends");
            clean(&world);
        }
    }
    steps
}
