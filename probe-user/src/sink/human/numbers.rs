//! The two or three numbers that matter for that kind of event.

use crate::event::{Drop, Kind, Outcome, Retransmit, TcpInfo, TcpState};
use crate::sink::escape::Escaped;
use crate::sink::names;
use crate::sink::time::span_us;

pub(super) fn retransmit(retransmit: &Retransmit) -> String {
    let mut parts = Vec::with_capacity(4);
    if retransmit.outcome != Outcome::Sent {
        parts.push(match names::error(retransmit.error) {
            Some(error) => format!("not sent: {error}"),
            None => "not sent".to_owned(),
        });
    }
    let tcp = retransmit.tcp.as_deref();
    match retransmit.kind {
        Kind::Syn | Kind::SynAck | Kind::Rto | Kind::ZeroWindow => {
            parts.extend(retransmit.attempt.map(|attempt| format!("#{attempt}")));
            parts.extend(
                tcp.and_then(|tcp| tcp.rto_us)
                    .map(|rto| format!("rto {}", span_us(rto))),
            );
            match retransmit.kind {
                Kind::Rto => parts.push(segment(retransmit)),
                Kind::ZeroWindow => parts.extend(tcp.map(|tcp| format!("window {}", tcp.snd_wnd))),
                _ => {}
            }
        }
        Kind::Tlp => {
            parts.push(segment(retransmit));
            parts.extend(tcp.and_then(srtt));
        }
        Kind::Fast | Kind::RackTimer | Kind::SlowStart => {
            parts.push(segment(retransmit));
            parts.extend(tcp.map(window));
            parts.extend(tcp.and_then(srtt));
        }
        Kind::NonCongestion => {
            parts.push(segment(retransmit));
            parts.extend(tcp.map(|tcp| format!("mss {} pmtu {}", tcp.mss, tcp.pmtu)));
        }
        Kind::TfoFallback => parts.push(segment(retransmit)),
    }
    parts.join(" ")
}

/// How much is sent again. Where in the stream it lies is for programs: `-o json`.
fn segment(retransmit: &Retransmit) -> String {
    if retransmit.segments > 1 {
        format!("{} B in {}", retransmit.bytes, retransmit.segments)
    } else {
        format!("{} B", retransmit.bytes)
    }
}

fn window(tcp: &TcpInfo) -> String {
    match tcp.ssthresh {
        Some(ssthresh) => format!("cwnd {}→{ssthresh}", tcp.cwnd),
        None => format!("cwnd {}", tcp.cwnd),
    }
}

fn srtt(tcp: &TcpInfo) -> Option<String> {
    tcp.srtt_us
        .map(|srtt| format!("srtt {}", span_us(u64::from(srtt))))
}

pub(super) fn drop(drop: &Drop) -> String {
    let mut parts = Vec::with_capacity(5);
    match full_buffer(drop) {
        Some(text) => parts.push(text),
        None => packet(drop, &mut parts),
    }
    if let Some(symbol) = &drop.location.symbol {
        parts.push(Escaped(symbol).to_string());
    } else if drop.location.address != 0 {
        parts.push(format!("0x{:x}", drop.location.address));
    }
    if let Some(interface) = &drop.interface {
        parts.push(match &interface.name {
            Some(name) => Escaped(name).to_string(),
            None => format!("#{}", interface.index),
        });
    }
    parts.join(" ")
}

/// Where a queue was full, how full.
fn full_buffer(drop: &Drop) -> Option<String> {
    let socket = drop.socket.filter(|socket| socket.is_receiver)?;
    let buffers = socket.buffers?;
    match drop.reason.name.as_ref() {
        "SOCKET_RCVBUFF" | "PROTO_MEM" => Some(format!(
            "queue {}/{} B",
            buffers.receive_queue_bytes, buffers.receive_buffer_bytes
        )),
        "SOCKET_BACKLOG" => Some(format!("backlog {} B", buffers.backlog_bytes)),
        "TCP_LISTEN_OVERFLOW" => Some(format!(
            "accept queue {}/{}",
            buffers.accept_queue?, buffers.accept_queue_max?
        )),
        _ => None,
    }
}

fn packet(drop: &Drop, parts: &mut Vec<String>) {
    parts.push(format!("{} B", drop.packet.length));
    if drop.packet.segments > 1 {
        parts.push(format!("{} segments", drop.packet.segments));
    }
    parts.extend(drop.packet.tcp.map(|tcp| names::tcp_flags(tcp.flags)));
    parts.extend(
        drop.packet
            .icmp
            .map(|icmp| format!("type {} code {}", icmp.kind, icmp.code)),
    );
    if drop.reason.name.starts_with("TCP_") {
        let state = drop
            .socket
            .and_then(|socket| socket.state)
            .and_then(TcpState::name);
        parts.extend(state.map(str::to_owned));
    }
}
