//! One TCP connection through the tunnel, at one side.
//!
//! Is: its states, and how each kind of end goes from one direction to the other. Is not: what each
//! state does (`opening`, `joined`, `passing`).
//!
//! Invariants: after `AbortEndpoint` or `ResetTunnel`, or the end of both directions, nothing comes
//! out any more, and nothing is kept; work for an input is linear in it.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

use tandem_engine::{Engine, PeerId};
use tandem_link::tunnel::{Ending, Malformed, Open, Target};
use tandem_store::{Site, Store};
use tandem_wire::Instant;

use crate::event::{Dropped, Event};
pub use crate::joined::{CLIENT_HOLD, KEY_HOLD, SERVER_HOLD, SILENCE};
use crate::joined::{ClientKeys, Joined};
use crate::opening::{Arriving, Dialling, StreamEnd};
use crate::output::{Clock, Context, Input, Output, Wakeup};
use crate::passing::Passing;
use crate::prefer::Least;
use crate::writer::Handshakes;

/// One TCP connection through the tunnel, at one side.
///
/// An adapter hands in what happens, drains the outputs after each input, and calls at the time
/// that [`Relay::poll_timeout`] says. For back-pressure it does not read from the endpoint while
/// what it was told to send to the tunnel has not gone or [`Relay::wants_endpoint`] says no, and
/// not from the tunnel while what it was told to send to the endpoint has not gone or
/// [`Relay::wants_tunnel`] says no.
#[derive(Debug)]
pub struct Relay {
    state: State,
    handshakes: Handshakes,
    client_keys: ClientKeys,
    /// Whose tunnel it is in.
    peer: PeerId,
    out: VecDeque<Output>,
}

#[derive(Debug)]
enum State {
    /// Server side: the first message is to come.
    Arriving(Arriving),
    /// Server side: the target is being connected to.
    Dialling(Dialling),
    /// There are frames.
    Joined(Box<Joined>),
    /// There are none any more.
    Passing(Passing),
    /// Nothing happens any more.
    Over,
}

impl Relay {
    /// One at the client side, for a client that wants to reach the target of `open`. Where that
    /// may not cross ([`Target::validated`]) the relay is over, and aborts the client.
    pub fn client_side(open: Open, now: Instant) -> Self {
        let mut opening = Vec::new();
        // The site where the client names none. Of a target by name the address is not known at
        // this side; clients that use names name them in the hello as well, but for a few.
        let server = match &open.target {
            Target::Address(address) => *address,
            Target::Name { port, .. } => SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), *port),
        };
        let mut relay = Self {
            state: State::Over,
            handshakes: Handshakes::Shortened,
            client_keys: ClientKeys::AsTold,
            peer: PeerId::OTHER_END,
            out: VecDeque::new(),
        };
        match open.write(&mut opening) {
            Some(()) => {
                let joined = Joined::client_side(server, opening, now);
                relay.state = State::Joined(Box::new(joined));
            }
            None => relay.abort(Ending::Malformed),
        }
        relay
    }

    /// One at the server side; the target comes on the stream, by this time.
    pub fn server_side(deadline: Instant) -> Self {
        Self {
            state: State::Arriving(Arriving::until(deadline)),
            handshakes: Handshakes::Shortened,
            client_keys: ClientKeys::AsTold,
            peer: PeerId::OTHER_END,
            out: VecDeque::new(),
        }
    }

    /// The same at the client side, before anything has happened: where the client at this address
    /// has handed in keys of its handshakes, the next one is offered, at this.
    #[must_use]
    pub fn offering_keys(self, client: IpAddr, least: Least) -> Self {
        self.with_client_keys(ClientKeys::Offered(client, least))
    }

    /// The same at the server side, before anything has happened: a client's key is asked for at
    /// this, whatever it was offered at.
    #[must_use]
    pub fn asking_for_keys(self, least: Least) -> Self {
        self.with_client_keys(ClientKeys::AskedAt(least))
    }

    fn with_client_keys(mut self, client_keys: ClientKeys) -> Self {
        self.client_keys = client_keys;
        self.state = match self.state {
            State::Joined(joined) => State::Joined(Box::new(joined.with_client_keys(client_keys))),
            state @ (State::Arriving(_) | State::Dialling(_) | State::Passing(_) | State::Over) => {
                state
            }
        };
        self
    }

    /// The same, before anything has happened, with handshakes in this form.
    #[must_use]
    pub fn with(mut self, handshakes: Handshakes) -> Self {
        self.handshakes = handshakes;
        self.state = match self.state {
            State::Joined(joined) => State::Joined(Box::new(self.handshakes.of(*joined))),
            state @ (State::Arriving(_) | State::Dialling(_) | State::Passing(_) | State::Over) => {
                state
            }
        };
        self
    }

    /// The same, before anything has happened, in the tunnel of this peer, where there are several.
    #[must_use]
    pub fn of_peer(mut self, peer: PeerId) -> Self {
        self.peer = peer;
        self
    }

    /// Something happened.
    pub fn handle_input<S: Store>(
        &mut self,
        input: Input<'_>,
        engine: &mut Engine<S>,
        clock: Clock,
    ) {
        engine.face(self.peer);
        let done = match (&mut self.state, input) {
            (State::Over, _) => Ok(()),
            (_, Input::EndpointFailed(ending)) => {
                self.reset(ending);
                Ok(())
            }
            (_, Input::TunnelReset(ending)) => {
                self.abort(ending);
                Ok(())
            }
            (State::Arriving(arriving), Input::Tunnel(bytes)) => {
                arriving.read(bytes).map(|opened| {
                    if let Some((open, dialling)) = opened {
                        self.state = State::Dialling(dialling);
                        self.out.push_back(Output::Event(Event::RelayOpened));
                        self.out.push_back(Output::Connect(open));
                    }
                })
            }
            (State::Arriving(_), Input::TunnelEnd) => Err(Malformed),
            (State::Dialling(dialling), Input::Tunnel(bytes)) => {
                dialling.keep(bytes);
                Ok(())
            }
            (State::Dialling(dialling), Input::TunnelEnd) => {
                dialling.end();
                Ok(())
            }
            (State::Dialling(_), Input::Connected(address)) => self.join(address, engine, clock),
            (State::Joined(joined), input) => {
                let cx = &mut Context {
                    engine,
                    clock,
                    out: &mut self.out,
                };
                joined_input(joined, input, cx)
            }
            (State::Passing(passing), input) => {
                passing.handle(input, &mut self.out);
                Ok(())
            }
            // Of an endpoint there is none yet.
            (
                State::Arriving(_) | State::Dialling(_),
                Input::Endpoint(_) | Input::EndpointEnd | Input::Connected(_),
            ) => Ok(()),
        };
        match done {
            Ok(()) => self.settle(),
            Err(Malformed) => self.refuse(),
        }
    }

    /// As [`Relay::handle_input`] of [`Input::Endpoint`], without an engine or a copy, where the
    /// proxies have nothing more to say of the connection.
    ///
    /// # Errors
    /// They have: nothing was done, and the bytes come back.
    pub fn pass_to_tunnel(&mut self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let State::Passing(passing) = &mut self.state else {
            return Err(bytes);
        };
        passing.pass_to_tunnel(bytes, &mut self.out);
        Ok(())
    }

    /// The same of [`Input::Tunnel`].
    ///
    /// # Errors
    /// As there.
    pub fn pass_to_endpoint(&mut self, bytes: Vec<u8>) -> Result<(), Vec<u8>> {
        let State::Passing(passing) = &self.state else {
            return Err(bytes);
        };
        passing.pass_to_endpoint(bytes, &mut self.out);
        Ok(())
    }

    /// The target is connected to: what has come is worked off.
    fn join<S: Store>(
        &mut self,
        address: SocketAddr,
        engine: &mut Engine<S>,
        clock: Clock,
    ) -> Result<(), Malformed> {
        let joined = Joined::server_side(address).with_client_keys(self.client_keys);
        let joined = self.handshakes.of(joined);
        let joined = State::Joined(Box::new(joined));
        let State::Dialling(dialling) = std::mem::replace(&mut self.state, joined) else {
            return Ok(());
        };
        let (kept, end) = dialling.into_parts();
        self.handle_input(Input::Tunnel(&kept), engine, clock);
        if end == StreamEnd::Come {
            self.handle_input(Input::TunnelEnd, engine, clock);
        }
        Ok(())
    }

    /// The time has come that [`Relay::poll_timeout`] said. Too early, nothing happens.
    pub fn handle_timeout<S: Store>(&mut self, engine: &mut Engine<S>, clock: Clock) {
        engine.face(self.peer);
        match &mut self.state {
            State::Arriving(arriving) if arriving.deadline() <= clock.now => {
                self.reset(Ending::TimedOut);
            }
            State::Joined(joined) => {
                let cx = &mut Context {
                    engine,
                    clock,
                    out: &mut self.out,
                };
                joined.timeout(cx);
                joined.flush(cx);
            }
            State::Arriving(_) | State::Dialling(_) | State::Passing(_) | State::Over => {}
        }
        self.settle();
    }

    /// Whom the client asked for: once its hello is whole, until the handshake is over.
    pub fn site(&self) -> Option<Site> {
        match &self.state {
            State::Joined(joined) => joined.site(),
            State::Arriving(_) | State::Dialling(_) | State::Passing(_) | State::Over => None,
        }
    }

    /// What is to be done next.
    pub fn poll_output(&mut self) -> Option<Output> {
        let output = self.out.pop_front();
        if output.is_none() {
            // A queue that was long is not kept.
            self.out = VecDeque::new();
        }
        output
    }

    /// When [`Relay::handle_timeout`] is to be called, and why.
    pub fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        match &self.state {
            State::Arriving(arriving) => Some((arriving.deadline(), Wakeup::Opening)),
            State::Joined(joined) => joined.deadline(),
            State::Dialling(_) | State::Passing(_) | State::Over => None,
        }
    }

    /// Whether the endpoint is to be read from. `false`: what it has sent waits for the peer's
    /// answer, or there is no endpoint.
    pub fn wants_endpoint(&self) -> bool {
        match &self.state {
            State::Joined(joined) => joined.has_room(),
            State::Passing(_) => true,
            State::Arriving(_) | State::Dialling(_) | State::Over => false,
        }
    }

    /// Whether the stream is to be read from. `false`: the target is not connected to, and no more
    /// is kept for it.
    pub fn wants_tunnel(&self) -> bool {
        match &self.state {
            State::Dialling(dialling) => dialling.has_room(),
            State::Arriving(_) | State::Joined(_) | State::Passing(_) => true,
            State::Over => false,
        }
    }

    /// Whether nothing happens any more: the outputs that are left are the last.
    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over)
    }

    /// Bytes of memory in use, about, once the outputs are drained.
    pub fn footprint(&self) -> usize {
        let state = match &self.state {
            State::Dialling(dialling) => dialling.footprint(),
            State::Joined(joined) => size_of::<Joined>() + joined.footprint(),
            State::Arriving(_) | State::Passing(_) | State::Over => 0,
        };
        size_of::<Self>() + state
    }

    /// Goes over to a later state, where there is nothing left to do in this one.
    fn settle(&mut self) {
        if let State::Joined(joined) = &self.state
            && let Some(passing) = joined.passing()
        {
            self.state = State::Passing(passing);
        }
        if let State::Passing(passing) = &self.state
            && passing.is_over()
        {
            self.state = State::Over;
            self.out.push_back(Output::Event(Event::RelayClosed));
        }
    }

    /// The endpoint is gone.
    fn reset(&mut self, ending: Ending) {
        self.end(ending);
        self.out.push_back(Output::ResetTunnel(ending));
    }

    /// The stream is gone.
    fn abort(&mut self, ending: Ending) {
        self.end(ending);
        self.out.push_back(Output::AbortEndpoint(ending));
    }

    /// The peer is not to be believed.
    fn refuse(&mut self) {
        self.end(Ending::Malformed);
        self.out.push_back(Output::ResetTunnel(Ending::Malformed));
        self.out.push_back(Output::AbortEndpoint(Ending::Malformed));
    }

    fn end(&mut self, ending: Ending) {
        if let State::Joined(joined) = std::mem::replace(&mut self.state, State::Over)
            && joined.holds_opened_flight()
        {
            let dropped = Event::OpenedDropped(Dropped::ConnectionEnded);
            self.out.push_back(Output::Event(dropped));
        }
        self.out.push_back(Output::Event(Event::Ended(ending)));
    }
}

impl Handshakes {
    /// A connection with handshakes in this form.
    fn of(self, joined: Joined) -> Joined {
        match self {
            Self::Shortened => joined,
            Self::Whole => joined.unfollowed(),
        }
    }
}

/// What happens to a connection with frames; failures are the relay's.
fn joined_input<S: Store>(
    joined: &mut Joined,
    input: Input<'_>,
    cx: &mut Context<'_, S>,
) -> Result<(), Malformed> {
    match input {
        Input::Endpoint(bytes) => joined.endpoint(bytes, cx),
        Input::EndpointEnd => joined.endpoint_end(cx),
        Input::Tunnel(bytes) => joined.tunnel(bytes, cx)?,
        Input::TunnelEnd => joined.tunnel_end(cx)?,
        Input::Connected(_) | Input::EndpointFailed(_) | Input::TunnelReset(_) => {}
    }
    joined.flush(cx);
    Ok(())
}
