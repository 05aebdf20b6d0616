//! What must hold for every object we commit: it names no folder of the machine that built it, and Linux 5.10 knows
//! all of its instructions.

use anyhow::{Context as _, Result, bail, ensure};
use std::{os::unix::ffi::OsStrExt as _, path::PathBuf};

/// Refuses an object that holds the name of one of the `private` folders, or an instruction newer than Linux 5.10.
pub(crate) fn check(object: &[u8], private: &[PathBuf]) -> Result<()> {
    for folder in private {
        let name = folder.as_os_str().as_bytes();
        ensure!(
            !object.windows(name.len()).any(|window| window == name),
            "holds the machine's own path {}: a --remap-path-prefix is missing",
            folder.display()
        );
    }
    let mut programs = 0;
    for section in sections(object)? {
        for (number, instruction) in section.code.chunks_exact(8).enumerate() {
            if let Some(what) = too_new(instruction) {
                bail!(
                    "{}: instruction {number} is {what}, which Linux 5.10 does not know",
                    section.name
                );
            }
        }
        programs += usize::from(section.name != ".text");
    }
    ensure!(programs > 0, "holds no program");
    println!(
        "{programs} program sections, no path of this machine, no instruction newer than Linux 5.10"
    );
    Ok(())
}

/// Since when: <https://www.kernel.org/doc/html/latest/bpf/standardization/instruction-set.html>, `cpu=v4` and the
/// atomics of Linux 5.12.
fn too_new(instruction: &[u8]) -> Option<&'static str> {
    let &[opcode, _, offset0, offset1, immediate, ..] = instruction else {
        return None;
    };
    let has_offset = [offset0, offset1] != [0, 0];
    match opcode {
        0xc3 | 0xdb if immediate != 0 => {
            Some("an atomic that is more than an addition (cpu v3, Linux 5.12)")
        }
        0x81 | 0x89 | 0x91 => Some("a sign-extending load (cpu v4)"),
        0x06 => Some("a long jump (cpu v4)"),
        0xd7 => Some("an unconditional byte swap (cpu v4)"),
        0xbc | 0xbf if has_offset => Some("a sign-extending move (cpu v4)"),
        0x34 | 0x37 | 0x3c | 0x3f | 0x94 | 0x97 | 0x9c | 0x9f if has_offset => {
            Some("a signed division (cpu v4)")
        }
        _ => None,
    }
}

struct Section<'a> {
    name: String,
    code: &'a [u8],
}

/// The sections with instructions, of a little-endian 64-bit ELF file.
fn sections(elf: &[u8]) -> Result<Vec<Section<'_>>> {
    const PROGBITS: u64 = 1;
    const EXECUTABLE: u64 = 4;
    const HEADER: u64 = 64;
    let number = |at: u64, length: u64| -> Result<u64> {
        let bytes = slice(elf, at, length)?;
        Ok(bytes
            .iter()
            .rev()
            .fold(0, |value, &byte| value << 8 | u64::from(byte)))
    };
    ensure!(
        slice(elf, 0, 6)? == b"\x7fELF\x02\x01",
        "is not a little-endian 64-bit ELF file"
    );
    let (table, count, names) = (number(40, 8)?, number(60, 2)?, number(62, 2)?);
    let names = number(table + names * HEADER + 24, 8)?;
    let mut sections = Vec::new();
    for at in (0..count).map(|index| table + index * HEADER) {
        let (kind, flags) = (number(at + 4, 4)?, number(at + 8, 8)?);
        if kind == PROGBITS && flags & EXECUTABLE != 0 && number(at + 32, 8)? > 0 {
            let name = elf
                .get(usize::try_from(names + number(at, 4)?)?..)
                .context("name outside the file")?;
            let name = name.split(|&byte| byte == 0).next().unwrap_or_default();
            sections.push(Section {
                name: String::from_utf8_lossy(name).into_owned(),
                code: slice(elf, number(at + 24, 8)?, number(at + 32, 8)?)?,
            });
        }
    }
    Ok(sections)
}

fn slice(bytes: &[u8], at: u64, length: u64) -> Result<&[u8]> {
    let (at, length) = (usize::try_from(at)?, usize::try_from(length)?);
    bytes
        .get(at..)
        .and_then(|rest| rest.get(..length))
        .context("is cut short")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_atomic_addition_is_fine_and_a_fetching_one_is_not() {
        assert!(too_new(&[0xdb, 0x21, 0, 0, 0, 0, 0, 0]).is_none());
        assert!(too_new(&[0xdb, 0x21, 0, 0, 1, 0, 0, 0]).is_some());
        assert!(too_new(&[0xc3, 0x21, 8, 0, 0xe1, 0, 0, 0]).is_some());
    }

    #[test]
    fn instructions_of_cpu_v4_are_found() {
        for instruction in [
            [0x06, 0, 0, 0, 9, 0, 0, 0],
            [0x91, 1, 0, 0, 0, 0, 0, 0],
            [0xbf, 0x21, 8, 0, 0, 0, 0, 0],
        ] {
            assert!(too_new(&instruction).is_some(), "{instruction:x?}");
        }
        assert!(too_new(&[0xbf, 0x21, 0, 0, 0, 0, 0, 0]).is_none());
    }

    #[test]
    fn what_is_no_object_is_refused() {
        assert!(check(b"", &[]).is_err());
        assert!(check(b"\x7fELF\x02\x01", &[]).is_err());
        assert!(check(b"\x7fELF\x02\x01 /home/me/x", &[PathBuf::from("/home/me")]).is_err());
    }
}
