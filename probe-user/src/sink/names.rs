//! Numbers that have a name which never changes: IP protocols, errnos, TCP flags, kinds of retransmit and tunnel.

use std::borrow::Cow;

use probe_common::packet::Tunnel;

use crate::event::Kind;

/// IP protocols, as the output and `--proto` spell them. Of two names for one number the first is shown.
const PROTOCOLS: &[(u8, &str)] = &[
    (1, "icmp"),
    (2, "igmp"),
    (4, "ipip"),
    (6, "tcp"),
    (17, "udp"),
    (33, "dccp"),
    (41, "ipv6"),
    (41, "sit"),
    (46, "rsvp"),
    (47, "gre"),
    (50, "esp"),
    (51, "ah"),
    (58, "icmpv6"),
    (58, "icmp6"),
    (58, "ipv6-icmp"),
    (88, "eigrp"),
    (89, "ospf"),
    (103, "pim"),
    (108, "ipcomp"),
    (112, "vrrp"),
    (115, "l2tp"),
    (132, "sctp"),
    (136, "udplite"),
    (137, "mpls"),
    (143, "ethernet"),
];

/// A protocol's name, or its number.
pub fn protocol(number: u8) -> Cow<'static, str> {
    PROTOCOLS
        .iter()
        .find(|(known, _)| *known == number)
        .map_or_else(
            || Cow::Owned(number.to_string()),
            |(_, name)| Cow::Borrowed(*name),
        )
}

/// The number of a protocol given by name (in any case) or number.
pub fn protocol_number(text: &str) -> Option<u8> {
    PROTOCOLS
        .iter()
        .find(|(_, name)| name.eq_ignore_ascii_case(text))
        .map(|(number, _)| *number)
        .or_else(|| text.parse().ok())
}

/// Kinds of retransmit, as the output spells them.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::Syn => "syn",
        Kind::SynAck => "synack",
        Kind::Rto => "rto",
        Kind::Tlp => "tlp",
        Kind::Fast => "fast",
        Kind::RackTimer => "rack_timer",
        Kind::SlowStart => "slow_start",
        Kind::NonCongestion => "non_congestion",
        Kind::TfoFallback => "tfo_fallback",
        Kind::ZeroWindow => "zero_window",
    }
}

/// Kinds of tunnel, as the output spells them.
pub fn tunnel(tunnel: Tunnel) -> &'static str {
    match tunnel {
        Tunnel::Vxlan => "vxlan",
        Tunnel::Geneve => "geneve",
        Tunnel::Gre => "gre",
        Tunnel::Ipip => "ipip",
        Tunnel::Sit => "sit",
    }
}

/// `icsk_ca_state`
pub fn ca_state(number: u8) -> Option<&'static str> {
    Some(match number {
        0 => "open",
        1 => "disorder",
        2 => "cwr",
        3 => "recovery",
        4 => "loss",
        _ => return None,
    })
}

/// TCP flags as letters, lowest bit first: `S`, `SA`, `PA`, `FA`, `R` …; `.` where none is set.
pub fn tcp_flags(flags: u8) -> String {
    if flags == 0 {
        return ".".to_owned();
    }
    "FSRPAUEC"
        .chars()
        .enumerate()
        .filter(|(bit, _)| flags & (1 << bit) != 0)
        .map(|(_, letter)| letter)
        .collect()
}

/// What a retransmit's `error` says: an errno's name, a `NET_XMIT` code's name, or the number.
pub fn error(error: i32) -> Option<Cow<'static, str>> {
    Some(match error {
        0 => return None,
        1 => Cow::Borrowed("NET_XMIT_DROP"),
        2 => Cow::Borrowed("NET_XMIT_CN"),
        _ => usize::try_from(error.unsigned_abs())
            .ok()
            .filter(|_| error < 0)
            .and_then(|number| ERRNOS.get(number))
            .filter(|name| !name.is_empty())
            .map_or_else(
                || Cow::Owned(error.to_string()),
                |name| Cow::Borrowed(*name),
            ),
    })
}

/// include/uapi/asm-generic/errno-base.h and errno.h, as x86, arm64 and riscv have them.
#[rustfmt::skip]
const ERRNOS: [&str; 134] = [
    "", "EPERM", "ENOENT", "ESRCH", "EINTR", "EIO", "ENXIO", "E2BIG", "ENOEXEC", "EBADF", "ECHILD", "EAGAIN", "ENOMEM",
    "EACCES", "EFAULT", "ENOTBLK", "EBUSY", "EEXIST", "EXDEV", "ENODEV", "ENOTDIR", "EISDIR", "EINVAL", "ENFILE",
    "EMFILE", "ENOTTY", "ETXTBSY", "EFBIG", "ENOSPC", "ESPIPE", "EROFS", "EMLINK", "EPIPE", "EDOM", "ERANGE", "EDEADLK",
    "ENAMETOOLONG", "ENOLCK", "ENOSYS", "ENOTEMPTY", "ELOOP", "", "ENOMSG", "EIDRM", "ECHRNG", "EL2NSYNC", "EL3HLT",
    "EL3RST", "ELNRNG", "EUNATCH", "ENOCSI", "EL2HLT", "EBADE", "EBADR", "EXFULL", "ENOANO", "EBADRQC", "EBADSLT", "",
    "EBFONT", "ENOSTR", "ENODATA", "ETIME", "ENOSR", "ENONET", "ENOPKG", "EREMOTE", "ENOLINK", "EADV", "ESRMNT", "ECOMM",
    "EPROTO", "EMULTIHOP", "EDOTDOT", "EBADMSG", "EOVERFLOW", "ENOTUNIQ", "EBADFD", "EREMCHG", "ELIBACC", "ELIBBAD",
    "ELIBSCN", "ELIBMAX", "ELIBEXEC", "EILSEQ", "ERESTART", "ESTRPIPE", "EUSERS", "ENOTSOCK", "EDESTADDRREQ",
    "EMSGSIZE", "EPROTOTYPE", "ENOPROTOOPT", "EPROTONOSUPPORT", "ESOCKTNOSUPPORT", "EOPNOTSUPP", "EPFNOSUPPORT",
    "EAFNOSUPPORT", "EADDRINUSE", "EADDRNOTAVAIL", "ENETDOWN", "ENETUNREACH", "ENETRESET", "ECONNABORTED", "ECONNRESET",
    "ENOBUFS", "EISCONN", "ENOTCONN", "ESHUTDOWN", "ETOOMANYREFS", "ETIMEDOUT", "ECONNREFUSED", "EHOSTDOWN",
    "EHOSTUNREACH", "EALREADY", "EINPROGRESS", "ESTALE", "EUCLEAN", "ENOTNAM", "ENAVAIL", "EISNAM", "EREMOTEIO",
    "EDQUOT", "ENOMEDIUM", "EMEDIUMTYPE", "ECANCELED", "ENOKEY", "EKEYEXPIRED", "EKEYREVOKED", "EKEYREJECTED",
    "EOWNERDEAD", "ENOTRECOVERABLE", "ERFKILL", "EHWPOISON",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_have_names_or_numbers() {
        assert_eq!(protocol(6), "tcp");
        assert_eq!(protocol(58), "icmpv6");
        assert_eq!(protocol(253), "253");
        assert_eq!(protocol_number("UDP"), Some(17));
        assert_eq!(protocol_number("icmp6"), Some(58));
        assert_eq!(protocol_number("253"), Some(253));
        assert_eq!(protocol_number("256"), None);
        assert_eq!(protocol_number("quic"), None);
    }

    #[test]
    fn errors_have_names_or_numbers() {
        for (number, name) in [
            (-1, "EPERM"),
            (-11, "EAGAIN"),
            (-16, "EBUSY"),
            (-90, "EMSGSIZE"),
            (-101, "ENETUNREACH"),
            (-105, "ENOBUFS"),
            (-113, "EHOSTUNREACH"),
            (-133, "EHWPOISON"),
            (1, "NET_XMIT_DROP"),
            (2, "NET_XMIT_CN"),
            (3, "3"),
            (-41, "-41"),
            (-999, "-999"),
            (i32::MIN, "-2147483648"),
        ] {
            assert_eq!(error(number).as_deref(), Some(name));
        }
        assert_eq!(error(0), None);
    }

    #[test]
    fn flags_are_letters() {
        assert_eq!(tcp_flags(0x02), "S");
        assert_eq!(tcp_flags(0x12), "SA");
        assert_eq!(tcp_flags(0x18), "PA");
        assert_eq!(tcp_flags(0x11), "FA");
        assert_eq!(tcp_flags(0xff), "FSRPAUEC");
        assert_eq!(tcp_flags(0), ".");
    }
}
