//! Names and addresses as cells. What comes from outside is escaped here.

use std::net::IpAddr;

use crate::event::{self, Endpoint, Netns, Owner, Tuple};
use crate::sink::escape::Escaped;
use crate::sink::names;

/// `a → b`
pub(in crate::sink) fn ends(tuple: &Tuple) -> String {
    format!(
        "{} → {}",
        endpoint(&tuple.source),
        endpoint(&tuple.destination)
    )
}

/// Protocol and ends of a dropped packet, and the tunnel it was in.
pub(super) fn packet(drop: &event::Drop) -> String {
    let mut text = match (&drop.tuple, drop.packet.ethertype) {
        (Some(tuple), _) => format!("{} {}", names::protocol(tuple.protocol), ends(tuple)),
        (None, Some(0x0800)) => "ipv4, not readable".to_owned(),
        (None, Some(0x86dd)) => "ipv6, not readable".to_owned(),
        (None, Some(ethertype)) => format!("ethertype 0x{ethertype:04x}"),
        (None, None) => "?".to_owned(),
    };
    if let Some(tunnel) = &drop.tunnel {
        text.push_str(" in ");
        text.push_str(names::tunnel(tunnel.kind));
        if let Some(id) = tunnel.id {
            text.push(' ');
            text.push_str(&id.to_string());
        }
    }
    text
}

fn endpoint(end: &Endpoint) -> String {
    match (end.address.to_canonical(), end.port) {
        (address, None) => address.to_string(),
        (IpAddr::V4(address), Some(port)) => format!("{address}:{port}"),
        (IpAddr::V6(address), Some(port)) => format!("[{address}]:{port}"),
    }
}

/// Its name, or its inode.
pub(in crate::sink) fn netns(netns: &Netns) -> String {
    match &netns.name {
        Some(name) => Escaped(name).to_string(),
        None if netns.inode == 0 => "?".to_owned(),
        None => format!("net:{}", netns.inode),
    }
}

/// The process; failing that, the container or the end of the cgroup's path; else `?`.
pub(in crate::sink) fn owner(owner: &Owner, verbose: bool) -> String {
    if let Some(process) = &owner.process {
        return format!("{}[{}]", Escaped(&process.name), process.pid);
    }
    let container = owner
        .container
        .as_deref()
        .map(|id| id.chars().take(12).collect::<String>());
    let group = owner
        .cgroup
        .as_ref()
        .and_then(|cgroup| cgroup.path.as_deref())
        .map(last_part);
    match (container.or(group), owner.unknown_because) {
        (_, Some(because)) if verbose => format!("? ({because})"),
        (Some(group), _) => format!("? in {}", Escaped(&group)),
        (None, _) => "?".to_owned(),
    }
}

fn last_part(path: &str) -> String {
    path.rsplit('/')
        .find(|part| !part.is_empty())
        .unwrap_or("/")
        .to_owned()
}
