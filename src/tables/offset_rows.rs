//! Committed offsets as a stream of Arrow record batches.
//!
//! | column | type | null |
//! |---|---|---|
//! | group, topic, partition | string, string, int32 | |
//! | offset, leaderEpoch, metadata | int64, int32, string | for a deletion |
//! | commitTimestamp, expireTimestamp | timestamp\[ms, UTC\] | where the record has none |
//! | topicId | string | before Kafka 4.1 |
//! | isPending | bool | |
//! | logOffset, logTimestamp | int64, timestamp\[ms, UTC\]: of the record; in a history only | |

use std::sync::Arc;
use std::vec::IntoIter;

use arrow_array::{
    ArrayRef, BooleanArray, Int32Array, Int64Array, RecordBatch, StringArray,
    TimestampMillisecondArray,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef, TimeUnit};

use super::metadata_state::AllRefused;
use super::offsets::{OffsetRow, current, history};
use crate::arrow::batches::aligned;
use crate::error::{Error, Result};
use crate::format::uuid::Uuid;
use crate::scan::range::PartitionRange;
use crate::segment::metrics::Metrics;
use crate::types::TimestampMs;

/// Rows of a record batch: with the longest names and metadata (32,767 bytes each) below 2 GiB.
const ROWS: usize = 1 << 14;

/// The schema of every batch.
pub(crate) fn schema(with_history: bool) -> SchemaRef {
    let time = || DataType::Timestamp(TimeUnit::Millisecond, Some("UTC".into()));
    let mut columns = vec![
        ("group", DataType::Utf8),
        ("topic", DataType::Utf8),
        ("partition", DataType::Int32),
        ("offset", DataType::Int64),
        ("leaderEpoch", DataType::Int32),
        ("metadata", DataType::Utf8),
        ("commitTimestamp", time()),
        ("expireTimestamp", time()),
        ("topicId", DataType::Utf8),
        ("isPending", DataType::Boolean),
    ];
    if with_history {
        columns.extend([("logOffset", DataType::Int64), ("logTimestamp", time())]);
    }
    let fields = columns.into_iter();
    let fields = fields.map(|(name, kind)| Field::new(name, kind, true));
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Selection of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WantedRows {
    /// Of the offsets as they are, pending ones too.
    Current,
    /// Of those that were committed.
    Committed,
    /// Of every change.
    History,
}

/// Gives the rows of a replay.
#[derive(Debug)]
pub(crate) struct OffsetReader {
    schema: SchemaRef,
    rows: IntoIter<OffsetRow>,
    metrics: Metrics,
    refused: Arc<AllRefused>,
    given: u64,
}

impl OffsetReader {
    /// Replays `ranges`, which hold `__consumer_offsets`.
    ///
    /// # Errors
    /// What reading finds; never what a record holds.
    pub(crate) fn try_new(ranges: Vec<PartitionRange>, wanted: WantedRows) -> Result<Self> {
        let with_history = wanted == WantedRows::History;
        let (rows, replayed) = if with_history {
            history(ranges)?
        } else {
            current(ranges, wanted == WantedRows::Current)?
        };
        Ok(Self {
            schema: schema(with_history),
            rows: rows.into_iter(),
            metrics: replayed.metrics,
            refused: Arc::new(replayed.refused),
            given: 0,
        })
    }

    /// Commits that could not be decoded.
    pub(crate) fn refused(&self) -> Arc<AllRefused> {
        Arc::clone(&self.refused)
    }

    /// Counts, and the rows so far.
    pub(crate) const fn metrics(&self) -> (Metrics, u64) {
        (self.metrics, self.given)
    }

    /// The next rows; `None` at the end.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub(crate) fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let rows: Vec<OffsetRow> = self.rows.by_ref().take(ROWS).collect();
        if rows.is_empty() {
            return Ok(None);
        }
        self.given = self.given.saturating_add(rows.len() as u64);
        let columns = columns_of(&rows)
            .into_iter()
            .take(self.schema.fields().len());
        let columns = columns.map(|column| aligned(&column));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), columns);
        let batch =
            batch.map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?;
        Ok(Some(batch))
    }
}

fn columns_of(rows: &[OffsetRow]) -> [ArrayRef; 12] {
    let text = |of: fn(&OffsetRow) -> Option<&str>| -> ArrayRef {
        Arc::new(rows.iter().map(of).collect::<StringArray>())
    };
    let time = |of: fn(&OffsetRow) -> Option<TimestampMs>| -> ArrayRef {
        let times = rows.iter().map(of);
        Arc::new(
            times
                .collect::<TimestampMillisecondArray>()
                .with_timezone("UTC"),
        )
    };
    let ids = rows.iter().map(|row| {
        let id = row.commit.as_ref().map(|commit| commit.topic_id);
        id.filter(|id| *id != Uuid::ZERO).map(|id| id.to_string())
    });
    let offsets = rows.iter().map(|row| row.commit.as_ref().map(|c| c.offset));
    let epochs = rows
        .iter()
        .map(|row| row.commit.as_ref().map(|c| c.leader_epoch));
    [
        text(|row| Some(&row.place.0)),
        text(|row| Some(&row.place.1)),
        Arc::new(Int32Array::from_iter_values(
            rows.iter().map(|row| row.place.2),
        )),
        Arc::new(offsets.collect::<Int64Array>()),
        Arc::new(epochs.collect::<Int32Array>()),
        text(|row| row.commit.as_ref().map(|c| &*c.metadata)),
        time(|row| known(row.commit.as_ref()?.committed_at)),
        time(|row| known(row.commit.as_ref()?.expires_at)),
        Arc::new(ids.collect::<StringArray>()),
        Arc::new(
            rows.iter()
                .map(|row| Some(row.is_pending))
                .collect::<BooleanArray>(),
        ),
        Arc::new(Int64Array::from_iter_values(
            rows.iter().map(|row| row.log_offset),
        )),
        time(|row| Some(row.log_timestamp)),
    ]
}

/// A time that is one: Kafka writes -1 for none.
fn known(time: TimestampMs) -> Option<TimestampMs> {
    (time >= 0).then_some(time)
}
