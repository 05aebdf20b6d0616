//! Packets, built by hand.

/// 10.0.0.`n`, v4-mapped.
pub(crate) fn v4(n: u8) -> [u8; 16] {
    [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, n]
}

/// `fd00::n`
pub(crate) fn v6(n: u8) -> [u8; 16] {
    [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, n]
}

fn be16(length: usize) -> [u8; 2] {
    u16::try_from(length).unwrap().to_be_bytes()
}

/// An IPv4 packet with unusual parts.
pub(crate) struct Build<'a> {
    protocol: u8,
    payload: &'a [u8],
    options: usize,
    fragment: u16,
}

impl<'a> Build<'a> {
    pub(crate) fn v4(protocol: u8, payload: &'a [u8]) -> Self {
        Self {
            protocol,
            payload,
            options: 0,
            fragment: 0,
        }
    }

    /// That many 32-bit words of options.
    pub(crate) fn options(self, options: usize) -> Self {
        Self { options, ..self }
    }

    pub(crate) fn fragment(self, fragment: u16) -> Self {
        Self { fragment, ..self }
    }

    pub(crate) fn bytes(self) -> Vec<u8> {
        let words = u8::try_from(5 + self.options).unwrap();
        let mut packet = vec![0x40 | words, 0];
        packet.extend(be16(20 + self.options * 4 + self.payload.len()));
        packet.extend([0, 1]);
        packet.extend(self.fragment.to_be_bytes());
        packet.extend([64, self.protocol, 0, 0]);
        packet.extend(&v4(1)[12..]);
        packet.extend(&v4(2)[12..]);
        packet.extend(vec![1; self.options * 4]);
        packet.extend(self.payload);
        packet
    }
}

pub(crate) fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    Build::v4(protocol, payload).bytes()
}

pub(crate) fn ipv6(next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend(be16(payload.len()));
    packet.extend([next, 64]);
    packet.extend(v6(1));
    packet.extend(v6(2));
    packet.extend(payload);
    packet
}

/// Two ports and zeros up to `length`.
pub(crate) fn ports(source: u16, destination: u16, length: usize) -> Vec<u8> {
    let mut bytes = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    bytes.resize(length, 0);
    bytes
}

/// seq 11, ack 22, PSH and ACK.
pub(crate) fn tcp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ports(source, destination, 20);
    bytes[7] = 11;
    bytes[11] = 22;
    bytes[12] = 0x50;
    bytes[13] = 0x18;
    bytes.extend(payload);
    bytes
}

pub(crate) fn udp(source: u16, destination: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = ports(source, destination, 8);
    bytes[4..6].copy_from_slice(&be16(8 + payload.len()));
    bytes.extend(payload);
    bytes
}

pub(crate) fn icmp(kind: u8, code: u8, payload: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind, code, 0, 0, 0, 0, 0, 0];
    bytes.extend(payload);
    bytes
}

fn ethertype(packet: &[u8]) -> [u8; 2] {
    if packet[0] >> 4 == 4 {
        [0x08, 0x00]
    } else {
        [0x86, 0xdd]
    }
}

pub(crate) fn ethernet(packet: &[u8], vlan: Option<u8>) -> Vec<u8> {
    let mut frame = vec![2; 12];
    if let Some(id) = vlan {
        frame.extend([0x81, 0x00, 0, id]);
    }
    frame.extend(ethertype(packet));
    frame.extend(packet);
    frame
}

pub(crate) fn vxlan(vni: u8, packet: &[u8], vlan: Option<u8>) -> Vec<u8> {
    let mut bytes = vec![0x08, 0, 0, 0, 0, 0, vni, 0];
    bytes.extend(ethernet(packet, vlan));
    bytes
}

/// `options`: 32-bit words.
pub(crate) fn geneve(vni: u32, options: u8, packet: &[u8]) -> Vec<u8> {
    let mut bytes = vec![options, 0];
    bytes.extend(ethertype(packet));
    bytes.extend(&vni.to_be_bytes()[1..]);
    bytes.push(0);
    bytes.extend(vec![9; usize::from(options) * 4]);
    bytes.extend(packet);
    bytes
}

/// `fields`: key and sequence number; a checksum is put before them if the flags say so.
pub(crate) fn gre(flags: u16, ethertype: u16, fields: &[u8], payload: &[u8]) -> Vec<u8> {
    let mut bytes = [flags.to_be_bytes(), ethertype.to_be_bytes()].concat();
    if flags & 0x8000 != 0 {
        bytes.extend([0; 4]);
    }
    bytes.extend(fields);
    bytes.extend(payload);
    bytes
}
