//! The packet parser that the kernel programs and user space share: any bytes, no panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use probe_common::packet::{self, Headers};

fuzz_target!(|data: &[u8]| {
    let Some((hint, packet)) = data.split_first_chunk::<4>() else {
        return;
    };
    walk(packet, u32::from_le_bytes(*hint));
});

/// As the product reads a packet: the outer header, then what it carries or quotes.
fn walk(packet: &[u8], hint: u32) {
    let (_skipped, _ethertype) = packet::skip_vlan(packet, hint as u16);
    let mut at = Some(0);
    for _ in 0..4 {
        let Some(ip) = at.and_then(|at| packet::ip(packet, at)) else {
            return;
        };
        packet::tcp(packet, ip.transport);
        at = packet::encapsulated(packet, &ip, hint)
            .map(|found| found.inner)
            .or_else(|| packet::quoted(packet, &ip));
    }
    // An offset that no header gave.
    packet::ip(packet, hint);
    packet::tcp(packet, hint);
    packet.byte(hint);
}
