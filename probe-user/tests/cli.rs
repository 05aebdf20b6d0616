//! What the program says, and its exit code, where nothing can be traced.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on ends"
)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_dropwatch-rs");
/// `nobody`
const UID: u32 = 65534;

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        Self {
            code: output.status.code(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

fn run(args: &str) -> Said {
    let mut command = Command::new(PROGRAM);
    command.args(args.split_whitespace()).stdin(Stdio::null());
    command.output().expect("start the program").into()
}

/// A copy that everybody may run, wherever the build lies; gone when dropped.
struct Copy(PathBuf);

impl Copy {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("dwcli-{name}-{}", std::process::id()));
        fs::copy(PROGRAM, &path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        Self(path)
    }

    /// Runs it without any privilege.
    fn run(&self, args: &str) -> Said {
        let mut command = Command::new(&self.0);
        command.args(args.split_whitespace()).stdin(Stdio::null());
        command.current_dir("/");
        if rustix::process::geteuid().is_root() {
            command.uid(UID).gid(UID);
        }
        command.output().expect("start the program").into()
    }
}

impl Drop for Copy {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.0));
    }
}

#[test]
fn without_privilege_it_names_the_capabilities_and_the_remedy() {
    let said = Copy::new("trace").run("--duration 1s");
    assert_eq!(said.code, Some(3), "{}", said.stderr);
    assert_eq!(said.stdout, "");
    for word in ["CAP_BPF", "CAP_PERFMON", "sudo", "setcap"] {
        assert!(said.stderr.contains(word), "{word}: {}", said.stderr);
    }
    assert!(!said.stderr.contains("panicked"), "{}", said.stderr);
}

#[test]
fn doctor_without_privilege_says_that_this_user_cannot_trace() {
    let said = Copy::new("doctor").run("doctor");
    assert_eq!(said.code, Some(3), "{}", said.stdout);
    for word in [
        "FAIL  privilege",
        "CAP_BPF",
        "cannot be traced by this user",
    ] {
        assert!(said.stdout.contains(word), "{word}: {}", said.stdout);
    }
}

#[test]
fn a_bad_command_line_exits_with_2_and_names_what_is_wrong() {
    for (args, word) in [
        ("--bogus", "--bogus"),
        ("--port", "--port"),
        ("-o xml", "xml"),
        ("--only resets", "resets"),
        ("--port 0x50", "--port 0x50"),
        ("--port 70000", "--port 70000"),
        ("--port 90-80", "--port 90-80"),
        ("--src-port x", "--src-port x"),
        ("--dst-port -1", "-1"),
        ("--host 10.0.0.300", "--host 10.0.0.300"),
        ("--host 10.0.0.0/33", "--host 10.0.0.0/33"),
        ("--host fd66::/129", "--host fd66::/129"),
        ("--proto nonsense", "--proto nonsense"),
        ("--proto icmp --port 80", "--proto icmp"),
        ("--pid x", "--pid x"),
        ("--duration soon", "--duration soon"),
        ("--count 0x1", "--count 0x1"),
        ("--ring-size 3MiB", "--ring-size 3MiB"),
        ("--interval 0s", "--interval 0s"),
        (
            "--only retransmits --reason NO_SOCKET",
            "--reason NO_SOCKET",
        ),
        ("--port 80 doctor", "doctor"),
    ] {
        let said = run(args);
        assert_eq!(said.code, Some(2), "{args}: {}", said.stderr);
        assert_eq!(said.stdout, "", "{args}");
        assert!(said.stderr.contains(word), "{args}: {}", said.stderr);
    }
}

#[test]
fn help_and_version_are_data() {
    for (args, word) in [("--help", "Exit codes:"), ("--version", "dropwatch-rs ")] {
        let said = run(args);
        assert_eq!(said.code, Some(0));
        assert!(said.stdout.contains(word), "{}", said.stdout);
        assert_eq!(said.stderr, "");
    }
}
