//! Readers of single values: each returns what was meant, or what is wrong with it and how to write it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::SignedDuration;
use probe_common::filter::{self, Masked, PortRange};

/// Largest ring the kernel is asked for.
const MAX_RING_BYTES: u32 = 1 << 30;
/// A multiple of every page size Linux has on supported machines.
const MIN_RING_BYTES: u32 = 64 << 10;
/// Longest interface name (`IFNAMSIZ` − 1).
const MAX_INTERFACE_NAME: usize = 15;

/// A network namespace, as typed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NetnsSpec {
    /// A name below /run/netns.
    Name(String),
    /// The one a process lives in.
    Pid(u32),
    /// A file like /proc/PID/ns/net.
    Path(PathBuf),
}

impl fmt::Display for NetnsSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Pid(pid) => write!(f, "{pid}"),
            Self::Path(path) => write!(f, "{}", path.display()),
        }
    }
}

pub(super) fn ports(text: &str) -> Result<PortRange, String> {
    if text.contains(',') {
        return Err("one port or range at a time; repeat the flag for more".to_owned());
    }
    let (low, high) = text.split_once('-').unwrap_or((text, text));
    let (low, high) = (port(low)?, port(high)?);
    if low > high {
        return Err(format!("the range is upside down; write {high}-{low}"));
    }
    Ok(PortRange { low, high })
}

fn port(text: &str) -> Result<u16, String> {
    match digits(text).and_then(|text| text.parse().ok()) {
        Some(0) | None => {
            Err("a port is a number from 1 to 65535, a range two of them: 8000-8080".to_owned())
        }
        Some(port) => Ok(port),
    }
}

/// An IPv4 prefix becomes `::ffff:a.b.c.d/96+n`. What lies beyond the prefix length is set to 0.
pub(super) fn prefix(text: &str) -> Result<Masked, String> {
    const FORM: &str =
        "write an IPv4 or IPv6 address, or a network as ADDR/LEN: 10.0.0.0/8, 2001:db8::/32";
    let (address, length) = match text.split_once('/') {
        Some((address, length)) => (address, Some(length)),
        None => (text, None),
    };
    if address.contains('%') {
        return Err(
            "an address has no zone here; leave out the % and what follows, and use --interface"
                .to_owned(),
        );
    }
    let address: IpAddr = address.parse().ok().ok_or_else(|| FORM.to_owned())?;
    let most: u8 = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => most,
        Some(length) => digits(length)
            .and_then(|length| length.parse().ok())
            .filter(|length| *length <= most)
            .ok_or_else(|| {
                format!("the prefix length of such an address is a number from 0 to {most}")
            })?,
    };
    let (bytes, ones) = match address {
        IpAddr::V4(v4) => (v4.to_ipv6_mapped().octets(), u32::from(length) + 96),
        IpAddr::V6(v6) => (v6.octets(), u32::from(length)),
    };
    let mask = u128::MAX.checked_shl(128 - ones).unwrap_or(0);
    let network = u128::from_be_bytes(bytes) & mask;
    let v4_space = Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().to_bits();
    if ones < 96 && (v4_space & mask) == network {
        return Err("such a network would hold every IPv4 address as well; write 2000::/3 for all public IPv6".to_owned());
    }
    Ok(Masked {
        value: words(network),
        mask: words(mask),
    })
}

/// A prefix, as it would be typed.
pub(super) fn show_prefix(prefix: &Masked) -> String {
    let network = unwords(prefix.value);
    let ones = unwords(prefix.mask).count_ones();
    let address = std::net::Ipv6Addr::from(network);
    match address.to_ipv4_mapped() {
        Some(v4) if ones == 128 => v4.to_string(),
        Some(v4) if ones >= 96 => format!("{v4}/{}", ones - 96),
        _ if ones == 128 => address.to_string(),
        _ => format!("{address}/{ones}"),
    }
}

/// A port range, as it would be typed.
pub(super) fn show_ports(range: PortRange) -> String {
    if range.low == range.high {
        range.low.to_string()
    } else {
        format!("{}-{}", range.low, range.high)
    }
}

/// A whole interface name: the NUL behind it counts, what lies behind that does not.
pub(super) fn masked_name(name: &str) -> Masked {
    let mut value = [0; 16];
    let mut mask = [0; 16];
    for (slot, byte) in value.iter_mut().zip(name.bytes()) {
        *slot = byte;
    }
    for slot in mask.iter_mut().take(name.len() + 1) {
        *slot = 0xff;
    }
    Masked {
        value: filter::words(&value),
        mask: filter::words(&mask),
    }
}

/// The two words of an address as the kernel programs load them: network byte order in memory.
fn words(address: u128) -> [u64; 2] {
    let half =
        |shift: u32| u64::try_from((address >> shift) & u128::from(u64::MAX)).unwrap_or_default();
    [half(64), half(0)].map(|half| u64::from_ne_bytes(half.to_be_bytes()))
}

fn unwords(words: [u64; 2]) -> u128 {
    let [high, low] = words.map(|word| u128::from(u64::from_be_bytes(word.to_ne_bytes())));
    high << 64 | low
}

pub(super) fn protocol(text: &str) -> Result<u8, String> {
    crate::sink::names::protocol_number(text).ok_or_else(|| {
        "no such transport protocol; write a name (tcp, udp, icmp, icmpv6, sctp, dccp, gre, esp, ipip ...) or its number, 0 to 255"
            .to_owned()
    })
}

pub(super) fn netns(text: &str) -> Result<NetnsSpec, String> {
    if digits(text).is_some() {
        return pid(text).map(NetnsSpec::Pid);
    }
    if text.contains('/') {
        return Ok(NetnsSpec::Path(PathBuf::from(text)));
    }
    if text.is_empty() || text == "." || text == ".." || text.len() > 255 {
        return Err(
            "write a name that `ip netns` lists, the pid of a process in the namespace, or a path: /proc/123/ns/net"
                .to_owned(),
        );
    }
    Ok(NetnsSpec::Name(text.to_owned()))
}

pub(super) fn interface(text: &str) -> Result<String, String> {
    if text.is_empty() || text.len() > MAX_INTERFACE_NAME {
        return Err(format!(
            "an interface name has 1 to {MAX_INTERFACE_NAME} bytes; `ip link` lists them"
        ));
    }
    if text == "."
        || text == ".."
        || text.contains(|c: char| c == '/' || c == ':' || c.is_ascii_whitespace() || c == '\0')
    {
        return Err(
            "no interface can have such a name; `ip link` lists them (one name a flag, no *)"
                .to_owned(),
        );
    }
    Ok(text.to_owned())
}

pub(super) fn pid(text: &str) -> Result<u32, String> {
    digits(text)
        .and_then(|text| text.parse().ok())
        .filter(|pid| (1..=4_194_304).contains(pid))
        .ok_or_else(|| "a pid is a number from 1 to 4194304; `pgrep NAME` finds it".to_owned())
}

pub(super) fn cgroup(text: &str) -> Result<PathBuf, String> {
    if !text.starts_with('/') || text.split('/').any(|part| part == "..") {
        return Err("write the path from the top, as /proc/PID/cgroup shows it: /system.slice/nginx.service".to_owned());
    }
    // People copy the path of the mount as well.
    let below = text
        .strip_prefix("/sys/fs/cgroup")
        .filter(|rest| rest.is_empty() || rest.starts_with('/'));
    Ok(Path::new("/").join(below.unwrap_or(text).trim_start_matches('/')))
}

pub(super) fn duration(text: &str) -> Result<Duration, String> {
    const FORM: &str = "write a time with its units: 30s, 1m30s, 500ms";
    let parsed: SignedDuration = text.parse().ok().ok_or_else(|| FORM.to_owned())?;
    let duration = Duration::try_from(parsed)
        .ok()
        .ok_or_else(|| FORM.to_owned())?;
    if duration < Duration::from_millis(1) {
        return Err("a time of at least 1ms is needed".to_owned());
    }
    Ok(duration)
}

pub(super) fn count(text: &str) -> Result<u64, String> {
    digits(text)
        .and_then(|text| text.parse().ok())
        .filter(|count| *count > 0)
        .ok_or_else(|| "write a whole number from 1 on".to_owned())
}

pub(super) fn max_flows(text: &str) -> Result<usize, String> {
    count(text)
        .ok()
        .and_then(|flows| usize::try_from(flows).ok())
        .filter(|flows| *flows <= 10_000_000)
        .ok_or_else(|| "write a whole number from 1 to 10000000".to_owned())
}

pub(super) fn ring_bytes(text: &str) -> Result<u32, String> {
    let bytes = size(text).ok_or_else(|| "write a size with its unit: 512KiB, 16MiB".to_owned())?;
    u32::try_from(bytes)
        .ok()
        .filter(|bytes| {
            (MIN_RING_BYTES..=MAX_RING_BYTES).contains(bytes) && bytes.is_power_of_two()
        })
        .ok_or_else(|| {
            "the ring needs a power of two from 64KiB to 1GiB: 1MiB, 2MiB, 4MiB, 8MiB, 16MiB ..."
                .to_owned()
        })
}

/// Bytes, or KiB, MiB, GiB (also written K, M, G as most tools here do).
fn size(text: &str) -> Option<u64> {
    let end = text
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(text.len());
    let (number, unit) = text.split_at_checked(end)?;
    let shift = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 0,
        "k" | "kib" => 10,
        "m" | "mib" => 20,
        "g" | "gib" => 30,
        _ => return None,
    };
    digits(number)?.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// Digits only: no sign, no blank.
fn digits(text: &str) -> Option<&str> {
    (!text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_and_ranges() {
        assert_eq!(
            ports("5201"),
            Ok(PortRange {
                low: 5201,
                high: 5201
            })
        );
        assert_eq!(
            ports("8000-8080"),
            Ok(PortRange {
                low: 8000,
                high: 8080
            })
        );
        assert_eq!(
            ports("1-65535"),
            Ok(PortRange {
                low: 1,
                high: 65535
            })
        );
        for bad in [
            "0", "65536", "", "-", "80-", "-80", "+80", "http", "0-10", "1-2-3", " 80",
        ] {
            assert!(ports(bad).unwrap_err().contains("1 to 65535"), "{bad}");
        }
        assert!(ports("90-80").unwrap_err().contains("write 80-90"));
        assert!(ports("80,443").unwrap_err().contains("repeat the flag"));
    }

    fn bytes_of(words: [u64; 2]) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&words[0].to_ne_bytes());
        bytes[8..].copy_from_slice(&words[1].to_ne_bytes());
        bytes
    }

    #[test]
    fn an_ipv4_network_is_a_mapped_one() {
        let network = prefix("10.1.2.3/8").unwrap();
        assert_eq!(
            bytes_of(network.value),
            Ipv4Addr::new(10, 0, 0, 0).to_ipv6_mapped().octets()
        );
        let mut mask = [0xff; 16];
        mask[13..].fill(0);
        assert_eq!(bytes_of(network.mask), mask);
        assert_eq!(
            bytes_of(prefix("0.0.0.0/0").unwrap().value),
            Ipv4Addr::UNSPECIFIED.to_ipv6_mapped().octets()
        );
    }

    #[test]
    fn an_ipv6_network_loses_its_host_part() {
        let network = prefix("2001:db8::1/33").unwrap();
        assert_eq!(bytes_of(network.value)[..4], [0x20, 0x01, 0x0d, 0xb8]);
        assert_eq!(bytes_of(network.value)[4..], [0; 12]);
        assert_eq!(
            bytes_of(network.mask)[..6],
            [0xff, 0xff, 0xff, 0xff, 0x80, 0]
        );
    }

    #[test]
    fn prefixes_are_shown_as_typed() {
        for (typed, shown) in [
            ("10.0.0.1", "10.0.0.1"),
            ("10.1.2.3/8", "10.0.0.0/8"),
            ("0.0.0.0/0", "0.0.0.0/0"),
            ("::1", "::1"),
            ("2001:db8::5/32", "2001:db8::/32"),
            ("::ffff:10.0.0.1", "10.0.0.1"),
            ("::ffff:10.0.0.0/104", "10.0.0.0/8"),
        ] {
            assert_eq!(show_prefix(&prefix(typed).unwrap()), shown);
        }
    }

    #[test]
    fn addresses_that_are_none() {
        for bad in [
            "",
            "10.0.0",
            "10.0.0.1:80",
            "example.org",
            "10.0.0.1/33",
            "::1/129",
            "10.0.0.1/",
            "10.0.0.1/+8",
            "/8",
        ] {
            prefix(bad).unwrap_err();
        }
        assert!(prefix("fe80::1%eth0").unwrap_err().contains("--interface"));
        assert!(prefix("::/0").unwrap_err().contains("IPv4"));
        assert!(prefix("::/64").unwrap_err().contains("IPv4"));
        prefix("2000::/3").unwrap();
    }

    #[test]
    fn namespaces_by_name_pid_or_path() {
        assert_eq!(netns("blue"), Ok(NetnsSpec::Name("blue".into())));
        assert_eq!(netns("1234"), Ok(NetnsSpec::Pid(1234)));
        assert_eq!(
            netns("/proc/1/ns/net"),
            Ok(NetnsSpec::Path("/proc/1/ns/net".into()))
        );
        for bad in ["", ".", "..", "0", "99999999999"] {
            netns(bad).unwrap_err();
        }
    }

    #[test]
    fn interface_names_are_those_the_kernel_allows() {
        assert_eq!(interface("veth0123456789a"), Ok("veth0123456789a".into()));
        assert_eq!(interface("eth0.100"), Ok("eth0.100".into()));
        for bad in ["", "veth0123456789ab", "a b", "a/b", "a:b", "..", "a\n"] {
            interface(bad).unwrap_err();
        }
    }

    #[test]
    fn owners() {
        assert_eq!(pid("1"), Ok(1));
        for bad in ["0", "-1", "4194305", "nginx", ""] {
            pid(bad).unwrap_err();
        }
        assert_eq!(cgroup("/system.slice/a b"), Ok("/system.slice/a b".into()));
        assert_eq!(cgroup("/sys/fs/cgroup/a"), Ok("/a".into()));
        assert_eq!(cgroup("/sys/fs/cgroup"), Ok("/".into()));
        assert_eq!(cgroup("/sys/fs/cgroups"), Ok("/sys/fs/cgroups".into()));
        cgroup("system.slice").unwrap_err();
        cgroup("/a/../b").unwrap_err();
    }

    #[test]
    fn times_have_units() {
        for (text, ms) in [
            ("30s", 30_000),
            ("1m30s", 90_000),
            ("500ms", 500),
            ("2h", 7_200_000),
            ("1.5s", 1_500),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(ms)), "{text}");
        }
        for bad in ["", "30", "0s", "-5s", "5s ago", "soon", "100us"] {
            duration(bad).unwrap_err();
        }
    }

    #[test]
    fn the_ring_is_a_power_of_two() {
        for (text, bytes) in [
            ("16MiB", 16 << 20),
            ("64KiB", 64 << 10),
            ("65536", 64 << 10),
            ("1G", 1 << 30),
            ("8 mib", 8 << 20),
        ] {
            assert_eq!(ring_bytes(text), Ok(bytes), "{text}");
        }
        for bad in [
            "",
            "MiB",
            "32KiB",
            "3MiB",
            "2GiB",
            "16MB",
            "-1",
            "99999999999999999999",
            "18446744073709551615G",
        ] {
            ring_bytes(bad).unwrap_err();
        }
    }

    #[test]
    fn counts_begin_at_one() {
        assert_eq!(count("1"), Ok(1));
        for bad in ["0", "-1", "1.5", ""] {
            count(bad).unwrap_err();
        }
        assert_eq!(max_flows("10000"), Ok(10_000));
        max_flows("10000001").unwrap_err();
    }

    #[test]
    fn protocols_by_name_or_number() {
        assert_eq!(protocol("TCP"), Ok(6));
        assert_eq!(protocol("253"), Ok(253));
        protocol("http").unwrap_err();
    }
}
