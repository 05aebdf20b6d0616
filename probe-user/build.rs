//! Embeds the compiled kernel programs: `$OUT_DIR/object.rs` is an expression of type `&[u8]`, aligned as a loader of
//! ELF files needs it.
//!
//! The object is committed, so that building takes a stable Rust compiler and nothing else; `cargo xtask build-ebpf`
//! makes it. Where it is missing, only what includes `object.rs` fails to compile.

use std::{env, error::Error, fs, path::Path};

/// Another object to embed: CI tests the one it just built.
const VARIABLE: &str = "DROPWATCH_PROBE_OBJECT";
const COMMITTED: &str = "ebpf/probe.o";

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-env-changed={VARIABLE}");
    let object = env::var(VARIABLE).unwrap_or_else(|_| COMMITTED.to_owned());
    println!("cargo::rerun-if-changed={object}");
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

fn fault(object: &str, why: &str) -> String {
    let text = format!(
        "the kernel programs are missing: probe-user/{object}: {why}. `cargo xtask build-ebpf` builds them"
    );
    format!("compile_error!({text:?})")
}
