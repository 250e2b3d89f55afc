//! One colour, one mark and one name for each arm, the same in every plot and table.
//!
//! Colours are Okabe and Ito's (Color Universal Design, 2008), which most colour-blind readers can
//! tell apart, and a grey for plain; shades of our own for the peers. Marks and labels say the same
//! without colour.

use super::svg::Shape;
use crate::arm::Arm;

/// How an arm looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    /// For areas, lines and marks; never for text.
    pub(crate) colour: &'static str,
    /// For points.
    pub(crate) shape: Shape,
    /// What readers call it.
    pub(crate) label: &'static str,
}

/// An arm's.
pub(crate) fn look(arm: Arm) -> Look {
    match arm {
        Arm::Plain => Look {
            colour: "#7F7F7F",
            shape: Shape::Square,
            label: "plain (routed)",
        },
        Arm::PassThrough => Look {
            colour: "#CC79A7",
            shape: Shape::Diamond,
            label: "pass-through queue",
        },
        Arm::PacketCold => Look {
            colour: "#56B4E9",
            shape: Shape::Ring,
            label: "packet, cold",
        },
        Arm::Packet => Look {
            colour: "#0072B2",
            shape: Shape::Disc,
            label: "packet, warm",
        },
        Arm::PacketCii => Look {
            colour: "#009E73",
            shape: Shape::Wedge,
            label: "packet, announced (cii)",
        },
        Arm::PacketFilter => Look {
            colour: "#882255",
            shape: Shape::Post,
            label: "packet, filter",
        },
        Arm::PacketNone => Look {
            colour: "#D55E00",
            shape: Shape::Plus,
            label: "packet, clients’ chains left",
        },
        Arm::PacketMcveety => Look {
            colour: "#E69F00",
            shape: Shape::Triangle,
            label: "packet, thesis's format",
        },
        Arm::Resumption => Look {
            colour: "#44AA66",
            shape: Shape::SquareRing,
            label: "resumption, ticket",
        },
        Arm::ResumptionId => Look {
            colour: "#F0E442",
            shape: Shape::DiamondRing,
            label: "resumption, session id",
        },
        Arm::PacketResumption => Look {
            colour: "#004A73",
            shape: Shape::TriangleRing,
            label: "resumption, ticket, packet",
        },
        Arm::Tls13 => Look {
            colour: "#333333",
            shape: Shape::Cross,
            label: "TLS 1.3",
        },
        Arm::Rfc8879 => Look {
            colour: "#9C6644",
            shape: Shape::Dash,
            label: "TLS 1.3, RFC 8879",
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_arms_look_alike() {
        for (index, arm) in Arm::ALL.into_iter().enumerate() {
            for other in Arm::ALL.into_iter().skip(index + 1) {
                let (a, b) = (look(arm), look(other));
                assert!(
                    a.colour != b.colour && a.shape != b.shape && a.label != b.label,
                    "{arm:?}, {other:?}"
                );
            }
        }
    }
}
