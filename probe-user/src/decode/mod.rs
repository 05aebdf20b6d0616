//! Bytes → raw records → events. Takes any bytes without a panic; says nothing that is not in the record.

mod drop;
mod names;
mod packet;
mod tcp;
mod tuple;

use std::error::Error;
use std::fmt;

use probe_common::pod::read_pod;
use probe_common::{
    ABI_VERSION, Class, Header, RawDrop, RawFlowEnd, RawReset, RawRetransmit, RawSample, RawSock,
    RecordKind,
};

use self::names::Names;
use crate::event::{
    Body, Cause, Cgroup, Direction, Event, EventTime, Outcome, Owner, Reset, Retransmit, Sample,
    SocketId, TcpState, Verdict,
};

/// Why no cause is given: there is no stage that judges.
pub const NOT_JUDGED: &str = "not judged";

/// Reason of a drop for which the kernel gives none.
pub const NOT_SPECIFIED: &str = "NOT_SPECIFIED";

/// Wall-clock time of a moment.
pub trait WallClock {
    /// `CLOCK_BOOTTIME` ns → ns since 1970-01-01T00:00:00Z.
    fn wall_ns(&self, ktime_ns: u64) -> i64;
}

impl<F: Fn(u64) -> i64> WallClock for F {
    fn wall_ns(&self, ktime_ns: u64) -> i64 {
        self(ktime_ns)
    }
}

/// Why bytes are no event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// Fewer bytes than the record has.
    Short { need: usize, got: usize },
    /// No such record.
    UnknownKind(u16),
    /// Written by the programs of another version.
    WrongAbi(u16),
    /// A field holds what it cannot hold.
    BadField(&'static str),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { need, got } => write!(f, "record of {got} bytes, {need} needed"),
            Self::UnknownKind(kind) => write!(f, "unknown record kind {kind}"),
            Self::WrongAbi(abi) => write!(
                f,
                "record of version {abi}, this program reads version {ABI_VERSION}"
            ),
            Self::BadField(field) => write!(f, "record with an impossible {field}"),
        }
    }
}

impl Error for DecodeError {}

/// An event, and what later stages need to name it but nobody is shown.
#[derive(Clone, Debug, PartialEq)]
pub struct Decoded {
    pub event: Event,
    /// The filters could not decide in the kernel: user space must.
    pub undecided: bool,
    pub hints: Hints,
}

/// Facts that only become meaningful with names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    /// The kernel gave a reason (of a drop: from Linux 5.17 on; of a sent reset: from 6.10 on).
    pub reason: Option<u32>,
    /// The kernel did not say whether the attempt was counted: `outcome` is a guess.
    pub outcome_unsure: bool,
    /// `dst_entry.input` of the packet's route, 0 if none.
    pub route_input: u64,
    /// Interface the packet came in by, 0 for packets of this host.
    pub iif: u32,
    /// Interface of the drop, 0 if not known.
    pub ifindex: u32,
    /// `skb->pkt_type`
    pub packet_type: u8,
    /// Equal for clones of one packet.
    pub packet_id: u64,
}

/// Turns records into events.
#[derive(Debug)]
pub struct Decoder {
    hz: Option<u32>,
    next_retransmit: u64,
    names: Names,
}

impl Decoder {
    /// `hz`: the kernel's ticks per second, if they could be measured.
    pub fn new(hz: Option<u32>) -> Self {
        Self {
            hz: hz.filter(|&hz| hz != 0),
            next_retransmit: 1,
            names: Names::default(),
        }
    }

    /// The event in the record `bytes`. Retransmits are numbered from 1 in the order they are decoded.
    pub fn decode<C: WallClock + ?Sized>(
        &mut self,
        bytes: &[u8],
        clock: &C,
    ) -> Result<Decoded, DecodeError> {
        let header: Header = record(bytes)?;
        if header.abi != ABI_VERSION {
            return Err(DecodeError::WrongAbi(header.abi));
        }
        let kind =
            RecordKind::from_number(header.kind).ok_or(DecodeError::UnknownKind(header.kind))?;
        let (body, undecided, hints) = match kind {
            RecordKind::Drop => self.drop(&record(bytes)?),
            RecordKind::Retransmit => self.retransmit(&record(bytes)?)?,
            RecordKind::Reset => self.reset(&record(bytes)?),
            RecordKind::Sample => {
                let raw: RawSample = record(bytes)?;
                (
                    Body::Sample(self.sample(&raw.sock, &raw.tcp)?),
                    false,
                    Hints::default(),
                )
            }
            RecordKind::FlowEnd => {
                let raw: RawFlowEnd = record(bytes)?;
                (
                    Body::FlowEnd(self.sample(&raw.sock, &raw.tcp)?),
                    false,
                    Hints::default(),
                )
            }
        };
        let time = EventTime {
            ktime_ns: header.ktime_ns,
            wall_ns: clock.wall_ns(header.ktime_ns),
        };
        Ok(Decoded {
            event: Event {
                time,
                cpu: header.cpu,
                body,
            },
            undecided,
            hints,
        })
    }

    fn drop(&mut self, raw: &RawDrop) -> (Body, bool, Hints) {
        let body = Body::Drop(Box::new(drop::drop(raw, &mut self.names)));
        (body, raw.flags & RawDrop::UNDECIDED != 0, drop::hints(raw))
    }

    fn retransmit(&mut self, raw: &RawRetransmit) -> Result<(Body, bool, Hints), DecodeError> {
        let kind =
            Class::from_number(raw.class).ok_or(DecodeError::BadField("class of retransmit"))?;
        let outcome = Outcome::from_number(raw.outcome)
            .ok_or(DecodeError::BadField("outcome of retransmit"))?;
        let tuple = tuple::of_socket(&raw.sock.tuple)
            .ok_or(DecodeError::BadField("tuple of retransmit"))?;
        let has_tcp = raw.flags & RawRetransmit::HAS_TCP != 0;
        let id = self.next_retransmit;
        self.next_retransmit += 1;
        let body = Body::Retransmit(Box::new(Retransmit {
            id,
            netns: tuple::netns(raw.sock.netns),
            tuple,
            socket: socket_id(&raw.sock),
            owner: owner(&raw.sock),
            kind,
            outcome,
            error: raw.error,
            attempt: (raw.attempt != 0).then_some(raw.attempt),
            state: TcpState(raw.sock.state),
            seq: raw.seq,
            end_seq: raw.end_seq,
            segments: raw.segments,
            bytes: raw.bytes,
            tcp: has_tcp.then(|| Box::new(tcp::info(&raw.tcp, self.hz, &mut self.names))),
            verdict: Verdict {
                cause: Cause::Inconclusive,
                why: Some(NOT_JUDGED),
            },
        }));
        let hints = Hints {
            outcome_unsure: raw.flags & RawRetransmit::OUTCOME_UNSURE != 0,
            ..Hints::default()
        };
        Ok((body, raw.flags & RawRetransmit::UNDECIDED != 0, hints))
    }

    fn reset(&mut self, raw: &RawReset) -> (Body, bool, Hints) {
        let has_reason = raw.flags & RawReset::HAS_REASON != 0;
        let body = Body::Reset(Box::new(Reset {
            netns: tuple::netns_or(raw.netns, &raw.sock),
            tuple: tuple::of_socket(&raw.tuple).or_else(|| tuple::of_socket(&raw.sock.tuple)),
            direction: if raw.flags & RawReset::SENT != 0 {
                Direction::Transmit
            } else {
                Direction::Receive
            },
            reason: has_reason.then(|| self.names.number(raw.reason)),
            state: (raw.sock.present != RawSock::PRESENT_NONE).then_some(TcpState(raw.sock.state)),
            socket: (raw.sock.present != RawSock::PRESENT_NONE).then(|| socket_id(&raw.sock)),
            owner: owner(&raw.sock),
        }));
        (
            body,
            false,
            Hints {
                reason: has_reason.then_some(raw.reason),
                ..Hints::default()
            },
        )
    }

    fn sample(
        &mut self,
        sock: &RawSock,
        tcp: &probe_common::RawTcp,
    ) -> Result<Box<Sample>, DecodeError> {
        Ok(Box::new(Sample {
            netns: tuple::netns(sock.netns),
            tuple: tuple::of_socket(&sock.tuple).ok_or(DecodeError::BadField("tuple of sample"))?,
            socket: socket_id(sock),
            owner: owner(sock),
            tcp: tcp::info(tcp, self.hz, &mut self.names),
        }))
    }
}

fn record<T: zerocopy::FromBytes>(bytes: &[u8]) -> Result<T, DecodeError> {
    read_pod(bytes).ok_or(DecodeError::Short {
        need: size_of::<T>(),
        got: bytes.len(),
    })
}

fn socket_id(sock: &RawSock) -> SocketId {
    SocketId {
        cookie: (sock.cookie != 0).then_some(sock.cookie),
        inode: (sock.inode != 0).then_some(sock.inode),
        cgroup_id: (sock.cgroup_id != 0).then_some(sock.cgroup_id),
        address: sock.address,
    }
}

fn owner(sock: &RawSock) -> Owner {
    let cgroup = (sock.cgroup_id != 0).then_some(Cgroup {
        id: sock.cgroup_id,
        path: None,
    });
    Owner {
        cgroup,
        ..Owner::default()
    }
}

/// Decodes any bytes as any record; the result is of no interest, only that there is one.
pub fn fuzz(data: &[u8]) {
    let mut decoder = Decoder::new(Some(250));
    let clock = |ktime: u64| ktime.cast_signed();
    let as_given = decoder.decode(data, &clock);
    // With the header made right, so that the records behind it are reached.
    let mut bytes = data.to_vec();
    bytes.resize(1024, 0);
    for kind in 1..=5_u16 {
        for (to, from) in bytes.iter_mut().zip(
            kind.to_ne_bytes()
                .into_iter()
                .chain(ABI_VERSION.to_ne_bytes()),
        ) {
            *to = from;
        }
        std::hint::black_box(decoder.decode(&bytes, &clock).is_ok());
    }
    std::hint::black_box(as_given.is_ok());
}

#[cfg(test)]
mod tests;
