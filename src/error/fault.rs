//! A fault and its place: in a file, or in our own code.

use std::borrow::Cow;
use std::fmt;
use std::panic;
use std::path::{Path, PathBuf};

use crate::types::{Offset, Position};

/// Place of a fault.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Location {
    /// The file or folder.
    pub path: Option<PathBuf>,
    /// The byte in it; relative to the given bytes until a layer above shifts it.
    pub position: Option<Position>,
    /// The offset of the record or batch, where one is known.
    pub offset: Option<Offset>,
}

/// The kind of a [`Fault`], for code that acts on it; a person reads the text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// A checksum that differs from the bytes.
    Crc,
    /// A batch's length that its format does not allow.
    Length,
    /// A batch that ends before its length says.
    Torn,
    /// A magic that this build does not know.
    Magic,
    /// Offsets or a leader epoch that contradict each other, the neighbours or the segment.
    Order,
    /// A number of records below 0.
    RecordsCount,
    /// A segment that is longer than Kafka's positions reach, or shorter than it was.
    SegmentSize,
    /// A transaction's control record of a type that ends none: Kafka throws another exception than for damage.
    ControlType,
    /// A key or value that its schema does not decode: the log itself is sound.
    Undecoded,
    /// Anything else.
    #[default]
    Other,
}

/// One thing that is not as the format says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// Place of the fault.
    pub location: Location,
    /// The kind.
    pub kind: FaultKind,
    /// The field or structure, in the format's words ("batch length", "crc").
    pub what: Cow<'static, str>,
    /// The value that the format, a limit or a neighbour requires.
    pub expected: String,
    /// The value that was found.
    pub found: String,
}

/// A state that our own code rules out: a bug in this crate, whatever the data or the arguments are.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct InternalFault {
    /// The current file, where one is known.
    pub path: Option<PathBuf>,
    /// The expected and the actual value.
    pub message: String,
    /// The place in our source, unless the message names it.
    pub source: Option<&'static panic::Location<'static>>,
}

/// The file that a message begins with, where one is known.
pub(super) fn prefix(f: &mut fmt::Formatter<'_>, path: Option<&Path>) -> fmt::Result {
    match path {
        Some(path) => write!(f, "{}: ", path.display()),
        None => Ok(()),
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}", path.display())?,
            None => f.write_str("<bytes>")?,
        }
        if let Some(position) = self.position {
            write!(f, ": byte {position}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ": offset {offset}")?;
        }
        Ok(())
    }
}

impl Fault {
    /// Describes the fault without its place.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        let Self {
            what,
            expected,
            found,
            ..
        } = self;
        format!("{what}: expected {expected}, found {found}")
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.location != Location::default() {
            write!(f, "{}: ", self.location)?;
        }
        f.write_str(&self.text())
    }
}

impl fmt::Display for InternalFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        prefix(f, self.path.as_deref())?;
        write!(f, "internal error: {}", self.message)?;
        if let Some(source) = self.source {
            write!(f, " ({}:{})", source.file(), source.line())?;
        }
        let version = env!("CARGO_PKG_VERSION");
        write!(f, "; this is a bug in kafkalog {version}, please report it")
    }
}
