//! The machine we are on: folders, root, installed programs, and running other programs.

use anyhow::{Context as _, Result, bail, ensure};
use std::{
    env,
    ffi::{OsStr, OsString},
    io::{BufRead as _, BufReader, Read},
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    sync::mpsc,
    thread,
};

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo says where the xtask it runs lies; under sudo that is forgotten, and the place of the build is right.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map(PathBuf::from)
        .filter(|path| path.ends_with("xtask"));
    let manifest = manifest.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")));
    manifest
        .parent()
        .map_or_else(|| manifest.clone(), Path::to_path_buf)
}

/// Where cargo builds: `target`, unless the user moved it. Everything we cache lies in there.
pub(crate) fn target() -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--no-deps", "--format-version", "1"]);
    let metadata: serde_json::Value =
        serde_json::from_str(&output(&mut cargo)?).context("cargo metadata is not JSON")?;
    let folder = metadata
        .get("target_directory")
        .and_then(serde_json::Value::as_str);
    Ok(PathBuf::from(
        folder.context("cargo metadata names no target_directory")?,
    ))
}

/// The cargo that runs us, in the folder of the workspace.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo")));
    command.current_dir(root());
    command
}

/// Builds dropwatch-rs in release mode, with the committed kernel programs or with those of `object`; its path.
pub(crate) fn build_release(object: Option<&Path>) -> Result<PathBuf> {
    run(cargo()
        .args(["build", "--release", "--package", "probe-user"])
        .envs(object_variable(object)))?;
    Ok(target()?.join("release/dropwatch-rs"))
}

/// What tells probe-user/build.rs to embed another object than the one committed.
pub(crate) fn object_variable(object: Option<&Path>) -> Option<(&'static str, &Path)> {
    object.map(|path| ("DROPWATCH_PROBE_OBJECT", path))
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// A command with root's rights: through sudo when we have not got them, and then it says so.
pub(crate) fn privileged(program: impl AsRef<OsStr>) -> Command {
    let program = program.as_ref();
    if is_root() {
        return Command::new(program);
    }
    eprintln!("xtask: not root: using sudo for {}", program.display());
    let mut command = Command::new("sudo");
    command.arg(program);
    command
}

/// Where `name` lies: in `PATH`, or in the folders of root's `PATH` that a user's may lack.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(name))
        .find(|candidate| candidate.is_file())
}

/// What the kernel tests, the scenarios and the demo call, and the Debian package it comes in.
const TOOLS: [(&str, &str); 9] = [
    ("iperf3", "iperf3"),
    ("nft", "nftables"),
    ("iptables", "iptables"),
    ("ip", "iproute2"),
    ("ethtool", "ethtool"),
    ("conntrack", "conntrack"),
    ("socat", "socat"),
    ("ping", "iputils-ping"),
    ("python3", "python3"),
];

/// The Debian packages of the tools that are not installed.
pub(crate) fn missing_packages() -> Vec<&'static str> {
    TOOLS
        .iter()
        .filter(|(tool, _)| find(tool).is_none())
        .map(|&(_, package)| package)
        .collect()
}

/// The command that installs Debian packages, for people.
pub(crate) fn apt_command(packages: &[&str]) -> String {
    format!(
        "apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

/// Installs Debian packages.
pub(crate) fn apt_install(packages: &[&str]) -> Result<()> {
    ensure!(
        find("apt-get").is_some(),
        "this is not Debian: install what these packages hold: {}",
        packages.join(" ")
    );
    run(privileged("apt-get").args(["-qq", "update"]))?;
    run(privileged("apt-get")
        .args(["-qq", "install", "-y", "--no-install-recommends"])
        .args(packages)
        .env("DEBIAN_FRONTEND", "noninteractive"))
}

/// Runs a command to its end; an error unless it succeeds.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("start {shown}"))?;
    ensure!(status.success(), "{shown}: {status}");
    Ok(())
}

/// What a command prints on stdout; an error, with what it says on stderr, unless it succeeds.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("start {shown}"))?;
    if !output.status.success() {
        bail!(
            "{shown}: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    String::from_utf8(output.stdout).with_context(|| format!("{shown}: its output is not UTF-8"))
}

/// Runs a command, shows every line as it comes and hands it to `each`, which says whether it is to be shown.
pub(crate) fn tee(command: &mut Command, mut each: impl FnMut(&str) -> bool) -> Result<ExitStatus> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .with_context(|| format!("start {shown}"))?;
    let (sender, lines) = mpsc::sync_channel(64);
    let stdout = child
        .stdout
        .take()
        .map(|pipe| forward(pipe, sender.clone(), false));
    let stderr = child.stderr.take().map(|pipe| forward(pipe, sender, true));
    for (line, is_stderr) in lines {
        match (each(&line), is_stderr) {
            (false, _) => {}
            (true, false) => println!("{line}"),
            (true, true) => eprintln!("{line}"),
        }
    }
    for reader in [stdout, stderr].into_iter().flatten() {
        ensure!(reader.join().is_ok(), "{shown}: reading its output failed");
    }
    child.wait().with_context(|| format!("wait for {shown}"))
}

fn forward(
    pipe: impl Read + Send + 'static,
    lines: mpsc::SyncSender<(String, bool)>,
    is_stderr: bool,
) -> thread::JoinHandle<()> {
    thread::spawn(move || {
        for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
            if lines
                .send((String::from_utf8_lossy(&line).into_owned(), is_stderr))
                .is_err()
            {
                break;
            }
        }
    })
}

/// A command as one would type it.
pub(crate) fn show(command: &Command) -> String {
    let words = [command.get_program()]
        .into_iter()
        .chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}
