//! What stops a segment's recovery.

use crate::error::Error;
use crate::types::Offset;

/// What ends Kafka's recovery of a segment other than a batch to be cut.
#[derive(Debug)]
pub(super) enum LoadFailure {
    /// `InvalidOffsetException`: offsets go back where an index entry is due.
    InvalidOffset(Error),
    /// `LogSegmentOffsetOverflowException`, in the segment with this base.
    Overflow(Offset, Error),
    /// Anything else.
    Fatal(Error),
}

impl From<Error> for LoadFailure {
    fn from(error: Error) -> Self {
        Self::Fatal(error)
    }
}

impl LoadFailure {
    pub(super) fn into_error(self) -> Error {
        let (Self::InvalidOffset(error) | Self::Overflow(_, error) | Self::Fatal(error)) = self;
        error
    }
}
