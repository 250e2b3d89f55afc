//! A tiny discrete-event world: hosts at two ends, elements in a line between
//! them, and time that jumps from event to event.
//!
//! ```text
//!  clients --0-- element 0 --1-- element 1 --2-- ... --n-- servers
//!    Left <----------------------------------------------> Right
//! ```
//!
//! Hops take no time; what takes time is an element. Everything that happens at
//! one instant happens before time moves on. A run is bounded in steps and in
//! virtual time; where it goes beyond, or where a test's condition fails, the
//! seed and the trace are in the [`Failure`]. A panic in the test prints them
//! too, when the world is dropped.
//!
//! Not here: any chance. The seed is only kept, to be printed.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::time::Duration;

use tandem_wire::clock::Instant;

use crate::element::{Element, Port, Wire};
use crate::host::{Host, Wants};
use crate::trace::{Trace, TraceLine, summarise};

/// Steps (instants at which something is due) before a run counts as endless.
const MAX_STEPS: u64 = 1_000_000;

/// Packets handed on at one instant before that counts as a loop.
const MAX_PACKETS_AT_ONCE: usize = 200_000;

/// A packet as it passed a tapped hop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When.
    pub at: Instant,
    /// Where to: `Right` is towards the server.
    pub towards: Port,
    /// The whole IP packet.
    pub packet: Vec<u8>,
}

/// Hosts, elements and the time.
pub struct World {
    seed: u64,
    now: Instant,
    clients: Vec<Host>,
    elements: Vec<Box<dyn Element>>,
    servers: Vec<Host>,
    trace: Trace,
    /// By element: what waits before one that is stopped.
    stopped: BTreeMap<usize, Stopped>,
    taps: Vec<Option<Vec<Tapped>>>,
    unclaimed: u64,
    steps: u64,
}

impl World {
    /// An empty world at time zero. `seed` is what the elements were made with:
    /// it is printed with a failure.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Instant::ZERO,
            clients: Vec::new(),
            elements: Vec::new(),
            servers: Vec::new(),
            trace: Trace::default(),
            stopped: BTreeMap::new(),
            taps: vec![None],
            unclaimed: 0,
            steps: 0,
        }
    }

    /// Adds a host at the left end.
    #[must_use]
    pub fn with_client(mut self, host: Host) -> Self {
        self.clients.push(host);
        self
    }

    /// Adds an element to the right of those that are there.
    #[must_use]
    pub fn with_element(mut self, element: impl Element) -> Self {
        self.elements.push(Box::new(element));
        self.taps.push(None);
        self
    }

    /// Adds a host at the right end.
    #[must_use]
    pub fn with_server(mut self, host: Host) -> Self {
        self.servers.push(host);
        self
    }

    /// Keeps a copy of each packet that passes a hop; hop 0 is next to the
    /// clients, the one after the last element next to the servers. Nothing
    /// for a hop that there is not.
    #[must_use]
    pub fn with_tap(mut self, hop: usize) -> Self {
        if let Some(tap) = self.taps.get_mut(hop) {
            tap.get_or_insert_default();
        }
        self
    }

    /// The present.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// What the elements were made with.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What passed where, lately.
    pub fn trace(&self) -> &Trace {
        &self.trace
    }

    /// What passed a tapped hop; nothing for one that is not tapped.
    pub fn tapped(&self, hop: usize) -> &[Tapped] {
        self.taps
            .get(hop)
            .and_then(Option::as_deref)
            .unwrap_or_default()
    }

    /// Packets that reached an end and were for no host there.
    pub fn unclaimed(&self) -> u64 {
        self.unclaimed
    }

    /// The hosts at the left end.
    pub fn clients(&self) -> &[Host] {
        &self.clients
    }

    /// The hosts at the right end.
    pub fn servers(&self) -> &[Host] {
        &self.servers
    }

    /// The first client.
    ///
    /// # Panics
    /// Where there is none: a mistake of the test.
    pub fn client(&self) -> &Host {
        self.clients
            .first()
            .expect("the test gave the world a client")
    }

    /// The first server.
    ///
    /// # Panics
    /// Where there is none: a mistake of the test.
    pub fn server(&self) -> &Host {
        self.servers
            .first()
            .expect("the test gave the world a server")
    }

    /// Lets a client do something now; nothing for an index that there is not.
    pub fn with_client_mut(&mut self, index: usize, act: impl FnOnce(&mut Host, Instant)) {
        if let Some(host) = self.clients.get_mut(index) {
            act(host, self.now);
        }
        self.settle_quietly();
    }

    /// Lets a server do something now; nothing for an index that there is not.
    pub fn with_server_mut(&mut self, index: usize, act: impl FnOnce(&mut Host, Instant)) {
        if let Some(host) = self.servers.get_mut(index) {
            act(host, self.now);
        }
        self.settle_quietly();
    }

    /// All clients that have not begun send their SYN.
    pub fn connect(&mut self) {
        for host in &mut self.clients {
            host.connect(self.now);
        }
        self.settle_quietly();
    }

    /// An element by index, where it is of that type.
    pub fn element<E: Element>(&self, index: usize) -> Option<&E> {
        let element: &dyn Any = self.elements.get(index)?.as_ref();
        element.downcast_ref()
    }

    /// An element by index, where it is of that type. What it has to send after
    /// a change is sent at the next step.
    pub fn element_mut<E: Element>(&mut self, index: usize) -> Option<&mut E> {
        let element: &mut dyn Any = self.elements.get_mut(index)?.as_mut();
        element.downcast_mut()
    }

    /// Puts another element in the place of one, as when a process dies (put a
    /// [`Wire`] or a [`crate::element::BlackHole`]) or is started again. What
    /// the old one still held is in it and is returned with it; what waited
    /// before it while it was stopped is lost, as a queue dies with its process.
    ///
    /// # Panics
    /// For an index that there is not: a mistake of the test.
    pub fn replace(&mut self, index: usize, element: impl Element) -> Box<dyn Element> {
        self.stopped.remove(&index);
        let place = self
            .elements
            .get_mut(index)
            .expect("the test replaces an element that it added");
        std::mem::replace(place, Box::new(element))
    }

    /// Replaces an element by nothing: packets pass. The others keep their indices.
    ///
    /// # Panics
    /// For an index that there is not: a mistake of the test.
    pub fn remove(&mut self, index: usize) -> Box<dyn Element> {
        self.replace(index, Wire::default())
    }

    /// Stops an element as SIGSTOP stops a process: what arrives waits in the
    /// kernel's queue, of this many packets; what exceeds it goes as `overflow`
    /// says. Its timers do not fire.
    pub fn stop(&mut self, index: usize, queue: usize, overflow: Overflow) {
        self.stopped.entry(index).or_insert(Stopped {
            waiting: VecDeque::new(),
            queue,
            overflow,
        });
    }

    /// Lets a stopped element go on with what has waited, in order.
    pub fn resume(&mut self, index: usize) {
        let Some(stopped) = self.stopped.remove(&index) else {
            return;
        };
        if let Some(element) = self.elements.get_mut(index) {
            for (port, packet) in stopped.waiting {
                element.handle_input(port, packet, self.now);
            }
        }
        self.settle_quietly();
    }

    /// When something is due next.
    pub fn next_event(&self) -> Option<Instant> {
        let hosts = self.clients.iter().chain(&self.servers);
        hosts
            .filter_map(|host| host.poll_timeout().map(|(at, _)| at))
            .chain(self.running().filter_map(|element| element.poll_timeout()))
            .min()
    }

    /// Goes to the next instant at which something is due and lets all of it
    /// happen.
    ///
    /// # Errors
    /// [`Failure`] where the steps are used up or packets go round in circles.
    pub fn step(&mut self) -> Result<Stepped, Failure> {
        let Some(at) = self.next_event() else {
            self.settle()?;
            return Ok(Stepped::NothingDue);
        };
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return Err(self.failure("the steps are used up"));
        }
        self.now = self.now.max(at);
        for host in self.clients.iter_mut().chain(&mut self.servers) {
            if is_due(host.poll_timeout().map(|(at, _)| at), self.now) {
                host.handle_timeout(self.now);
            }
        }
        for (index, element) in self.elements.iter_mut().enumerate() {
            if self.stopped.contains_key(&index) {
                continue;
            }
            if is_due(element.poll_timeout(), self.now) {
                element.handle_timeout(self.now);
            }
        }
        self.settle()?;
        Ok(Stepped::To(self.now))
    }

    /// Steps until `done`.
    ///
    /// # Errors
    /// [`Failure`] where nothing is due any more, or so much virtual time has
    /// passed, or the steps are used up, and it is still not done.
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut done: impl FnMut(&Self) -> bool,
    ) -> Result<(), Failure> {
        let end = self.now + limit;
        self.settle()?;
        while !done(self) {
            match self.next_event() {
                None => return Err(self.failure("nothing is due, and it is not done")),
                Some(at) if at > end => {
                    return Err(self.failure("the time is up, and it is not done"));
                }
                Some(_) => self.step()?,
            };
        }
        Ok(())
    }

    /// Steps until so much virtual time has passed; then it is that time.
    ///
    /// # Errors
    /// [`Failure`] where the steps are used up.
    pub fn run_for(&mut self, time: Duration) -> Result<(), Failure> {
        let end = self.now + time;
        self.settle()?;
        while self.next_event().is_some_and(|at| at <= end) {
            self.step()?;
        }
        self.now = end;
        Ok(())
    }

    /// Steps until nothing is due, which must be within `limit`.
    ///
    /// # Errors
    /// [`Failure`] where it is not.
    pub fn run_until_quiet(&mut self, limit: Duration) -> Result<(), Failure> {
        self.run_until(limit, |world| world.next_event().is_none())
    }

    /// A failure at this moment, with the trace.
    pub fn failure(&self, reason: impl Into<String>) -> Failure {
        Failure {
            report: format!("{}\n{}", reason.into(), self.report()),
        }
    }

    fn running(&self) -> impl Iterator<Item = &dyn Element> {
        self.elements
            .iter()
            .enumerate()
            .filter(|(index, _)| !self.stopped.contains_key(index))
            .map(|(_, element)| element.as_ref())
    }

    fn report(&self) -> String {
        let mut report = format!("seed {}, at {}\n{}", self.seed, self.now, self.trace);
        let hosts = [("client", &self.clients), ("server", &self.servers)];
        for (end, hosts) in hosts {
            for (index, host) in hosts.iter().enumerate() {
                report += &format!(
                    "{end} {index}: {:?}, {} bytes received, step {} of its script, {:?}\n",
                    host.phase(),
                    host.received().len(),
                    host.script().position(),
                    host.counters()
                );
            }
        }
        report
    }

    /// Settles; a loop shows at the next step, which finds it again.
    fn settle_quietly(&mut self) {
        let _ = self.settle();
    }

    /// Hands on packets until nobody has one to send.
    fn settle(&mut self) -> Result<(), Failure> {
        let mut handed_on = 0;
        loop {
            let mut moving = self.collect();
            if moving.is_empty() {
                return Ok(());
            }
            while let Some((hop, towards, packet)) = moving.pop_front() {
                handed_on += 1;
                if handed_on > MAX_PACKETS_AT_ONCE {
                    return Err(self.failure("packets go round in circles at one instant"));
                }
                self.hand_on(hop, towards, packet);
            }
        }
    }

    /// What everybody has to send, by hop.
    fn collect(&mut self) -> VecDeque<(usize, Port, Vec<u8>)> {
        let mut moving = VecDeque::new();
        for host in &mut self.clients {
            while let Some(packet) = host.poll_output() {
                moving.push_back((0, Port::Right, packet));
            }
        }
        for (index, element) in self.elements.iter_mut().enumerate() {
            if self.stopped.contains_key(&index) {
                continue;
            }
            while let Some((port, packet)) = element.poll_output() {
                let hop = match port {
                    Port::Left => index,
                    Port::Right => index + 1,
                };
                moving.push_back((hop, port, packet));
            }
        }
        let last_hop = self.elements.len();
        for host in &mut self.servers {
            while let Some(packet) = host.poll_output() {
                moving.push_back((last_hop, Port::Left, packet));
            }
        }
        moving
    }

    fn hand_on(&mut self, hop: usize, towards: Port, packet: Vec<u8>) {
        self.trace.push(TraceLine {
            at: self.now,
            hop,
            towards,
            summary: summarise(&packet),
        });
        if let Some(Some(tap)) = self.taps.get_mut(hop) {
            tap.push(Tapped {
                at: self.now,
                towards,
                packet: packet.clone(),
            });
        }
        // Towards the right, hop n leads to element n; towards the left, to element n - 1.
        let element = match towards {
            Port::Right => Some(hop),
            Port::Left => hop.checked_sub(1),
        };
        let port = towards.opposite();
        if let Some(stopped) = element.and_then(|index| self.stopped.get_mut(&index)) {
            if stopped.waiting.len() < stopped.queue {
                stopped.waiting.push_back((port, packet));
                return;
            }
            match (stopped.overflow, towards) {
                (Overflow::Drop, _) => return,
                (Overflow::Bypass, Port::Right) => {
                    return self.hand_on(hop + 1, towards, packet);
                }
                (Overflow::Bypass, Port::Left) => {
                    return self.hand_on(hop - 1, towards, packet);
                }
            }
        }
        match element.and_then(|index| self.elements.get_mut(index)) {
            Some(element) => element.handle_input(port, packet, self.now),
            None => {
                let hosts = match towards {
                    Port::Left => &mut self.clients,
                    Port::Right => &mut self.servers,
                };
                match claimant(hosts, &packet) {
                    Some(host) => host.handle_input(&packet, self.now),
                    None => self.unclaimed += 1,
                }
            }
        }
    }
}

/// Whom a packet is for: the host whose connection it is of, else the first
/// that would begin one.
fn claimant<'a>(hosts: &'a mut [Host], packet: &[u8]) -> Option<&'a mut Host> {
    let rank = |host: &Host| match host.wants(packet) {
        Wants::Certainly => Some(0),
        Wants::IfNobodyElse => Some(1),
        Wants::No => None,
    };
    hosts
        .iter_mut()
        .filter_map(|host| rank(host).map(|rank| (rank, host)))
        .min_by_key(|(rank, _)| *rank)
        .map(|(_, host)| host)
}

fn is_due(at: Option<Instant>, now: Instant) -> bool {
    at.is_some_and(|at| at <= now)
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report())
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.report());
        }
    }
}

/// A stopped element's queue.
struct Stopped {
    waiting: VecDeque<(Port, Vec<u8>)>,
    queue: usize,
    overflow: Overflow,
}

/// What becomes of packets that a stopped element's queue cannot take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// Dropped: netfilter's queue by default.
    Drop,
    /// Passed by: netfilter's queue with the fail-open flag.
    Bypass,
}

/// What [`World::step`] did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stepped {
    /// It is now this instant.
    To(Instant),
    /// Nobody waits for anything.
    NothingDue,
}

/// A run that did not end as it should, with the seed and the trace.
#[derive(Clone, PartialEq, Eq)]
pub struct Failure {
    report: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}

impl fmt::Debug for Failure {
    /// As displayed, so that a test that returns it prints it readably.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)
    }
}

impl std::error::Error for Failure {}
