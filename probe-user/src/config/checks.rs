//! One rule a function; a refusal names the flag, the value and the remedy.

use probe_common::filter::MAX_VALUES;
use probe_common::packet::{has_ports, protocol};

use super::{
    DEFAULT_MAX_FLOWS, DEFAULT_RING_BYTES, Environment, FilterConfig, Limits, Only, values,
};
use crate::cli::{Color, FilterArgs, Format, LimitArgs, OutputArgs};
use crate::exit::Usage;
use crate::sink::{OutputConfig, names};

/// A retransmit has no drop reason and no interface, and is always TCP.
pub(super) fn check_only_retransmits(
    filter: &FilterConfig,
    args: &FilterArgs,
) -> Result<(), Usage> {
    if filter.only != Some(Only::Retransmits) {
        return Ok(());
    }
    let of_drops = [
        ("--reason", args.reason.first()),
        ("--exclude-reason", args.exclude_reason.first()),
        ("--interface", args.interface.first()),
    ];
    for (flag, value) in of_drops {
        if let Some(value) = value {
            return Err(Usage(format!(
                "--only retransmits with {flag} {value}: a retransmit has neither reason nor interface, only drops do; leave out one of them"
            )));
        }
    }
    if filter.all {
        return Err(Usage(
            "--only retransmits with --all: only drops can be benign; leave out one of them"
                .to_owned(),
        ));
    }
    if !filter.protocols.is_empty() && !filter.protocols.contains(&protocol::TCP) {
        let value = args.proto.first().map_or("", String::as_str);
        return Err(Usage(format!(
            "--only retransmits with --proto {value}: only TCP retransmits are traced; leave out one of them, or add --proto tcp"
        )));
    }
    Ok(())
}

/// Without this, `--proto icmp --port 80` would quietly show nothing.
pub(super) fn check_protocols_have_ports(filter: &FilterConfig) -> Result<(), Usage> {
    let wants_ports = !(filter.ports.is_empty()
        && filter.source_ports.is_empty()
        && filter.destination_ports.is_empty());
    if !wants_ports
        || filter.protocols.is_empty()
        || filter.protocols.iter().any(|number| has_ports(*number))
    {
        return Ok(());
    }
    let names: Vec<_> = filter
        .protocols
        .iter()
        .map(|number| names::protocol(*number))
        .collect();
    Err(Usage(format!(
        "--proto {} with a port: such packets have no ports; leave out the port, or add --proto tcp or udp",
        names.join(", ")
    )))
}

pub(super) fn check_limits(args: &LimitArgs) -> Result<Limits, Usage> {
    Ok(Limits {
        duration: optional("--duration", args.duration.as_deref(), values::duration)?,
        count: optional("--count", args.count.as_deref(), values::count)?,
        max_flows: optional("--max-flows", args.max_flows.as_deref(), values::max_flows)?
            .unwrap_or(DEFAULT_MAX_FLOWS),
        ring_bytes: optional("--ring-size", args.ring_size.as_deref(), values::ring_bytes)?
            .unwrap_or(DEFAULT_RING_BYTES),
    })
}

pub(super) fn check_output(args: &OutputArgs, environment: &Environment) -> OutputConfig {
    let color = match args.color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => environment.stdout_is_terminal && !environment.no_color,
    };
    OutputConfig {
        format: args.output,
        color: color && args.output == Format::Human,
        width: environment
            .columns
            .filter(|_| environment.stdout_is_terminal)
            .map(usize::from),
        time_zone: environment.time_zone.clone(),
        verbose: args.verbose,
    }
}

pub(super) fn each<T>(
    flag: &str,
    texts: &[String],
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<T>, Usage> {
    check_number_of_values(flag, texts)?;
    texts.iter().map(|text| one(flag, text, &read)).collect()
}

pub(super) fn optional<T>(
    flag: &str,
    text: Option<&str>,
    read: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, Usage> {
    text.map(|text| one(flag, text, &read)).transpose()
}

fn one<T>(flag: &str, text: &str, read: &impl Fn(&str) -> Result<T, String>) -> Result<T, Usage> {
    read(text).map_err(|remedy| {
        let shown = if text.is_empty() { "''" } else { text };
        Usage(format!("{flag} {shown}: {remedy}"))
    })
}

fn check_number_of_values(flag: &str, texts: &[String]) -> Result<(), Usage> {
    match texts.get(MAX_VALUES) {
        None => Ok(()),
        Some(first_too_many) => Err(Usage(format!(
            "{flag} {first_too_many}: {} values, but the kernel programs compare {MAX_VALUES} at most; use ranges, networks or * to say it with fewer, or leave the flag out",
            texts.len()
        ))),
    }
}
