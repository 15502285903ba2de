//! The table of all columns: name, and the [`ValueColumn`] that builds it. Schema and selection derive from it. All columns are nullable, as Spark declares them.
//!
//! Names and types of the first eight are those of Spark's Kafka source; the rest use the field names of
//! `kafka-dump-log`.

use std::sync::Arc;

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt32Type};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::fixed::{flags, numbers, timestamps};
use super::headers::HeadersBuilder;
pub use super::layout::{Layout, TimestampUnit};
use super::payload::PayloadPart;
use super::payload_column::payload;
use super::text::strings;
use super::value_column::ValueColumn;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::records::RecordSlot;
use crate::scan::range::{known_partition, known_topic};
use crate::types::Compression;
use crate::values::decoding::Decoding;
use crate::values::payloads::DecodedPart;
use crate::values::schemas::Side;

/// Columns, their layout, and the size at which a batch is cut.
#[derive(Clone, Debug)]
pub struct ColumnOptions {
    /// In the order of the schema.
    pub columns: Vec<Column>,
    /// Of keys, values and strings.
    pub layout: Layout,
    /// Of the timestamp column.
    pub unit: TimestampUnit,
    /// Most rows of a batch.
    pub batch_rows: usize,
    /// Most bytes of a batch, unless one row alone has more; of decompressed records a quarter, but not below 512 KiB.
    pub batch_bytes: usize,
    /// The decoding of keys and values, if there is one.
    pub decoding: Option<Arc<Decoding>>,
}

impl Default for ColumnOptions {
    fn default() -> Self {
        Self {
            columns: Column::defaults().to_vec(),
            layout: Layout::default(),
            unit: TimestampUnit::default(),
            batch_rows: 65_536,
            batch_bytes: 2 << 20,
            decoding: None,
        }
    }
}

impl ColumnOptions {
    /// Checks that columns of decoded keys and values are decoded.
    ///
    /// # Errors
    /// `InvalidArgument` for one that is not.
    pub(crate) fn check(&self) -> Result<()> {
        let decodes = |side| {
            self.decoding
                .as_ref()
                .is_some_and(|all| all.side(side).is_some())
        };
        for column in &self.columns {
            let name = column.name();
            let side = match Column::ALL.get(Column::RECORDS..).unwrap_or_default() {
                of_decoded if !of_decoded.contains(column) => continue,
                _ if name.starts_with("key") => Side::Key,
                _ => Side::Value,
            };
            if !decodes(side) {
                let side = side.name();
                return Err(Error::InvalidArgument(format!(
                    "column '{name}' is of decoded {side}s: it needs decode=\"{side}\" or \"both\""
                )));
            }
        }
        Ok(())
    }

    /// The schema of the columns.
    #[must_use]
    pub(crate) fn schema(&self) -> SchemaRef {
        let fields = self.columns.iter().map(|column| column.field(self));
        Arc::new(Schema::new(fields.collect::<Vec<_>>()))
    }
}

macro_rules! columns {
    ($($variant:ident $name:literal = $make:expr;)*) => {
        /// A column of records.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Column {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant,
            )*
        }

        impl Column {
            /// All, in the order of the documentation.
            pub const ALL: &'static [Self] = &[$(Self::$variant),*];

            /// Name as users spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }

            /// An empty column.
            pub(crate) fn build(self, options: &ColumnOptions) -> Box<dyn ValueColumn> {
                let make: fn(&ColumnOptions) -> Box<dyn ValueColumn> = match self {
                    $(Self::$variant => $make),*
                };
                make(options)
            }
        }
    };
}

columns! {
    Key "key" = |o| payload(o.layout, PayloadPart::Key);
    Value "value" = |o| payload(o.layout, PayloadPart::Value);
    Topic "topic" = |o| strings(o.layout, |column, rows| {
        column.repeat(known_topic(&rows.context.topic), rows.slots.len())
    });
    Partition "partition" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_segment(rows, |context| known_partition(context.partition))
    });
    Offset "offset" = |_| numbers::<Int64Type>(|column, rows| {
        column.each_record(rows, |record| record.offset)
    });
    Timestamp "timestamp" = |o| timestamps(o.unit);
    TimestampType "timestampType" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_batch(rows, |b| b.header.timestamp_type().id())
    });
    Headers "headers" = |o| Box::new(HeadersBuilder::new(o.layout, 1024));
    Segment "segment" = |o| strings(o.layout, |column, rows| {
        column.repeat(Some(&rows.context.segment), rows.slots.len())
    });
    BatchPosition "batchPosition" = |_| numbers::<Int64Type>(|column, rows| {
        column.each_batch_or_null(rows, |b| i64::try_from(b.position).ok())
    });
    BaseOffset "baseOffset" = |_| numbers::<Int64Type>(|column, rows| {
        column.each_batch(rows, |b| b.header.base_offset)
    });
    BatchSize "batchSize" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_batch_or_null(rows, |b| i32::try_from(b.header.size).ok())
    });
    Magic "magic" = |_| numbers::<Int8Type>(|column, rows| {
        column.each_batch_or_null(rows, |b| i8::try_from(b.header.magic).ok())
    });
    Compression "compression" = |o| strings(o.layout, |column, rows| {
        rows.by_batch(|run, slots| {
            let codec = run.header.attributes.compression();
            column.repeat(codec.map(Compression::name), slots.len())
        })
    });
    Crc "crc" = |_| numbers::<UInt32Type>(|column, rows| column.each_batch(rows, |b| b.header.crc));
    PartitionLeaderEpoch "partitionLeaderEpoch" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_batch(rows, |b| b.header.partition_leader_epoch)
    });
    ProducerId "producerId" = |_| numbers::<Int64Type>(|column, rows| {
        column.each_batch(rows, |b| b.header.producer_id)
    });
    ProducerEpoch "producerEpoch" = |_| numbers::<Int16Type>(|column, rows| {
        column.each_batch(rows, |b| b.header.producer_epoch)
    });
    Sequence "sequence" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_record_of_batch(rows, |b, record| {
            let delta = record.offset.wrapping_sub(b.header.base_offset);
            b.header.sequence_at(i32::try_from(delta).unwrap_or(i32::MAX))
        })
    });
    IsTransactional "isTransactional" = |_| flags(BatchHeader::is_transactional);
    IsControl "isControl" = |_| flags(BatchHeader::is_control);
    ControlType "controlType" = |o| strings(o.layout, |column, rows| {
        rows.by_batch(|run, slots| {
            if !run.header.is_control() {
                return column.repeat(None, slots.len());
            }
            let mut slots = slots.iter();
            slots.try_for_each(|slot| column.repeat(control_type(slot, rows.bytes.as_slice()), 1))
        })
    });
    DeleteHorizonMs "deleteHorizonMs" = |_| numbers::<Int64Type>(|column, rows| {
        column.each_batch_or_null(rows, |b| b.header.delete_horizon_ms())
    });
    KeySize "keySize" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_record(rows, |record| record.key_len)
    });
    ValueSize "valueSize" = |_| numbers::<Int32Type>(|column, rows| {
        column.each_record(rows, |record| record.value_len)
    });
    KeyBytes "keyBytes" = |o| payload(o.layout, PayloadPart::Key);
    KeySchemaId "keySchemaId" = |_| unknown_ids();
    KeySchemaGuid "keySchemaGuid" = |_| unknown_texts();
    KeyError "keyError" = |_| unknown_texts();
    ValueBytes "valueBytes" = |o| payload(o.layout, PayloadPart::Value);
    ValueSchemaId "valueSchemaId" = |_| unknown_ids();
    ValueSchemaGuid "valueSchemaGuid" = |_| unknown_texts();
    ValueError "valueError" = |_| unknown_texts();
}

/// Schema ids of records that are not decoded.
fn unknown_ids() -> Box<dyn ValueColumn> {
    numbers::<Int32Type>(|column, rows| column.each_batch_or_null(rows, |_| None))
}

/// GUIDs of schemas, or faults, of records that are not decoded.
fn unknown_texts() -> Box<dyn ValueColumn> {
    strings(Layout::Binary, |column, rows| {
        column.repeat(None, rows.slots.len())
    })
}

/// The name of a control record's type; `None` for one that cannot be read.
fn control_type(record: &RecordSlot, source: &[u8]) -> Option<&'static str> {
    let key = PayloadPart::Key.bytes(*record, source)?;
    ControlType::parse(key).ok().map(ControlType::name)
}

/// The side and part that a column shows.
pub(super) const fn shown(column: Column) -> Option<(Side, DecodedPart)> {
    Some(match column {
        Column::Key => (Side::Key, DecodedPart::Value),
        Column::KeySchemaId => (Side::Key, DecodedPart::SchemaId),
        Column::KeySchemaGuid => (Side::Key, DecodedPart::SchemaGuid),
        Column::KeyError => (Side::Key, DecodedPart::Error),
        Column::Value => (Side::Value, DecodedPart::Value),
        Column::ValueSchemaId => (Side::Value, DecodedPart::SchemaId),
        Column::ValueSchemaGuid => (Side::Value, DecodedPart::SchemaGuid),
        Column::ValueError => (Side::Value, DecodedPart::Error),
        _ => return None,
    })
}

/// The type of a column that shows a decoded side; `None` for other columns.
pub(super) fn decoded_type(decoding: &Decoding, column: Column) -> Option<DataType> {
    let (side, part) = shown(column)?;
    decoding.side(side)?;
    Some(match part {
        DecodedPart::Value => decoding.data_type(side).ok()??,
        DecodedPart::SchemaId => DataType::Int32,
        DecodedPart::SchemaGuid | DecodedPart::Error => DataType::Utf8,
    })
}

impl Column {
    /// Number of the columns at the beginning of [`Column::ALL`] that every scan has; the others are of decoded keys and values.
    const RECORDS: usize = 25;

    /// Default columns: Spark's seven and the headers.
    #[must_use]
    pub fn defaults() -> &'static [Self] {
        Self::ALL.get(..8).unwrap_or_default()
    }

    /// The columns of these names, in this order.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not one, or given twice.
    pub fn parse_all<S: AsRef<str>>(names: &[S]) -> Result<Vec<Self>> {
        let mut columns = Vec::with_capacity(names.len());
        for name in names {
            let name = name.as_ref();
            let column = Self::ALL.iter().copied().find(|c| c.name() == name);
            let column = column.ok_or_else(|| {
                let known: Vec<_> = Self::ALL.iter().map(|c| c.name()).collect();
                Error::InvalidArgument(format!(
                    "unknown column '{name}'; there are: {}",
                    known.join(", ")
                ))
            })?;
            if columns.contains(&column) {
                return Err(Error::InvalidArgument(format!(
                    "column '{name}' is named twice"
                )));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Its Arrow field.
    #[must_use]
    pub fn field(self, options: &ColumnOptions) -> Field {
        let decoding = options.decoding.as_deref();
        match decoding.and_then(|decoding| decoded_type(decoding, self)) {
            Some(data_type) => Field::new(self.name(), data_type, true),
            None => self.build(options).field(self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_sparks_kafka_source() {
        let names: Vec<_> = Column::defaults().iter().map(|c| c.name()).collect();
        let expected = [
            "key",
            "value",
            "topic",
            "partition",
            "offset",
            "timestamp",
            "timestampType",
            "headers",
        ];
        assert_eq!(names, expected);
    }

    #[test]
    fn names_go_both_ways() {
        let names: Vec<_> = Column::ALL.iter().map(|c| c.name()).collect();
        assert_eq!(Column::parse_all(&names).unwrap(), Column::ALL);
        assert!(
            Column::parse_all(&["offset", "nope"])
                .unwrap_err()
                .to_string()
                .contains("unknown column 'nope'")
        );
        assert!(
            Column::parse_all(&["offset", "offset"])
                .unwrap_err()
                .to_string()
                .contains("twice")
        );
    }
}
