//! Engines that do one thing, to see what the adapter makes of it.

use std::collections::VecDeque;
use std::time::Duration;

use tandem_packet::{Direction, Output, Verdict, VerdictToken, Wakeup};
use tandem_packet_io::engine::{Engine, PassThrough};
use tandem_wire::{Edit, Instant, TcpFlags, TcpPacket, UnixTime};

/// The engine of that name.
pub(crate) fn named(name: &str) -> Box<dyn Engine> {
    match name {
        "pass-through" => Box::new(PassThrough::default()),
        name => Box::new(Scripted {
            script: script(name),
            out: VecDeque::new(),
            seen: 0,
        }),
    }
}

fn script(name: &str) -> Script {
    match name {
        "drop-first-data" => Script::DropFirstData,
        "option-on-syn" => Script::OptionOnSyn,
        "swap-case" => Script::SwapCase,
        "leave-with-data" => Script::LeaveWithData,
        "inject-data" => Script::InjectData,
        "inject-all" => Script::InjectAll,
        "keep-all" => Script::KeepAll,
        "slow-start" => Script::SlowStart,
        "panic-on-data" => Script::PanicOnData,
        other => panic!("no such engine: {other}"),
    }
}

#[derive(Debug, Clone, Copy)]
enum Script {
    /// The first packet with data is dropped, its repetition passes.
    DropFirstData,
    /// SYNs get an experimental TCP option (RFC 6994) of 8 bytes.
    OptionOnSyn,
    /// ASCII letters in data towards the link change case.
    SwapCase,
    /// The first packet with data leaves, and its connection with it.
    LeaveWithData,
    /// Packets with data are dropped and injected.
    InjectData,
    /// All packets are dropped and injected.
    InjectAll,
    /// No packet ever gets a verdict.
    KeepAll,
    /// The first packet takes a second and a half.
    SlowStart,
    /// A bug.
    PanicOnData,
}

struct Scripted {
    script: Script,
    out: VecDeque<Output>,
    seen: u64,
}

/// 253 (experiment 1), length 8, an experiment's number, four bytes.
pub(crate) const OPTION: [u8; 8] = [253, 8, 0x7a, 0x6d, 1, 2, 3, 4];

impl Engine for Scripted {
    fn handle_packet(
        &mut self,
        token: VerdictToken,
        direction: Direction,
        bytes: &[u8],
        _: Instant,
        _: UnixTime,
    ) {
        let Ok(packet) = TcpPacket::parse(bytes) else {
            self.out.push_back(Output::Verdict(token, Verdict::Accept));
            return;
        };
        assert!(
            packet.checksums_valid(),
            "the queue hands out packets with valid checksums"
        );
        let has_data = !packet.payload().is_empty();
        let first = self.seen == 0;
        let mut inject = false;
        let verdict = match self.script {
            Script::DropFirstData if has_data && first => {
                self.seen = 1;
                Verdict::Drop
            }
            Script::OptionOnSyn if packet.flags().contains(TcpFlags::SYN) => {
                let options = [packet.options_bytes(), &OPTION].concat();
                let edit = Edit {
                    options: Some(&options),
                    ..Edit::default()
                };
                Verdict::Replace(packet.rebuilt(&edit).expect("there is room for 8 bytes"))
            }
            Script::SwapCase if has_data && direction == Direction::ToLink => {
                let payload: Vec<u8> = packet
                    .payload()
                    .iter()
                    .map(|byte| swap_case(*byte))
                    .collect();
                let edit = Edit {
                    payload: Some(&payload),
                    ..Edit::default()
                };
                Verdict::Replace(packet.rebuilt(&edit).expect("the length stays"))
            }
            Script::LeaveWithData if has_data => Verdict::Leave,
            Script::InjectData => {
                inject = has_data;
                if inject {
                    Verdict::Drop
                } else {
                    Verdict::Accept
                }
            }
            Script::InjectAll => {
                inject = true;
                Verdict::Drop
            }
            Script::KeepAll => return,
            Script::SlowStart if first => {
                self.seen = 1;
                std::thread::sleep(Duration::from_millis(1500));
                Verdict::Accept
            }
            Script::PanicOnData if has_data => panic!("a bug in the engine"),
            Script::DropFirstData
            | Script::OptionOnSyn
            | Script::SwapCase
            | Script::LeaveWithData
            | Script::SlowStart
            | Script::PanicOnData => Verdict::Accept,
        };
        self.out.push_back(Output::Verdict(token, verdict));
        if inject {
            self.out
                .push_back(Output::Inject(direction, bytes.to_vec()));
        }
    }

    fn handle_timeout(&mut self, _: Instant) {}

    fn poll_output(&mut self) -> Option<Output> {
        self.out.pop_front()
    }

    fn poll_timeout(&self) -> Option<(Instant, Wakeup)> {
        None
    }
}

fn swap_case(byte: u8) -> u8 {
    if byte.is_ascii_alphabetic() {
        byte ^ 0x20
    } else {
        byte
    }
}
