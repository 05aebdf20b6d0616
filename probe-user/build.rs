//! Embeds the compiled kernel programs: `$OUT_DIR/object.rs` is an expression of type `&[u8]`, aligned as a loader of
//! ELF files needs it.
//!
//! The object is committed, so that building takes a stable Rust compiler and nothing else; `cargo xtask build-ebpf`
//! makes it. Where it is missing, only what includes `object.rs` fails to compile.

use std::{
    env,
    error::Error,
    fs,
    path::{Path, PathBuf},
};

/// Another object to embed: CI tests the one it just built.
const VARIABLE: &str = "DROPWATCH_PROBE_OBJECT";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let committed = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("ebpf/probe.o");
    let object = env::var_os(VARIABLE).map_or(committed, PathBuf::from);
    println!("cargo::rerun-if-changed={}", object.display());
    let out = env::var("OUT_DIR")?;
    let code = match fs::read(&object) {
        Ok(bytes) if bytes.starts_with(b"\x7fELF") => {
            fs::write(Path::new(&out).join("probe.o"), bytes)?;
            "aya::include_bytes_aligned!(concat!(env!(\"OUT_DIR\"), \"/probe.o\"))".to_owned()
        }
        Ok(_) => fault(&object, "is no ELF object"),
        Err(error) => fault(&object, &error.to_string()),
    };
    fs::write(Path::new(&out).join("object.rs"), code)?;
    Ok(())
}

fn fault(object: &Path, why: &str) -> String {
    let text = format!(
        "the kernel programs are missing: {}: {why}. `cargo xtask build-ebpf` builds them",
        object.display()
    );
    format!("compile_error!({text:?})")
}
