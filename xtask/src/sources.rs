//! Whether the committed object still belongs to the sources: their hash, and the sidecar that records it.

use crate::{ebpf, host, lockfile, toolchain::Versions};
use anyhow::{Context as _, Result, ensure};
use sha2::{Digest as _, Sha256};
use std::{fmt::Write as _, fs, path::Path};

const OBJECT: &str = "probe-user/ebpf/probe.o";
const SIDECAR: &str = "probe-user/ebpf/probe.o.toml";

/// What stands beside the committed object.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Sidecar {
    pub(crate) sources: String,
    pub(crate) object: String,
    pub(crate) versions: Versions,
}

impl Sidecar {
    pub(crate) fn new(object: &[u8], versions: Versions) -> Result<Self> {
        Ok(Self {
            sources: hash_sources(&host::root())?,
            object: hex(&Sha256::digest(object)),
            versions,
        })
    }

    fn read(root: &Path) -> Result<Self> {
        let path = root.join(SIDECAR);
        let text = fs::read_to_string(&path).with_context(|| {
            format!("{SIDECAR}: there is no built object; `cargo xtask build-ebpf` makes it")
        })?;
        Self::parse(&text)
            .with_context(|| format!("{SIDECAR}: rebuild it with `cargo xtask build-ebpf`"))
    }

    fn parse(text: &str) -> Result<Self> {
        let value = |key: &str| {
            let line = text
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = \""));
            let value = line
                .and_then(|rest| rest.strip_suffix('"'))
                .map(str::to_owned);
            value.with_context(|| format!("no value for {key}"))
        };
        let versions = Versions {
            rustc: value("rustc")?,
            linker: value("linker")?,
            llvm: value("llvm")?,
        };
        Ok(Self {
            sources: value("sources_sha256")?,
            object: value("object_sha256")?,
            versions,
        })
    }

    fn print(&self) -> String {
        let Self {
            sources,
            object,
            versions:
                Versions {
                    rustc,
                    linker,
                    llvm,
                },
        } = self;
        format!(
            "# Written by `cargo xtask build-ebpf` together with probe.o: do not edit.\n\
             # The sources are what `cargo xtask build-ebpf --check` hashes; these tools give these bytes.\n\
             sources_sha256 = \"{sources}\"\nobject_sha256 = \"{object}\"\ntarget_cpu = \"{cpu}\"\n\
             rustc = \"{rustc}\"\nlinker = \"{linker}\"\nllvm = \"{llvm}\"\n",
            cpu = ebpf::TARGET_CPU,
        )
    }
}

/// Puts a new object and its sidecar in their place.
pub(crate) fn commit(object: &[u8], sidecar: &Sidecar) -> Result<()> {
    let root = host::root();
    let folder = root.join("probe-user/ebpf");
    fs::create_dir_all(&folder).with_context(|| format!("create {}", folder.display()))?;
    fs::write(root.join(OBJECT), object).with_context(|| format!("write {OBJECT}"))?;
    fs::write(root.join(SIDECAR), sidecar.print()).with_context(|| format!("write {SIDECAR}"))?;
    println!(
        "{OBJECT}: {} bytes, sha256 {}",
        object.len(),
        sidecar.object
    );
    Ok(())
}

/// The sidecar of the committed object, if both belong to the sources as they are.
pub(crate) fn verify(root: &Path) -> Result<Sidecar> {
    let sidecar = Sidecar::read(root)?;
    let object = fs::read(root.join(OBJECT)).with_context(|| format!("read {OBJECT}"))?;
    ensure!(
        sidecar.object == hex(&Sha256::digest(&object)),
        "{OBJECT} is not the object its sidecar describes: run `cargo xtask build-ebpf` and commit both"
    );
    ensure!(
        sidecar.sources == hash_sources(root)?,
        "sources changed without `cargo xtask build-ebpf`: run it and commit probe-user/ebpf"
    );
    Ok(sidecar)
}

/// A hash of all that decides what the object holds, except the versions of the tools.
fn hash_sources(root: &Path) -> Result<String> {
    let mut files = vec![
        "probe-common/Cargo.toml".to_owned(),
        "probe-ebpf/Cargo.toml".to_owned(),
    ];
    for folder in ["probe-common/src", "probe-ebpf/src"] {
        list(root, folder, &mut files)?;
    }
    files.sort();
    let mut hasher = Sha256::new();
    let mut add = |name: &str, content: &[u8]| {
        hasher.update(format!("{name} {}\n", content.len()));
        hasher.update(content);
    };
    for file in &files {
        add(
            file,
            &fs::read(root.join(file)).with_context(|| format!("read {file}"))?,
        );
    }
    let lock = fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
    add(
        "Cargo.lock",
        lockfile::closure(&lock, "probe-ebpf").as_bytes(),
    );
    add("recipe", ebpf::recipe().as_bytes());
    Ok(hex(&hasher.finalize()))
}

fn list(root: &Path, folder: &str, files: &mut Vec<String>) -> Result<()> {
    for entry in fs::read_dir(root.join(folder)).with_context(|| format!("read {folder}"))? {
        let entry = entry.with_context(|| format!("read {folder}"))?;
        let name = format!("{folder}/{}", entry.file_name().display());
        if entry
            .file_type()
            .with_context(|| format!("read {name}"))?
            .is_dir()
        {
            list(root, &name, files)?;
        } else if Path::new(&name)
            .extension()
            .is_some_and(|extension| extension == "rs")
        {
            files.push(name);
        }
    }
    Ok(())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing into a String cannot fail.
        write!(text, "{byte:02x}").unwrap_or_default();
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The one that keeps an outdated object out of the repository; it needs no eBPF toolchain.
    #[test]
    fn the_committed_object_belongs_to_the_sources() {
        let result = verify(&host::root());
        assert!(result.is_ok(), "{:#}", result.unwrap_err());
    }

    #[test]
    fn a_sidecar_reads_back_as_written() {
        let versions = Versions {
            rustc: "rustc 1.96.0 (ac68faa20 2026-05-25) (built from a source tarball)".into(),
            linker: "bpf-linker 0.13.0".into(),
            llvm: "LLVM 22.1.8".into(),
        };
        let sidecar = Sidecar {
            sources: "ab".into(),
            object: "cd".into(),
            versions,
        };
        assert_eq!(Sidecar::parse(&sidecar.print()).unwrap(), sidecar);
        assert!(Sidecar::parse("sources_sha256 = \"ab\"\n").is_err());
    }
}
