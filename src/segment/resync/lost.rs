//! Bytes that give no batch, and why not.

use std::fmt;

use crate::error::Error;
use crate::types::{Offset, Position};

/// Fault of bytes that give no batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reason {
    /// The checksum differs.
    Crc,
    /// The length field is wrong.
    Length,
    /// The magic is unknown, or another one than the bytes were written with.
    Magic,
    /// Its offsets or leader epoch contradict the batches around it.
    Order,
    /// The records cannot be decoded, although the checksum is right.
    Records,
    /// The records cannot be decompressed, although the checksum is right.
    Codec,
    /// The batch is incomplete.
    Torn,
    /// No batch at all.
    Foreign,
    /// A segment that does not exist.
    Missing,
    /// A batch without a transaction while its producer has one open: only salvage leaves it out, as Kafka loads no log
    /// with such a batch.
    Transaction,
    /// A record whose timestamp the unit of the column cannot hold.
    Timestamp,
}

impl Reason {
    /// As tables and messages spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Crc => "crc",
            Self::Length => "length",
            Self::Magic => "magic",
            Self::Order => "order",
            Self::Records => "records",
            Self::Codec => "codec",
            Self::Torn => "torn",
            Self::Foreign => "foreign",
            Self::Missing => "missing",
            Self::Transaction => "transaction",
            Self::Timestamp => "timestamp",
        }
    }

    /// Of an error that decoding the records of a batch with a right checksum ended with.
    #[must_use]
    pub(crate) const fn of_decoding(error: &Error) -> Self {
        match error {
            Error::InvalidRecord(_) => Self::Records,
            _ => Self::Codec,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Bytes that give no batch, between two that do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The first of them.
    pub position: Position,
    /// The first byte after them.
    pub end: Position,
    /// The lowest offset that a record there may have had: the one after the batch before. `None` if there is no room for
    /// any.
    pub first_offset: Option<Offset>,
    /// The highest, by the batch or the segment that follows. `None` if there is no room for any, and where nothing
    /// follows.
    pub last_offset: Option<Offset>,
    /// Fault of the first of the lost bytes.
    pub reason: Reason,
}

impl Lost {
    /// From `position` to `end`, its offsets not known yet ([`Lost::between`]).
    #[must_use]
    pub(crate) const fn new(position: Position, end: Position, reason: Reason) -> Self {
        Self {
            position,
            end,
            first_offset: None,
            last_offset: None,
            reason,
        }
    }

    /// A record of the batch at `position`, whose timestamp no column holds: the rest of the batch is given.
    #[must_use]
    pub(crate) const fn record(position: Position, offset: Offset) -> Self {
        Self {
            position,
            end: position,
            first_offset: Some(offset),
            last_offset: Some(offset),
            reason: Reason::Timestamp,
        }
    }

    /// With the offsets between `floor`, below which everything was found, and `next`, from which on it was.
    #[must_use]
    pub(crate) fn between(mut self, floor: Offset, next: Option<Offset>) -> Self {
        let has_room = next.is_none_or(|next| next > floor);
        self.first_offset = has_room.then_some(floor);
        self.last_offset = next.filter(|_| has_room).map(|next| next.saturating_sub(1));
        self
    }

    /// Returns whether it may hold one of the `wanted` offsets, from the first to before the second. Without room for
    /// an offset it still lies beside `floor`, below which everything was found.
    #[must_use]
    pub(crate) fn touches(&self, floor: Offset, (from, to): (Offset, Offset)) -> bool {
        let last = match self.first_offset {
            Some(_) => self.last_offset.unwrap_or(Offset::MAX),
            None => floor,
        };
        last >= from && floor < to
    }

    /// Joins what follows without a batch between; false where something lies between.
    pub(crate) fn join(&mut self, next: &Self) -> bool {
        let are_records = [self.reason, next.reason].map(|reason| reason == Reason::Timestamp);
        let follows = match are_records {
            [true, true] => (self.last_offset.and_then(|last| last.checked_add(1)))
                .is_some_and(|after| next.first_offset == Some(after)),
            [false, false] => self.end == next.position && self.reason != Reason::Missing,
            _ => false,
        };
        if !follows {
            return false;
        }
        self.end = next.end;
        self.first_offset = self.first_offset.or(next.first_offset);
        self.last_offset = next.last_offset;
        true
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.position)
    }
}
