//! Whole batches that loading would take out of a log, and whether it may.

use std::fmt;
use std::path::Path;

use crate::error::Error;
use crate::format::batch::BatchHeader;
use crate::types::{Offset, Position};

/// Action if loading would remove whole batches from a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnLoss {
    /// Raise an error and change nothing. A torn tail is not a loss unless a whole batch follows the tear; it is cut.
    #[default]
    Refuse,
    /// Do what a broker's start does, and refuse only if Kafka does not load the log.
    AsKafka,
    /// Keep every batch that is whole and in order; the result loads in Kafka.
    Salvage,
}

/// The two alternatives of a refusal.
pub(crate) const WAYS_OUT: &str = "nothing was changed; in recover, salvage keeps every batch that is whole and in order \
                                   (--salvage, on_loss=\"salvage\"), and as_kafka does what a broker's start does \
                                   (--as-kafka, on_loss=\"as_kafka\")";

/// Whole batches that would be lost, for one reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    /// The file of the first of them.
    pub name: String,
    /// Position of the first of them.
    pub position: Position,
    /// Their place, and the cause of the loss.
    pub reason: String,
    /// Batches.
    pub batches: u64,
    /// Records of them.
    pub records: u64,
    /// Bytes of them.
    pub bytes: u64,
    /// The lowest offset of them.
    pub first_offset: Offset,
    /// The highest.
    pub last_offset: Offset,
}

impl Loss {
    pub(super) fn new(
        name: &str,
        position: Position,
        header: &BatchHeader,
        reason: String,
    ) -> Self {
        Self {
            name: name.to_owned(),
            position,
            reason,
            batches: 0,
            records: 0,
            bytes: 0,
            first_offset: header.base_offset,
            last_offset: header.base_offset,
        }
    }

    pub(super) fn count(&mut self, header: &BatchHeader) {
        // Of a wrapper, offsets say how many records it has at most.
        let offsets = header.next_offset().saturating_sub(header.base_offset);
        let records = header.records_count.map_or(offsets, i64::from);
        self.batches = self.batches.saturating_add(1);
        self.records = self
            .records
            .saturating_add(u64::try_from(records).unwrap_or(0));
        self.bytes = self.bytes.saturating_add(header.size as u64);
        self.first_offset = self.first_offset.min(header.base_offset);
        self.last_offset = self.last_offset.max(header.last_offset());
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let records = match self.records {
            1 => "1 whole record lies".to_owned(),
            records => format!("{records} whole records lie"),
        };
        write!(
            f,
            "{records} {} ({} batches, {} bytes, offsets {} to {})",
            self.reason, self.batches, self.bytes, self.first_offset, self.last_offset
        )
    }
}

/// The error of a refusal, without the alternatives. Where a segment would be cut, it says why, and at which offset.
pub(super) fn refusal(
    losses: &[Loss],
    damage: Option<(&str, Offset)>,
    folder: &Path,
) -> Option<Error> {
    let first = losses.first()?;
    let mut all: Vec<String> = losses.iter().map(Loss::to_string).collect();
    let lowest = losses.iter().map(|loss| loss.first_offset).min();
    let mut offset = lowest.unwrap_or(first.first_offset);
    if let Some((why, end)) = damage {
        all.push(why.to_owned());
        offset = offset.min(end);
    }
    let expected = "a log from which loading takes no whole batch";
    let error = Error::corrupt("loading", first.position, expected, all.join("; "));
    Some(error.at(&folder.join(&first.name)).for_offset(offset))
}

/// Reason for the loss of the batches that follow a cut.
pub(super) fn behind_damage(base_offset: Offset, position: Position) -> String {
    format!("after the damage at byte {position} of segment {base_offset}")
}
