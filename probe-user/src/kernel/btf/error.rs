use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why BTF could not be read.
#[derive(Debug)]
pub enum BtfError {
    /// The file could not be read.
    Read(PathBuf, io::Error),
    /// It begins with something else.
    NotBtf,
    /// It was written for a host of the other byte order.
    ByteOrder,
    /// A format this reader does not know.
    Version(u8),
    /// It ends within the part named.
    Truncated(&'static str),
    /// A kind of type this reader does not know (`BTF_KIND_*`): the length of what follows it is unknown too.
    UnknownKind(u32),
    /// The type with this number refers to one that does not exist, or to one that makes no sense there.
    BadReference(u32),
    /// The type with this number is nested deeper than any real one.
    TooDeep(u32),
    /// Two types of the same name put this member at different places.
    Ambiguous(String),
    /// Not of the form `type.member`.
    BadPath(String),
}

impl fmt::Display for BtfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read(path, error) => write!(f, "read {}: {error}", path.display()),
            Self::NotBtf => f.write_str("parse BTF: it is no BTF"),
            Self::ByteOrder => f.write_str("parse BTF: it is of the other byte order"),
            Self::Version(version) => write!(f, "parse BTF: version {version} is not known"),
            Self::Truncated(part) => write!(f, "parse BTF {part}: it ends too early"),
            Self::UnknownKind(kind) => write!(f, "parse BTF types: kind {kind} is not known"),
            Self::BadReference(id) => {
                write!(f, "follow BTF type {id}: it does not lead to a usable type")
            }
            Self::TooDeep(id) => write!(f, "follow BTF type {id}: it is nested too deeply"),
            Self::Ambiguous(path) => {
                write!(f, "find {path} in BTF: several types of that name differ")
            }
            Self::BadPath(path) => write!(f, "find {path} in BTF: a path has the form type.member"),
        }
    }
}

impl std::error::Error for BtfError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            _ => None,
        }
    }
}
