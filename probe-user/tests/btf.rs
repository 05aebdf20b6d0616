//! The BTF reader against real kernels and tables of right answers made with other tools.
//!
//! `fixtures/btf/*.btf.xz`: BTF of distribution kernels. `*.tsv`: a column for each, values cross-checked with the
//! compiler's `offsetof`.

use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use probe_user::kernel::btf::Btf;

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/btf")
}

fn unpack(name: &str) -> Vec<u8> {
    let packed = fs::read(fixtures().join(format!("{name}.btf.xz"))).unwrap();
    let mut bytes = Vec::new();
    lzma_rust2::XzReader::new(packed.as_slice(), false)
        .read_to_end(&mut bytes)
        .unwrap();
    bytes
}
#[test]
fn x() {
    let t = std::time::Instant::now();
    let b = unpack("debian-13-bpo-7.3.4-amd64");
    eprintln!("{:?}", t.elapsed());
    let t = std::time::Instant::now();
    let btf = Btf::parse(b).unwrap();
    eprintln!("{:?} {btf:?}", t.elapsed());
    let t = std::time::Instant::now();
    eprintln!(
        "{:?}",
        probe_user::kernel::offsets::resolve(&btf).map_err(|e| e.to_string())
    );
    eprintln!("{:?}", t.elapsed());
}
