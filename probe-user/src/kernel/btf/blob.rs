//! The bytes of one BTF file: where each type lies, and its names.
//!
//! Layout: Linux `include/uapi/linux/btf.h`. A header, then types back to back (12 bytes and what the kind needs), then
//! NUL-terminated strings. Types are numbered from 1 in file order; 0 is `void`. [`Blob::parse`] checks the extent of
//! every type once; what it did not check (references between types, string offsets) is checked when followed.

use std::ops::Range;

use super::BtfError;

const MAGIC: u16 = 0xeb9f;
const HEADER: usize = 24;
/// `KSYM_NAME_LEN`, which the kernel's own reader enforces.
const MAX_NAME: usize = 512;

/// What a type is: `BTF_KIND_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Void,
    Int,
    Ptr,
    Array,
    Struct,
    Union,
    Enum,
    Fwd,
    Typedef,
    Volatile,
    Const,
    Restrict,
    Func,
    FuncProto,
    Var,
    DataSec,
    Float,
    DeclTag,
    TypeTag,
    Enum64,
}

impl Kind {
    fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Int,
            2 => Self::Ptr,
            3 => Self::Array,
            4 => Self::Struct,
            5 => Self::Union,
            6 => Self::Enum,
            7 => Self::Fwd,
            8 => Self::Typedef,
            9 => Self::Volatile,
            10 => Self::Const,
            11 => Self::Restrict,
            12 => Self::Func,
            13 => Self::FuncProto,
            14 => Self::Var,
            15 => Self::DataSec,
            16 => Self::Float,
            17 => Self::DeclTag,
            18 => Self::TypeTag,
            19 => Self::Enum64,
            _ => return None,
        })
    }

    /// Bytes after the 12 every type has: so many, and so many more per item.
    fn extra(self) -> (usize, usize) {
        match self {
            Self::Int | Self::Var | Self::DeclTag => (4, 0),
            Self::Array => (12, 0),
            Self::Struct | Self::Union | Self::DataSec | Self::Enum64 => (0, 12),
            Self::Enum | Self::FuncProto => (0, 8),
            _ => (0, 0),
        }
    }

    /// Is it looked up by name? The other names (functions, variables) are four fifths of all and nobody asks for them.
    fn is_indexed(self) -> bool {
        matches!(
            self,
            Self::Struct | Self::Union | Self::Enum | Self::Enum64 | Self::Typedef
        )
    }
}

/// The fixed part of a type.
#[derive(Clone, Copy, Debug)]
pub(super) struct Type {
    /// String offset, 0: unnamed.
    pub(super) name: u32,
    pub(super) kind: Kind,
    /// `kind_flag`: bitfields in a struct, signed in an enum, union in a forward declaration.
    pub(super) flag: bool,
    /// Members, values or parameters.
    pub(super) items: u32,
    /// Size in bytes or the type referred to, as the kind has it.
    pub(super) size_or_id: u32,
    /// Where its items begin.
    at: usize,
}

/// The type numbered 0.
pub(super) const VOID: Type = Type {
    name: 0,
    kind: Kind::Void,
    flag: false,
    items: 0,
    size_or_id: 0,
    at: 0,
};

/// One BTF file.
pub(super) struct Blob {
    bytes: Vec<u8>,
    strings: Range<usize>,
    /// Offset of each type.
    types: Vec<u32>,
    /// (hash of the name, index into `types`), sorted. Hashes keep the index at 8 bytes a name.
    index: Vec<(u32, u32)>,
}

impl Blob {
    /// `base`: the file this one extends; type numbers and string offsets go on where those of `base` end.
    pub(super) fn parse(bytes: Vec<u8>, base: Option<&Self>) -> Result<Self, BtfError> {
        let magic = u16_at(&bytes, 0).ok_or(BtfError::Truncated("header"))?;
        if magic == MAGIC.swap_bytes() {
            return Err(BtfError::ByteOrder);
        }
        if magic != MAGIC {
            return Err(BtfError::NotBtf);
        }
        let version = *bytes.get(2).ok_or(BtfError::Truncated("header"))?;
        if version != 1 {
            return Err(BtfError::Version(version));
        }
        let header = size_at(&bytes, 4).ok_or(BtfError::Truncated("header"))?;
        if header < HEADER {
            return Err(BtfError::Truncated("header"));
        }
        let types = section(&bytes, header, 8).ok_or(BtfError::Truncated("types"))?;
        let strings = section(&bytes, header, 16).ok_or(BtfError::Truncated("strings"))?;

        let mut blob = Self {
            bytes,
            strings,
            types: Vec::new(),
            index: Vec::new(),
        };
        blob.scan(types, base)?;
        Ok(blob)
    }

    fn scan(&mut self, section: Range<usize>, base: Option<&Self>) -> Result<(), BtfError> {
        let mut at = section.start;
        while at < section.end {
            let number = u32::try_from(self.types.len())
                .map_err(|_too_many| BtfError::Truncated("types"))?;
            let info = u32_at(&self.bytes, at + 4).ok_or(BtfError::Truncated("types"))?;
            let kind =
                Kind::from_number(kind_bits(info)).ok_or(BtfError::UnknownKind(kind_bits(info)))?;
            let (fixed, each) = kind.extra();
            let end = at + 12 + fixed + each * item_bits(info) as usize;
            if end > section.end {
                return Err(BtfError::Truncated("types"));
            }
            if kind.is_indexed() {
                let name = u32_at(&self.bytes, at).ok_or(BtfError::Truncated("types"))?;
                if let Some(name) = self.string(name, base).filter(|name| !name.is_empty()) {
                    self.index.push((hash(name), number));
                }
            }
            self.types
                .push(u32::try_from(at).map_err(|_too_big| BtfError::Truncated("types"))?);
            at = end;
        }
        self.types.shrink_to_fit();
        self.index.shrink_to_fit();
        self.index.sort_unstable();
        Ok(())
    }

    /// How many types it has.
    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.types.len()).unwrap_or(u32::MAX)
    }

    /// The type at an index (not a type number).
    pub(super) fn get(&self, index: u32) -> Option<Type> {
        let at = *self.types.get(index as usize)? as usize;
        let info = u32_at(&self.bytes, at + 4)?;
        Some(Type {
            name: u32_at(&self.bytes, at)?,
            kind: Kind::from_number(kind_bits(info))?,
            flag: info >> 31 == 1,
            items: item_bits(info),
            size_or_id: u32_at(&self.bytes, at + 8)?,
            at: at + 12,
        })
    }

    /// The `word`-th number of the `item`-th item, items being `words` long.
    pub(super) fn item(&self, of: &Type, item: u32, words: usize, word: usize) -> Option<u32> {
        u32_at(&self.bytes, of.at + (item as usize * words + word) * 4)
    }

    /// Indices of the types that may have this name, in file order: the caller compares the names.
    pub(super) fn candidates(&self, name: &[u8]) -> impl Iterator<Item = u32> {
        let wanted = hash(name);
        let from = self.index.partition_point(|&(hash, _)| hash < wanted);
        let rest = self.index.get(from..).unwrap_or_default();
        rest.iter()
            .take_while(move |&&(hash, _)| hash == wanted)
            .map(|&(_, index)| index)
    }

    /// The string at an offset, without its NUL.
    pub(super) fn string<'a>(&'a self, offset: u32, base: Option<&'a Self>) -> Option<&'a [u8]> {
        let mut offset = offset as usize;
        if let Some(base) = base {
            match offset.checked_sub(base.strings.len()) {
                Some(own) => offset = own,
                None => return base.string(u32::try_from(offset).ok()?, None),
            }
        }
        let strings = self.bytes.get(self.strings.clone())?;
        let rest = strings.get(offset..)?;
        rest.get(..rest.iter().take(MAX_NAME).position(|&byte| byte == 0)?)
    }
}

/// Bits the format does not use are 0 in every kernel so far; reading them as part of the number costs nothing and
/// makes an extension of the field an unknown kind instead of a wrong one.
fn kind_bits(info: u32) -> u32 {
    (info >> 24) & 0x7f
}

fn item_bits(info: u32) -> u32 {
    info & 0x00ff_ffff
}

fn section(bytes: &[u8], header: usize, field: usize) -> Option<Range<usize>> {
    let start = header.checked_add(size_at(bytes, field)?)?;
    let end = start.checked_add(size_at(bytes, field + 4)?)?;
    (end <= bytes.len()).then_some(start..end)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn size_at(bytes: &[u8], at: usize) -> Option<usize> {
    usize::try_from(u32_at(bytes, at)?).ok()
}

/// FNV-1a.
fn hash(name: &[u8]) -> u32 {
    name.iter().fold(0x811c_9dc5, |hash, &byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}
