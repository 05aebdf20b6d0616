//! The command line: exactly what was typed. `config` makes sense of it.
#![expect(clippy::doc_markdown, reason = "these comments are the help texts")]

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

const AFTER_HELP: &str = "\
Examples:
  dropwatch-rs --port 5201                      retransmits and drops of one port, either end
  dropwatch-rs --host 10.0.0.0/8 --proto udp    UDP to or from a network
  dropwatch-rs --only drops --reason 'NETFILTER_*' -o json | jq .source
  dropwatch-rs --netns blue --duration 1m30s    one namespace, for a while
  dropwatch-rs doctor                           can this host be traced?

A flag given several times matches any of its values; different flags must all match.
Filters decide what is shown and summed per flow. The totals are those of the whole host, so
that they can be held against the kernel's own counters.

Exit codes: 0 traced, 1 failed while running, 2 bad command line, 3 this host or user cannot
trace.";

/// Explain every TCP retransmit and every packet the Linux kernel drops.
///
/// Prints one line per event as it happens, and on Ctrl-C (or after --duration or --count) a summary that is held
/// against the kernel's own counters.
#[derive(Clone, Debug, Parser)]
#[command(name = "dropwatch-rs", version, after_help = AFTER_HELP, args_conflicts_with_subcommands = true, disable_help_subcommand = true)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Option<Command>,
    #[command(flatten)]
    pub trace: TraceArgs,
}

/// What else it can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Subcommand)]
pub enum Command {
    /// Tell whether this host can be traced: each finding with its remedy (exit code 0 or 3)
    Doctor,
}

/// How to trace.
#[derive(Args, Clone, Debug, Default)]
pub struct TraceArgs {
    #[command(flatten)]
    pub filters: FilterArgs,
    #[command(flatten)]
    pub output: OutputArgs,
    #[command(flatten)]
    pub limits: LimitArgs,
    #[command(flatten)]
    pub host: HostArgs,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Filters (repeatable)")]
pub struct FilterArgs {
    /// Port at either end: 443, or a range: 8000-8080
    #[arg(long, value_name = "P[-Q]")]
    pub port: Vec<String>,
    /// Port at the source of the packet (of a retransmit: the local end)
    #[arg(long, value_name = "P[-Q]")]
    pub src_port: Vec<String>,
    /// Port at the destination of the packet (of a retransmit: the remote end)
    #[arg(long, value_name = "P[-Q]")]
    pub dst_port: Vec<String>,
    /// Address or network at either end: 10.0.0.1, 10.0.0.0/8, 2001:db8::/32
    #[arg(long, value_name = "ADDR[/LEN]")]
    pub host: Vec<String>,
    /// Address or network of the source
    #[arg(long, value_name = "ADDR[/LEN]")]
    pub src: Vec<String>,
    /// Address or network of the destination
    #[arg(long, value_name = "ADDR[/LEN]")]
    pub dst: Vec<String>,
    /// Transport protocol, by name or number: tcp, udp, icmp, icmpv6, sctp, gre, 253 ...
    #[arg(long, value_name = "PROTO")]
    pub proto: Vec<String>,
    /// Network namespace: its name below /run/netns, a process in it, or a path like /proc/123/ns/net
    #[arg(long, value_name = "NAME|PID|PATH")]
    pub netns: Vec<String>,
    /// Device of a drop: eth0
    #[arg(long, value_name = "NAME")]
    pub interface: Vec<String>,
    /// Process that owns the socket
    #[arg(long, value_name = "PID")]
    pub pid: Vec<String>,
    /// cgroup that owns the socket, and those below it: /system.slice/nginx.service
    #[arg(long, value_name = "PATH")]
    pub cgroup: Vec<String>,
    /// Drop reason, * and ? allowed: SOCKET_RCVBUFF, 'TCP_*' (benign ones are shown as well)
    #[arg(long, value_name = "GLOB")]
    pub reason: Vec<String>,
    /// Drop reason that is not to be shown, * and ? allowed
    #[arg(long, value_name = "GLOB")]
    pub exclude_reason: Vec<String>,
    /// Show one kind of event only
    #[arg(long, value_name = "WHAT")]
    pub only: Option<Only>,
    /// Also show drops that are normally benign (they are always counted)
    #[arg(long)]
    pub all: bool,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Output")]
pub struct OutputArgs {
    /// Lines for people, or JSON Lines for programs
    #[arg(short, long, value_name = "FORMAT", value_enum, default_value_t)]
    pub output: Format,
    /// Colours; auto: when stdout is a terminal and NO_COLOR is not set
    #[arg(long, value_name = "WHEN", value_enum, default_value_t)]
    pub color: Color,
    /// Debug messages of the kernel programs, and why an owner is unknown
    #[arg(short, long)]
    pub verbose: bool,
    /// Print a summary so far that often: 10s, 1m (SIGUSR1 asks for one at any time)
    #[arg(long, value_name = "TIME")]
    pub interval: Option<String>,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Limits")]
pub struct LimitArgs {
    /// Stop after that time: 30s, 1m30s, 500ms
    #[arg(long, value_name = "TIME")]
    pub duration: Option<String>,
    /// Stop after that many shown events
    #[arg(long, value_name = "N")]
    pub count: Option<String>,
    /// Keep that many flows at most [default: 10000]
    #[arg(long, value_name = "N")]
    pub max_flows: Option<String>,
    /// Size of the ring buffer for details, a power of two: 64KiB to 1GiB [default: 2MiB]
    #[arg(long, value_name = "SIZE")]
    pub ring_size: Option<String>,
}

#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Host")]
pub struct HostArgs {
    /// Create this file (empty) once every probe is attached
    #[arg(long, value_name = "PATH")]
    pub ready_file: Option<PathBuf>,
    /// In a container: where the host's /proc is mounted [default: /proc]
    #[arg(long, value_name = "PATH")]
    pub proc: Option<PathBuf>,
    /// In a container: where the host's /run/netns is mounted [default: /run/netns]
    #[arg(long, value_name = "PATH")]
    pub run_netns: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Only {
    Retransmits,
    Drops,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Format {
    #[default]
    Human,
    Json,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;
    use clap::error::ErrorKind;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("dropwatch-rs").chain(line.split_whitespace()))
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn nothing_typed_is_nothing_set() {
        let cli = parse("").unwrap();
        assert_eq!(cli.command, None);
        assert!(cli.trace.filters.port.is_empty());
        assert_eq!(cli.trace.output.output, Format::Human);
        assert_eq!(cli.trace.output.color, Color::Auto);
        assert_eq!(cli.trace.limits.ring_size, None);
    }

    #[test]
    fn every_flag_of_the_contract_is_known() {
        let cli = parse(
            "--port 5201 --port 80-90 --src-port 1 --dst-port 2 --host 10.0.0.1 --src ::1 --dst 10.0.0.0/8 --proto tcp \
             --netns blue --interface eth0 --pid 1 --cgroup /a --reason TCP_* --exclude-reason NO_SOCKET --only drops --all \
             -o json --color never -v --interval 10s --duration 30s --count 5 --max-flows 7 --ring-size 16MiB \
             --proc /host/proc --run-netns /host/run/netns --ready-file /tmp/ready",
        )
        .unwrap();
        assert_eq!(cli.trace.filters.port, ["5201", "80-90"]);
        assert_eq!(cli.trace.filters.only, Some(Only::Drops));
        assert_eq!(cli.trace.output.output, Format::Json);
        assert_eq!(cli.trace.limits.count.as_deref(), Some("5"));
        assert_eq!(cli.trace.host.ready_file, Some(PathBuf::from("/tmp/ready")));
    }

    #[test]
    fn doctor_stands_alone() {
        assert_eq!(parse("doctor").unwrap().command, Some(Command::Doctor));
        assert_eq!(parse("--port 5201 doctor").unwrap_err().exit_code(), 2);
    }

    #[test]
    fn a_bad_command_line_exits_with_2() {
        for line in [
            "--bogus",
            "--port",
            "-o xml",
            "--only resets",
            "5201",
            "--color sometimes",
            "--duration 1s --duration 2s",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn what_comes_later_is_not_offered() {
        for line in [
            "--record x",
            "--pcapng x",
            "--prometheus x",
            "--max-overhead 1%",
            "report",
        ] {
            assert_eq!(parse(line).unwrap_err().exit_code(), 2, "{line}");
        }
    }

    #[test]
    fn help_and_version_are_no_errors() {
        for (line, kind) in [
            ("--help", ErrorKind::DisplayHelp),
            ("--version", ErrorKind::DisplayVersion),
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!((error.kind(), error.exit_code()), (kind, 0));
        }
    }

    #[test]
    fn the_help_text() {
        insta::assert_snapshot!(Cli::command().term_width(110).render_help());
    }
}
