//! `cargo xtask build-ebpf [--check]`: the kernel programs, from source to the object that probe-user embeds.

use crate::{
    host, object,
    sources::{self, Sidecar},
    toolchain::Toolchain,
};
use anyhow::{Context as _, Result, ensure};
use std::{
    env,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Change nothing: rebuild into the target folder and compare with what is committed
    #[arg(long)]
    check: bool,
}

const TARGET: &str = "bpfel-unknown-none";
/// Linux 5.10 knows every instruction of v3, except atomics that return the old value (`object` looks for those).
pub(crate) const TARGET_CPU: &str = "v3";

/// Nothing here depends on the machine, so all of it is part of the hash of the sources. The architecture only chooses
/// the layout of `pt_regs`, which no program reads: one object serves every little-endian machine.
const FLAGS: [&str; 4] = [
    "--cfg=bpf_target_arch=\"x86_64\"",
    "-Cdebuginfo=2",
    "-Clink-arg=--btf",
    "-Ctarget-cpu=v3",
];
const PROFILE: [(&str, &str); 6] = [
    ("CARGO_PROFILE_RELEASE_OPT_LEVEL", "3"),
    ("CARGO_PROFILE_RELEASE_LTO", "true"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_DEBUG", "2"),
    ("CARGO_PROFILE_RELEASE_DEBUG_ASSERTIONS", "false"),
    ("CARGO_PROFILE_RELEASE_OVERFLOW_CHECKS", "false"),
];

/// How the object is built, as text to be hashed.
pub(crate) fn recipe() -> String {
    let profile = PROFILE.map(|(key, value)| format!("{key}={value}"));
    [TARGET, "strip=debug"]
        .into_iter()
        .chain(FLAGS)
        .map(str::to_owned)
        .chain(profile)
        .collect::<Vec<_>>()
        .join("\n")
}

pub(crate) fn run(args: &Args) -> Result<ExitCode> {
    if args.check {
        check()?;
    } else {
        let toolchain = Toolchain::find()?;
        let fresh = build(&toolchain)?;
        let object = fs::read(&fresh).with_context(|| format!("read {}", fresh.display()))?;
        sources::commit(&object, &Sidecar::new(&object, toolchain.versions)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Rebuilds and compares; the path of the fresh object.
pub(crate) fn check() -> Result<PathBuf> {
    let committed = sources::verify(&host::root())?;
    let toolchain = Toolchain::find()?;
    let fresh = build(&toolchain)?;
    let object = fs::read(&fresh).with_context(|| format!("read {}", fresh.display()))?;
    if toolchain.versions == committed.versions {
        ensure!(
            Sidecar::new(&object, toolchain.versions)? == committed,
            "the recorded toolchain gives other bytes than those committed: {} differs from probe-user/ebpf/probe.o",
            fresh.display()
        );
        println!("the committed object is what the sources give, to the byte");
    } else {
        println!(
            "the sources are those of the committed object; bytes not compared: it was built by {:?}, this is {:?}",
            committed.versions, toolchain.versions
        );
    }
    Ok(fresh)
}

/// Builds the object into the target folder; its path.
fn build(toolchain: &Toolchain) -> Result<PathBuf> {
    let folder = host::target()?.join("ebpf");
    let renames = renames(toolchain)?;
    let mut flags: Vec<OsString> = FLAGS.iter().map(OsString::from).collect();
    flags.push(joined("-Clinker=", &toolchain.linker, ""));
    for (from, to) in &renames {
        flags.push(joined("--remap-path-prefix=", from, &format!("={to}")));
    }
    host::run(
        toolchain
            .cargo()
            .args([
                "build",
                "--locked",
                "--release",
                "--package",
                "probe-ebpf",
                "--bin",
                "probe",
            ])
            .args(["--target", TARGET, "-Z", "build-std=core", "--target-dir"])
            .arg(&folder)
            .envs(PROFILE)
            .env(
                "CARGO_ENCODED_RUSTFLAGS",
                flags.join(&OsString::from("\x1f")),
            ),
    )?;
    let object = folder.join("probe.o");
    // DWARF has become BTF by now, and would be nine tenths of a file that is committed with every change.
    host::run(
        Command::new(&toolchain.strip)
            .arg("--strip-debug")
            .arg("-o")
            .arg(&object)
            .arg(folder.join(TARGET).join("release/probe")),
    )?;
    let bytes = fs::read(&object).with_context(|| format!("read {}", object.display()))?;
    let private: Vec<_> = renames
        .iter()
        .map(|(folder, _)| folder.clone())
        .chain(homes())
        .collect();
    object::check(&bytes, &private).with_context(|| object.display().to_string())?;
    Ok(object)
}

/// The folders whose names must not get into the object, each with the name it gets instead. rustc applies the last
/// that fits, so the widest come first.
fn renames(toolchain: &Toolchain) -> Result<Vec<(PathBuf, &'static str)>> {
    let mut renames = toolchain.renames()?;
    if let Some(cargo) = cargo_home() {
        renames.push((cargo.join("registry/src"), "registry"));
        renames.push((cargo.join("git/checkouts"), "git"));
    }
    renames.push((host::root(), "dropwatch-rs"));
    Ok(renames)
}

fn homes() -> impl Iterator<Item = PathBuf> {
    let home = env::var_os("HOME").map(PathBuf::from);
    [home, cargo_home(), Some(PathBuf::from("/root"))]
        .into_iter()
        .flatten()
        .filter(|path| path != Path::new("/"))
}

fn cargo_home() -> Option<PathBuf> {
    let home = || env::var_os("HOME").map(|home| Path::new(&home).join(".cargo"));
    env::var_os("CARGO_HOME").map(PathBuf::from).or_else(home)
}

fn joined(before: &str, path: &Path, after: &str) -> OsString {
    let mut text = OsString::from(before);
    text.push(path);
    text.push(after);
    text
}
