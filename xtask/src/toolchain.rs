//! What builds the kernel programs. Only this file knows which compilers do, where they lie and how to get them.
//!
//! Two things are needed: a Rust compiler that may use unstable flags and has the source of `core` (nobody ships `core`
//! compiled for BPF), and `bpf-linker`, built against an LLVM at least as new as the compiler's.

use crate::host;
use anyhow::{Context as _, Result, bail};
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, ExitCode},
};

/// Debian's newest Rust with its library source, and the LLVM that bpf-linker is built against.
const PACKAGES: [&str; 3] = ["rustc-web", "rust-web-src", "llvm-22-dev"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const LLVM_PREFIX: &str = "/usr/lib/llvm-22";
const LLVM_MAJOR: u32 = 22;
const LINKER_VERSION: &str = "0.13.0";
/// The oldest compiler that builds aya-ebpf as locked.
const OLDEST_MINOR: u32 = 95;

/// A toolchain that is complete.
pub(crate) struct Toolchain {
    compiler: Compiler,
    /// `bpf-linker`.
    pub(crate) linker: PathBuf,
    /// `llvm-strip`.
    pub(crate) strip: PathBuf,
    pub(crate) versions: Versions,
}

/// What is recorded beside the object: the same versions give the same bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Versions {
    pub(crate) rustc: String,
    pub(crate) linker: String,
    pub(crate) llvm: String,
}

#[derive(Clone)]
enum Compiler {
    /// Debian's `rustc-web`, told to allow unstable flags.
    Debian,
    /// rustup's nightly.
    Nightly,
}

impl Compiler {
    fn rustc(&self) -> Command {
        match self {
            Self::Debian => Command::new(DEBIAN_RUSTC),
            Self::Nightly => {
                let mut rustc = Command::new("rustup");
                rustc.args(["run", "nightly", "rustc"]);
                rustc
            }
        }
    }

    /// Why it cannot be used; `None` if it can.
    fn fault(&self) -> Option<String> {
        let Ok(version) = host::output(self.rustc().arg("-vV")) else {
            return Some("is not installed".into());
        };
        let field = |name: &str| {
            version
                .lines()
                .find_map(|line| line.strip_prefix(name))
                .unwrap_or_default()
                .trim()
        };
        let number = |text: &str, at: usize| {
            text.split('.')
                .nth(at)
                .and_then(|part| part.parse::<u32>().ok())
        };
        let release = field("release:");
        if number(release, 1).is_none_or(|minor| minor < OLDEST_MINOR) {
            return Some(format!("is {release}: older than 1.{OLDEST_MINOR}"));
        }
        let llvm = field("LLVM version:");
        if number(llvm, 0).is_none_or(|major| major > LLVM_MAJOR) {
            return Some(format!(
                "uses LLVM {llvm}: bpf-linker, with LLVM {LLVM_MAJOR}, cannot read what it writes"
            ));
        }
        match self.source() {
            Ok(source) if source.join("library/core/src/lib.rs").is_file() => None,
            _ => Some("lacks the source of the standard library".into()),
        }
    }

    /// Where the source of the standard library lies.
    fn source(&self) -> Result<PathBuf> {
        let sysroot = host::output(self.rustc().args(["--print", "sysroot"]))?;
        Ok(Path::new(sysroot.trim()).join("lib/rustlib/src/rust"))
    }
}

impl Toolchain {
    /// The toolchain of this machine, or what is missing and how to get it.
    pub(crate) fn find() -> Result<Self> {
        let mut missing = Vec::new();
        let compiler = find_compiler().map_err(|fault| missing.push(fault)).ok();
        let linker = linker_path()?;
        let linker_version = linker_version(&linker);
        if linker_version.is_none() {
            missing.push(format!(
                "bpf-linker {LINKER_VERSION} is not in {}\n{}",
                linker.display(),
                linker_recipe()?
            ));
        }
        let strip = Path::new(LLVM_PREFIX).join("bin/llvm-strip");
        if !strip.is_file() {
            missing.push(format!(
                "{} is missing\n  {}",
                strip.display(),
                host::apt_command(&PACKAGES)
            ));
        }
        let (Some(compiler), Some(linker_version), true) =
            (compiler, linker_version, missing.is_empty())
        else {
            bail!(
                "the kernel programs cannot be built here. `cargo xtask install-toolchain` installs:\n{}",
                missing.join("\n")
            );
        };
        let llvm = host::output(
            Command::new(Path::new(LLVM_PREFIX).join("bin/llvm-config")).arg("--version"),
        )?;
        let rustc = host::output(compiler.rustc().arg("-V"))?;
        let versions = Versions {
            rustc: rustc.trim().into(),
            linker: linker_version,
            llvm: format!("LLVM {}", llvm.trim()),
        };
        Ok(Self {
            compiler,
            linker,
            strip,
            versions,
        })
    }

    /// cargo, set up to use the compiler with unstable flags.
    pub(crate) fn cargo(&self) -> Command {
        let mut cargo = match self.compiler {
            Compiler::Debian => {
                let mut cargo = host::cargo();
                cargo.env("RUSTC", DEBIAN_RUSTC).env("RUSTC_BOOTSTRAP", "1");
                cargo
            }
            Compiler::Nightly => {
                let mut cargo = Command::new("rustup");
                cargo
                    .args(["run", "nightly", "cargo"])
                    .current_dir(host::root());
                cargo
            }
        };
        for name in [
            "RUSTFLAGS",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
            "CARGO_BUILD_TARGET",
            "RUSTUP_TOOLCHAIN",
        ] {
            // cargo itself is rustup's too: without this it would stay at the default toolchain it belongs to.
            if name != "RUSTUP_TOOLCHAIN" || matches!(self.compiler, Compiler::Nightly) {
                cargo.env_remove(name);
            }
        }
        cargo
    }

    /// The folders whose names must not get into the object, each with the name it gets instead.
    pub(crate) fn renames(&self) -> Result<Vec<(PathBuf, &'static str)>> {
        let source = self.compiler.source()?;
        let real =
            fs::canonicalize(&source).with_context(|| format!("read {}", source.display()))?;
        Ok(vec![(source, "rust"), (real, "rust")])
    }
}

fn find_compiler() -> Result<Compiler, String> {
    let mut faults = Vec::new();
    for (compiler, name) in [
        (Compiler::Debian, DEBIAN_RUSTC),
        (Compiler::Nightly, "rustup's nightly"),
    ] {
        match compiler.fault() {
            None => return Ok(compiler),
            Some(fault) => faults.push(format!("{name} {fault}")),
        }
    }
    Err(format!(
        "a Rust compiler for BPF: {}\n  {}\n  or: rustup toolchain install nightly --component rust-src",
        faults.join("; "),
        host::apt_command(&PACKAGES),
    ))
}

fn tools() -> Result<PathBuf> {
    Ok(host::target()?.join("tools"))
}

fn linker_path() -> Result<PathBuf> {
    Ok(tools()?.join("bin/bpf-linker"))
}

fn linker_version(linker: &Path) -> Option<String> {
    let version = host::output(Command::new(linker).arg("--version")).ok()?;
    let version = version.trim();
    (version.split_whitespace().nth(1) == Some(LINKER_VERSION)).then(|| version.to_owned())
}

fn linker_install() -> Result<Command> {
    let mut cargo = host::cargo();
    cargo
        .args([
            "install",
            "bpf-linker",
            "--version",
            LINKER_VERSION,
            "--locked",
            "--no-default-features",
        ])
        .args(["--features", &format!("llvm-{LLVM_MAJOR}"), "--root"])
        .arg(tools()?)
        .arg("--target-dir")
        .arg(host::target()?.join("tools/build"))
        .env("LLVM_PREFIX", LLVM_PREFIX);
    Ok(cargo)
}

fn linker_recipe() -> Result<String> {
    Ok(format!(
        "  {}\n  LLVM_PREFIX={LLVM_PREFIX} {}",
        host::apt_command(&PACKAGES),
        host::show(&linker_install()?)
    ))
}

/// Installs what is missing; does nothing when all is there.
pub(crate) fn install() -> Result<ExitCode> {
    let llvm = Path::new(LLVM_PREFIX);
    let has_llvm = ["bin/llvm-config", "bin/llvm-strip", "lib/libLLVM.so"]
        .iter()
        .all(|file| llvm.join(file).exists());
    if find_compiler().is_err() || !has_llvm {
        host::apt_install(&PACKAGES)?;
    }
    if linker_version(&linker_path()?).is_none() {
        host::run(&mut linker_install()?)?;
    }
    let toolchain = Toolchain::find()?;
    let Versions {
        rustc,
        linker,
        llvm,
    } = &toolchain.versions;
    println!("eBPF toolchain: {rustc}; {linker}; {llvm}");
    Ok(ExitCode::SUCCESS)
}
