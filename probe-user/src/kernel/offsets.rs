//! Answers, for the running kernel, where the members lie that the kernel programs read, and which arguments its
//! tracepoints have.

use std::fmt;

use probe_common::offsets::{ABSENT, Features, Member, Need, Offsets, place};

use super::btf::{Btf, BtfError, Place};

/// Members the programs cannot do without and cannot have.
#[derive(Debug)]
pub struct Missing(pub Vec<Gap>);

/// One of them.
#[derive(Debug)]
pub struct Gap {
    /// `struct.member`
    pub path: &'static str,
    /// What is wrong with it.
    pub why: Why,
}

/// What is wrong with a member.
#[derive(Debug)]
pub enum Why {
    /// The kernel has none of that name.
    Absent,
    /// It has fewer bytes than the programs read, or is a bitfield that needs more.
    Misfit {
        /// Bytes it takes.
        has: u32,
        /// Bytes the programs read.
        read: u32,
    },
    /// It lies further from the start of its struct than a place can say.
    TooFar(u32),
    /// The BTF is damaged or contradicts itself.
    Btf(BtfError),
}

impl fmt::Display for Missing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("find members of kernel structs in BTF: ")?;
        for (nth, gap) in self.0.iter().enumerate() {
            let comma = if nth == 0 { "" } else { ", " };
            write!(f, "{comma}{} ", gap.path)?;
            match &gap.why {
                Why::Absent => f.write_str("is not there")?,
                Why::Misfit { has, read } => write!(f, "takes {has} bytes where {read} are read")?,
                Why::TooFar(byte) => write!(f, "lies too far in, at byte {byte}")?,
                Why::Btf(error) => write!(f, "is not readable ({error})")?,
            }
        }
        Ok(())
    }
}

impl std::error::Error for Missing {}

const FIELDS: usize = size_of::<Offsets>() / size_of::<u32>();

/// Looks every member and tracepoint up. `skb_release_data_*` of the features stay 0: they are addresses, not types.
pub fn resolve(btf: &Btf) -> Result<(Offsets, Features), Missing> {
    // A new member must not make the array and the struct disagree; both come from one macro.
    const { assert!(FIELDS == Offsets::MEMBERS.len()) };
    let mut fields = [ABSENT; FIELDS];
    let mut gaps = Vec::new();
    for (field, member) in fields.iter_mut().zip(Offsets::MEMBERS) {
        match find(btf, member) {
            Ok(found) => *field = found,
            // One that some kernels lack is left out as well where it cannot be read: the programs do without it.
            Err(_) if member.need == Need::May => {}
            Err(why) => gaps.push(Gap {
                path: member.path,
                why,
            }),
        }
    }
    if gaps.is_empty() {
        Ok((zerocopy::transmute!(fields), features(btf)))
    } else {
        Err(Missing(gaps))
    }
}

fn find(btf: &Btf, member: &Member) -> Result<u32, Why> {
    let found = btf
        .member(member.path)
        .map_err(Why::Btf)?
        .ok_or(Why::Absent)?;
    let Place {
        byte, bit, width, ..
    } = found;
    // Of a bitfield the programs read the bytes from its first one on, then shift and mask. Of another member that grew
    // they read the first bytes, which are the low ones of an integer: every supported host is little endian.
    let bits = u32::from(bit) + u32::from(width);
    if (width == 0 && found.size < member.size) || bits > member.size * 8 {
        return Err(Why::Misfit {
            has: if width == 0 {
                found.size
            } else {
                bits.div_ceil(8)
            },
            read: member.size,
        });
    }
    let byte = u16::try_from(byte).map_err(|_too_far| Why::TooFar(byte))?;
    Ok(place(byte, bit, width))
}

/// Which arguments the tracepoints have: by position and type, for prototypes are backported to kernels older than the
/// one that had them first.
fn features(btf: &Btf) -> Features {
    let consumed = btf.enum_values("skb_drop_reason").and_then(|values| {
        let (_, value) = values
            .into_iter()
            .find(|(name, _)| name == "SKB_CONSUMED")?;
        u32::try_from(value).ok()
    });
    Features {
        kfree_skb_reason: has_drop_reason(btf).into(),
        kfree_skb_rx_sk: has_arg(btf, "kfree_skb", 3, "struct sock *").into(),
        retransmit_err: has_arg(btf, "tcp_retransmit_skb", 2, "int").into(),
        send_reset_reason: has_arg(btf, "tcp_send_reset", 2, "enum sk_rst_reason").into(),
        reason_consumed: consumed.unwrap_or(0),
        ..Features::default()
    }
}

/// Does `kfree_skb` pass a reason?
pub(super) fn has_drop_reason(btf: &Btf) -> bool {
    has_arg(btf, "kfree_skb", 2, "enum skb_drop_reason")
}

/// `const` comes and goes: `rx_sk` has it since 7.2.
fn has_arg(btf: &Btf, tracepoint: &str, position: usize, c_type: &str) -> bool {
    btf.tracepoint_args(tracepoint)
        .and_then(|mut args| (position < args.len()).then(|| args.swap_remove(position)))
        .is_some_and(|arg| arg.strip_prefix("const ").unwrap_or(&arg) == c_type)
}
