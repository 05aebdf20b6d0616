//! What the kernel says about its own types: where members lie, what enum values are called, what tracepoints pass.
//!
//! BTF (`/sys/kernel/btf/vmlinux`) describes every type of the running kernel. Three questions are asked of it, at start
//! and perhaps once more for the names of a module, so this reader keeps the file as it is plus one number per type, and
//! looks into it when asked.
//!
//! Why not a crate: for the BTF of Linux 6.18 (5.5 MB, 127 000 types) `btfparse` 1.3.9 makes an object and two map
//! entries of each type, which takes 109–223 ms and 60 MB on two busy cores; this reader takes 6–10 ms and 6 MB, resolving
//! included, and gives them back. More important, `btfparse` does not read the split BTF of modules (whose string
//! offsets go on where those of vmlinux end), keeps only the last of several types of one name whatever their kind, stops
//! at type tags, and never returns from a typedef of itself.

mod blob;
mod ctype;
mod error;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use self::blob::{Blob, Kind, Type, VOID};
pub use self::error::BtfError;

/// The number of a type; 0 is `void`.
type Id = u32;

/// Modifiers and typedefs in a row. Kernels have at most six; made-up bytes can go in circles.
const MAX_CHAIN: usize = 32;
/// Unnamed structs and unions inside each other.
const MAX_NESTING: u32 = 16;
/// Members looked at for one path: `struct sk_buff`, `struct net` and what they embed have some hundred.
const MAX_MEMBERS: u32 = 50_000;

/// Where a member lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Bytes from the start of the outermost struct.
    pub byte: u32,
    /// Of a bitfield: its first bit, counted from the least significant one of that byte.
    pub bit: u8,
    /// Of a bitfield: its width in bits; else 0.
    pub width: u8,
    /// Bytes of its type (of a bitfield: of the type it is declared with).
    pub size: u32,
    /// Its C type.
    pub c_type: String,
}

impl Place {
    fn layout(&self) -> (u32, u8, u8, u32) {
        (self.byte, self.bit, self.width, self.size)
    }
}

/// The types of a kernel, or of a kernel and one module.
pub struct Btf {
    own: Arc<Blob>,
    base: Option<Arc<Blob>>,
}

struct Member {
    target: Id,
    bit: u32,
    width: u32,
}

impl Btf {
    /// Of the running kernel.
    pub fn from_running_kernel() -> Result<Self, BtfError> {
        Self::parse(read_sysfs("vmlinux")?)
    }

    /// Of a loaded module of the running kernel (Linux 5.11).
    pub fn from_running_module(module: &str) -> Result<Self, BtfError> {
        // The module first: when it is not loaded, vmlinux is not read in vain.
        let bytes = read_sysfs(module)?;
        Self::parse_split(bytes, &Self::from_running_kernel()?)
    }

    /// Takes the bytes of a self-contained file, as of vmlinux.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, BtfError> {
        Ok(Self {
            own: Arc::new(Blob::parse(bytes, None)?),
            base: None,
        })
    }

    /// Takes the bytes of a module, which go on where the types and strings of vmlinux end.
    pub fn parse_split(bytes: Vec<u8>, vmlinux: &Self) -> Result<Self, BtfError> {
        Ok(Self {
            own: Arc::new(Blob::parse(bytes, Some(&vmlinux.own))?),
            base: Some(Arc::clone(&vmlinux.own)),
        })
    }

    /// Finds `struct.member.member`, looking through unnamed members. Pointers are not followed.
    ///
    /// A member counts as unnamed by its own name, not by its type's: since 7.0 kernels embed structs of named type
    /// without a member name (`-fms-extensions`), as `struct ns_common` does with `struct ns_tree`.
    pub fn member(&self, path: &str) -> Result<Option<Place>, BtfError> {
        let (root, members) = path
            .split_once('.')
            .ok_or_else(|| BtfError::BadPath(path.to_owned()))?;
        let mut budget = MAX_MEMBERS;
        let mut found: Option<Place> = None;
        for id in self.named(root) {
            if !matches!(self.get(id)?.kind, Kind::Struct | Kind::Union) {
                continue;
            }
            let Some(place) = self.place(id, members, &mut budget)? else {
                continue;
            };
            match &found {
                // Duplicates are common in modules; they differ in types of types only.
                Some(found) if found.layout() == place.layout() => {}
                Some(_) => return Err(BtfError::Ambiguous(path.to_owned())),
                None => found = Some(place),
            }
        }
        Ok(found)
    }

    /// Names and values of an enum, in the kernel's order. Negative values are sign-extended.
    pub fn enum_values(&self, name: &str) -> Option<Vec<(String, u64)>> {
        self.named(name).find_map(|id| {
            let (blob, ty) = self.locate(id)?;
            let words = match ty.kind {
                Kind::Enum => 2,
                Kind::Enum64 => 3,
                _ => return None,
            };
            (0..ty.items)
                .map(|item| {
                    let name = self.name(id, blob.item(&ty, item, words, 0)?).ok()?;
                    let low = blob.item(&ty, item, words, 1)?;
                    let high = match ty.kind {
                        Kind::Enum64 => blob.item(&ty, item, words, 2)?,
                        _ if ty.flag && low >> 31 == 1 => u32::MAX,
                        _ => 0,
                    };
                    Some((name.into_owned(), u64::from(high) << 32 | u64::from(low)))
                })
                .collect()
        })
    }

    /// C types of what a tracepoint passes; `None`: no such tracepoint, or it is in a module.
    ///
    /// Read from `typedef void (*btf_trace_NAME)(void *__data, …)`, which exists for programs of this kind; the
    /// parameters have no names there.
    pub fn tracepoint_args(&self, tracepoint: &str) -> Option<Vec<String>> {
        self.named(&format!("btf_trace_{tracepoint}"))
            .find_map(|id| {
                if self.get(id).ok()?.kind != Kind::Typedef {
                    return None;
                }
                let (_, pointer) = self.skip_modifiers(id).ok()?;
                if pointer.kind != Kind::Ptr {
                    return None;
                }
                let parameters = self.parameters(pointer.size_or_id).ok()?;
                parameters
                    .iter()
                    .skip(1)
                    .map(|&id| self.c_type(id).ok())
                    .collect()
            })
    }

    /// Follows every type as far as a question can lead, and says how many lead nowhere: for tests and fuzzing.
    #[doc(hidden)]
    pub fn follow_all(&self) -> usize {
        let base = self.base.as_ref().map_or(0, |base| base.len());
        (base..base.saturating_add(self.own.len()))
            .filter(|index| {
                let id = index.saturating_add(1);
                let place = self.place(id, "no.such_member", &mut { MAX_MEMBERS });
                // Functions, variables and forward declarations have no size, which is no fault.
                drop(self.size(id));
                self.c_type(id).is_err() || place.is_err()
            })
            .count()
    }

    fn place(&self, root: Id, members: &str, budget: &mut u32) -> Result<Option<Place>, BtfError> {
        let mut at = Member {
            target: root,
            bit: 0,
            width: 0,
        };
        for name in members.split('.') {
            let (id, _) = self.skip_modifiers(at.target)?;
            match self.find(id, name.as_bytes(), MAX_NESTING, budget)? {
                Some(member) => {
                    let bit = at
                        .bit
                        .checked_add(member.bit)
                        .ok_or(BtfError::BadReference(id))?;
                    at = Member { bit, ..member };
                }
                None => return Ok(None),
            }
        }
        let too_wide = |_| BtfError::BadReference(root);
        Ok(Some(Place {
            byte: at.bit / 8,
            bit: if at.width == 0 { 0 } else { (at.bit % 8) as u8 },
            width: u8::try_from(at.width).map_err(too_wide)?,
            size: self.size(at.target)?,
            c_type: self.c_type(at.target)?,
        }))
    }

    /// The member of that name, its bit counted from the start of `id`.
    fn find(
        &self,
        id: Id,
        name: &[u8],
        nesting: u32,
        budget: &mut u32,
    ) -> Result<Option<Member>, BtfError> {
        // `void` has no members.
        let Some((blob, ty)) = self.locate(id) else {
            return Ok(None);
        };
        if !matches!(ty.kind, Kind::Struct | Kind::Union) {
            return Ok(None);
        }
        let nesting = nesting.checked_sub(1).ok_or(BtfError::TooDeep(id))?;
        for item in 0..ty.items {
            *budget = budget.checked_sub(1).ok_or(BtfError::TooDeep(id))?;
            let word = |word| {
                blob.item(&ty, item, 3, word)
                    .ok_or(BtfError::BadReference(id))
            };
            let (member_name, target, offset) = (word(0)?, word(1)?, word(2)?);
            let (bit, width) = if ty.flag {
                (offset & 0x00ff_ffff, offset >> 24)
            } else {
                self.narrow_int(target, offset)?
            };
            if member_name == 0 {
                let (inside, _) = self.skip_modifiers(target)?;
                if let Some(member) = self.find(inside, name, nesting, budget)? {
                    let bit = bit
                        .checked_add(member.bit)
                        .ok_or(BtfError::BadReference(id))?;
                    return Ok(Some(Member { bit, ..member }));
                }
            } else if self.string(member_name) == Some(name) {
                return Ok(Some(Member { target, bit, width }));
            }
        }
        Ok(None)
    }

    /// First bit and width of a member whose struct does not tell bitfields apart: it is one if its integer type is
    /// narrower than its bytes. `(bit, 0)`: it is none.
    fn narrow_int(&self, target: Id, bit: u32) -> Result<(u32, u32), BtfError> {
        let (id, ty) = self.skip_modifiers(target)?;
        if ty.kind != Kind::Int {
            return Ok((bit, 0));
        }
        let encoding = self
            .locate(id)
            .and_then(|(blob, ty)| blob.item(&ty, 0, 1, 0))
            .ok_or(BtfError::BadReference(id))?;
        let (first, width) = ((encoding >> 16) & 0xff, encoding & 0xff);
        if width == ty.size_or_id.saturating_mul(8) {
            return Ok((bit, 0));
        }
        Ok((
            bit.checked_add(first).ok_or(BtfError::BadReference(id))?,
            width,
        ))
    }

    fn size(&self, id: Id) -> Result<u32, BtfError> {
        let mut count = 1_u32;
        let mut at = id;
        for _ in 0..MAX_CHAIN {
            let (inner, ty) = self.skip_modifiers(at)?;
            let one = match ty.kind {
                Kind::Array => {
                    let (element, length) = self.array(inner)?;
                    count = count
                        .checked_mul(length)
                        .ok_or(BtfError::BadReference(id))?;
                    at = element;
                    continue;
                }
                // Kernels with BPF on the hosts this tool is built for are 64-bit.
                Kind::Ptr => 8,
                Kind::Int
                | Kind::Struct
                | Kind::Union
                | Kind::Enum
                | Kind::Enum64
                | Kind::Float => ty.size_or_id,
                _ => return Err(BtfError::BadReference(id)),
            };
            return count.checked_mul(one).ok_or(BtfError::BadReference(id));
        }
        Err(BtfError::TooDeep(id))
    }

    /// The type behind typedefs, qualifiers and tags.
    fn skip_modifiers(&self, id: Id) -> Result<(Id, Type), BtfError> {
        let mut at = id;
        for _ in 0..MAX_CHAIN {
            let ty = self.get(at)?;
            match ty.kind {
                Kind::Typedef | Kind::Const | Kind::Volatile | Kind::Restrict | Kind::TypeTag => {
                    at = ty.size_or_id;
                }
                _ => return Ok((at, ty)),
            }
        }
        Err(BtfError::TooDeep(id))
    }

    /// Element type and length.
    fn array(&self, id: Id) -> Result<(Id, u32), BtfError> {
        let (blob, ty) = self.locate(id).ok_or(BtfError::BadReference(id))?;
        let word = |word| blob.item(&ty, 0, 3, word).ok_or(BtfError::BadReference(id));
        Ok((word(0)?, word(2)?))
    }

    /// Parameter types of a function prototype.
    fn parameters(&self, id: Id) -> Result<Vec<Id>, BtfError> {
        match self.locate(id) {
            Some((blob, ty)) if ty.kind == Kind::FuncProto => (0..ty.items)
                .map(|item| blob.item(&ty, item, 2, 1).ok_or(BtfError::BadReference(id)))
                .collect(),
            _ => Err(BtfError::BadReference(id)),
        }
    }

    fn get(&self, id: Id) -> Result<Type, BtfError> {
        if id == 0 {
            return Ok(VOID);
        }
        self.locate(id)
            .map(|(_, ty)| ty)
            .ok_or(BtfError::BadReference(id))
    }

    /// A type and the file it is in. Numbers of a module go on where those of vmlinux end.
    fn locate(&self, id: Id) -> Option<(&Blob, Type)> {
        let index = id.checked_sub(1)?;
        let Some(base) = &self.base else {
            return Some((&self.own, self.own.get(index)?));
        };
        match index.checked_sub(base.len()) {
            Some(own) => Some((&self.own, self.own.get(own)?)),
            None => Some((base, base.get(index)?)),
        }
    }

    /// Types of this name, those of the module first.
    fn named(&self, name: &str) -> impl Iterator<Item = Id> {
        let base = self.base.as_ref().map_or(0, |base| base.len());
        let own = self.own.candidates(name.as_bytes());
        let below = self
            .base
            .iter()
            .flat_map(|base| base.candidates(name.as_bytes()));
        own.map(move |index| index.saturating_add(base).saturating_add(1))
            .chain(below.map(|index| index.saturating_add(1)))
            .filter(move |&id| {
                self.get(id)
                    .is_ok_and(|ty| self.string(ty.name) == Some(name.as_bytes()))
            })
    }

    fn string(&self, offset: u32) -> Option<&[u8]> {
        self.own.string(offset, self.base.as_deref())
    }

    fn name(&self, id: Id, offset: u32) -> Result<Cow<'_, str>, BtfError> {
        let bytes = self.string(offset).ok_or(BtfError::BadReference(id))?;
        Ok(String::from_utf8_lossy(bytes))
    }
}

impl fmt::Debug for Btf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let base = self.base.as_ref().map_or(0, |base| base.len());
        write!(f, "Btf({} types over {base})", self.own.len())
    }
}

fn read_sysfs(name: &str) -> Result<Vec<u8>, BtfError> {
    let path = PathBuf::from("/sys/kernel/btf").join(name);
    std::fs::read(&path).map_err(|error| BtfError::Read(path, error))
}
