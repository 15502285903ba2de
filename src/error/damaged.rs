//! Damage that a storage finds in its own data: the bytes of the file there cannot be read.

use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use super::fault::Fault;
use super::{Error, Location};
use crate::types::Position;

/// Bytes of a file that cannot be read, and the fault in the object that holds them.
#[derive(Clone, Debug)]
pub(crate) struct DamagedRange {
    /// The bytes of the file.
    pub(crate) range: Range<Position>,
    /// The fault, and its place in the object that was read.
    pub(crate) fault: Arc<Fault>,
    /// The error that it is, as those of a `.log`.
    pub(crate) error: fn(Box<Fault>) -> Error,
}

impl DamagedRange {
    /// The damage that made a read fail.
    pub(crate) fn met(error: &io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// The error for a reader that needs the bytes.
    pub(crate) fn to_error(&self) -> Error {
        (self.error)(Box::new(Fault::clone(&self.fault)))
    }
}

impl From<DamagedRange> for io::Error {
    fn from(damaged: DamagedRange) -> Self {
        Self::new(io::ErrorKind::InvalidData, damaged)
    }
}

impl PartialEq for DamagedRange {
    fn eq(&self, other: &Self) -> bool {
        self.range == other.range && self.fault == other.fault
    }
}

impl Eq for DamagedRange {}

impl fmt::Display for DamagedRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fault.fmt(f)
    }
}

impl std::error::Error for DamagedRange {}

impl Fault {
    /// A fault from its text, in which other words say what was found.
    pub(crate) fn from_text(location: Location, text: &str) -> Self {
        const WHAT: &str = "object";
        let stated = match text.strip_prefix("expected ") {
            Some(rest) => Some((WHAT, rest)),
            None => text.split_once(": expected "),
        };
        let parts = stated.and_then(|(what, rest)| Some((what, rest.rsplit_once(", found ")?)));
        let (what, (expected, found)) = parts.unwrap_or((WHAT, ("one that can be read", text)));
        Self {
            location,
            kind: super::FaultKind::Other,
            what: what.to_owned().into(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        }
    }
}
