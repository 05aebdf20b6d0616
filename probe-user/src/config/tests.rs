use clap::Parser as _;
use probe_common::{RawAddress, RawTuple};

use super::*;
use crate::cli::Cli;

fn resolve_in(line: &str, environment: &Environment) -> Result<Config, Usage> {
    let cli = Cli::try_parse_from(std::iter::once("dropwatch-rs").chain(line.split_whitespace()))
        .unwrap();
    Config::resolve(&cli.trace, environment)
}

fn resolve(line: &str) -> Config {
    resolve_in(line, &Environment::plain()).unwrap()
}

fn refusal(line: &str) -> String {
    resolve_in(line, &Environment::plain()).unwrap_err().0
}

fn terminal() -> Environment {
    Environment {
        stdout_is_terminal: true,
        columns: Some(100),
        ..Environment::plain()
    }
}

#[test]
fn nothing_typed_shows_everything() {
    let config = resolve("");
    assert_eq!(config.filter, FilterConfig::default());
    assert_eq!(config.filters(), Filters::NONE);
    assert_eq!(
        config.limits,
        Limits {
            duration: None,
            count: None,
            max_flows: 10_000,
            ring_bytes: 2 << 20
        }
    );
    assert_eq!(config.host.proc, PathBuf::from("/proc"));
    assert_eq!(config.host.run_netns, PathBuf::from("/run/netns"));
    assert!(config.filter.shown().is_empty());
}

#[test]
fn the_kernel_form_says_what_was_typed() {
    let filters = resolve("--port 5201 --port 80-90 --host 10.0.0.0/8 --dst 2001:db8::/32 --proto tcp --interface eth0").filters();
    let tuple = |source: RawAddress, destination, source_port, destination_port| RawTuple {
        source,
        destination,
        source_port,
        destination_port,
        protocol: 6,
        version: 6,
        flags: RawTuple::HAS_PORTS,
        reserved: 0,
    };
    let v6 = RawAddress::from_halves([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0, 0, 1]);
    assert!(filters.matches_tuple(&tuple(RawAddress::mapped([10, 1, 2, 3]), v6, 85, 1)));
    assert!(!filters.matches_tuple(&tuple(RawAddress::mapped([10, 1, 2, 3]), v6, 91, 1)));
    assert!(!filters.matches_tuple(&tuple(RawAddress::mapped([11, 1, 2, 3]), v6, 85, 1)));
    assert!(!filters.matches_tuple(&tuple(
        RawAddress::mapped([10, 1, 2, 3]),
        RawAddress::mapped([1, 2, 3, 4]),
        85,
        1
    )));
    assert!(!filters.matches_tuple(&RawTuple {
        protocol: 17,
        ..tuple(RawAddress::mapped([10, 1, 2, 3]), v6, 85, 1)
    }));
    assert!(filters.matches_interface(b"eth0\0\0\0\0\0\0\0\0\0\0\0\0"));
    assert!(!filters.matches_interface(b"eth01\0\0\0\0\0\0\0\0\0\0\0"));
    assert_eq!((filters.needs_tuple, filters.by_owner), (1, 0));
}

#[test]
fn flags_of_the_kernel_form() {
    let flags = |line: &str| {
        let filters = resolve(line).filters();
        (
            filters.needs_tuple,
            filters.by_owner,
            filters.no_drops,
            filters.no_retransmits,
        )
    };
    assert_eq!(flags("--only drops"), (0, 0, 0, 1));
    assert_eq!(flags("--only retransmits"), (0, 0, 1, 0));
    assert_eq!(flags("--pid 1"), (0, 1, 0, 0));
    assert_eq!(flags("--cgroup /a"), (0, 1, 0, 0));
    assert_eq!(flags("--netns blue --exclude-reason TCP_*"), (0, 0, 0, 0));
    // Only drops have an interface or a reason.
    assert_eq!(flags("--interface lo"), (0, 0, 0, 1));
    assert_eq!(flags("--reason TCP_*"), (0, 0, 0, 1));
    let no_resets = |line: &str| resolve(line).filters().no_resets;
    assert_eq!(no_resets("--only retransmits"), 1);
    assert_eq!(no_resets("--reason TCP_*"), 1);
    assert_eq!(no_resets("--port 80"), 0);
    for line in [
        "--src-port 1",
        "--dst-port 1",
        "--host ::1",
        "--src ::1",
        "--dst ::1",
        "--proto udp",
    ] {
        assert_eq!(flags(line), (1, 0, 0, 0), "{line}");
    }
}

#[test]
fn a_refusal_names_flag_value_and_remedy() {
    for (line, said) in [
        (
            "--port 0",
            "--port 0: a port is a number from 1 to 65535, a range two of them: 8000-8080",
        ),
        (
            "--src-port 9-3",
            "--src-port 9-3: the range is upside down; write 3-9",
        ),
        (
            "--dst-port x",
            "--dst-port x: a port is a number from 1 to 65535, a range two of them: 8000-8080",
        ),
        (
            "--interval 0s",
            "--interval 0s: a time of at least 1ms is needed",
        ),
        (
            "--duration 30",
            "--duration 30: write a time with its units: 30s, 1m30s, 500ms",
        ),
        ("--count 0", "--count 0: write a whole number from 1 on"),
        (
            "--pid me",
            "--pid me: a pid is a number from 1 to 4194304; `pgrep NAME` finds it",
        ),
    ] {
        assert_eq!(refusal(line), said);
    }
    for flag in [
        "--host",
        "--src",
        "--dst",
        "--proto",
        "--max-flows",
        "--ring-size",
        "--reason",
        "--exclude-reason",
        "--cgroup",
    ] {
        assert!(refusal(&format!("{flag} a,b")).starts_with(&format!("{flag} a,b: ")));
    }
    assert!(refusal("--interface a:b").starts_with("--interface a:b: "));
}

#[test]
fn sixteen_values_are_enough() {
    let line = "--port 1 ".repeat(16);
    assert_eq!(resolve(&line).filters().port.len, 16);
    let said = refusal(&format!("{line} --port 99"));
    assert!(
        said.starts_with("--port 99: 17 values, but the kernel programs compare 16 at most"),
        "{said}"
    );
    assert!(refusal(&"--netns blue ".repeat(17)).contains("17 values"));
}

#[test]
fn only_retransmits_excludes_what_only_drops_have() {
    for line in [
        "--reason TCP_*",
        "--exclude-reason TCP_*",
        "--interface eth0",
        "--all",
        "--proto udp",
    ] {
        let said = refusal(&format!("--only retransmits {line}"));
        assert!(
            said.starts_with(&format!("--only retransmits with {line}: ")),
            "{said}"
        );
        assert!(said.contains("leave out one of them"), "{said}");
        resolve(&format!("--only drops {line}"));
    }
    resolve("--only retransmits --proto udp --proto tcp --port 80");
}

#[test]
fn ports_need_a_protocol_that_has_them() {
    let said = refusal("--proto icmp --proto gre --port 80");
    assert!(
        said.starts_with("--proto icmp, gre with a port: "),
        "{said}"
    );
    resolve("--proto icmp --proto udp --port 80");
}

#[test]
fn benign_drops_are_hidden_unless_asked_for() {
    assert!(
        !resolve("")
            .filter
            .shows_drop("OTHERHOST", DropClass::Benign)
    );
    assert!(resolve("").filter.shows_drop("NO_SOCKET", DropClass::Path));
    assert!(
        resolve("--all")
            .filter
            .shows_drop("OTHERHOST", DropClass::Benign)
    );
    assert!(
        resolve("--reason OTHER*")
            .filter
            .shows_drop("OTHERHOST", DropClass::Benign)
    );
    assert!(
        !resolve("--reason TCP_*")
            .filter
            .shows_drop("OTHERHOST", DropClass::Benign)
    );
}

#[test]
fn colours_by_the_rules() {
    let color =
        |line: &str, environment: &Environment| resolve_in(line, environment).unwrap().output.color;
    let no_color = Environment {
        no_color: true,
        ..terminal()
    };
    assert!(color("", &terminal()));
    assert!(!color("", &Environment::plain()));
    assert!(!color("", &no_color));
    assert!(color("--color always", &no_color));
    assert!(color("--color always", &Environment::plain()));
    assert!(!color("--color never", &terminal()));
    assert!(!color("--color always -o json", &terminal()));
}

#[test]
fn only_a_terminal_has_a_width() {
    assert_eq!(resolve_in("", &terminal()).unwrap().output.width, Some(100));
    assert_eq!(
        resolve_in(
            "",
            &Environment {
                stdout_is_terminal: false,
                ..terminal()
            }
        )
        .unwrap()
        .output
        .width,
        None
    );
}

#[test]
fn filters_are_shown_as_understood() {
    let shown = resolve("--port 80-90 --port 443 --src-port 1 --host 10.1.2.3/8 --proto 6 --proto 253 --netns blue --netns 12 --pid 3 --reason skb_drop_reason_tcp_* --only drops --all").filter.shown();
    let shown: Vec<String> = shown
        .iter()
        .map(|filter| format!("{}={}", filter.flag, filter.values.join(",")))
        .collect();
    assert_eq!(
        shown.join(" "),
        "port=80-90,443 src_port=1 host=10.0.0.0/8 proto=tcp,253 netns=blue,12 pid=3 reason=TCP_* only=drops all="
    );
}

#[test]
fn owners_match_by_pid_and_by_cgroup_and_below() {
    let owner = |pid, path: &str| crate::event::Owner {
        process: Some(crate::event::Process {
            pid,
            name: "a".into(),
        }),
        cgroup: Some(crate::event::Cgroup {
            id: 1,
            path: Some(path.into()),
        }),
        ..crate::event::Owner::default()
    };
    let matches =
        |line: &str, owner: &crate::event::Owner| resolve(line).filter.matches_owner(owner);
    assert!(matches("", &crate::event::Owner::default()));
    assert!(matches("--pid 1 --pid 2", &owner(2, "/")));
    assert!(!matches("--pid 1 --pid 2", &owner(3, "/")));
    assert!(!matches("--pid 1", &crate::event::Owner::default()));
    assert!(matches("--cgroup /a/b", &owner(1, "/a/b/c")));
    assert!(matches("--cgroup /sys/fs/cgroup/a/b", &owner(1, "/a/b")));
    assert!(!matches("--cgroup /a/b", &owner(1, "/a/bc")));
    assert!(!matches("--pid 2 --cgroup /a/b", &owner(1, "/a/b")));
}
