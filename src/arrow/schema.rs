//! The table of all columns: name, and builder, which determines the type. Schema, selection and builders derive from
//! it. All columns are nullable, as Spark declares them.
//!
//! Names and types of the first eight are those of Spark's Kafka source; the rest use the field names of
//! `kafka-dump-log`.

use std::sync::Arc;

use arrow_array::ArrowPrimitiveType;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, TimestampMicrosecondType, TimestampMillisecondType,
    UInt32Type,
};
use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use super::fixed::{FixedColumn, finish, finish_utc};
use super::payload::PayloadPart;
use crate::error::{Error, Result};
use crate::format::batch::BatchHeader;
use crate::format::control::ControlType;
use crate::records::RecordSlot;
use crate::scan::range::{known_partition, known_topic};
use crate::scan::reader::Context;
use crate::types::Compression;

/// Layout of keys, values and strings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `binary` and `string`: gathered once.
    #[default]
    Binary,
    /// `binary_view` and `string_view`: views into the mapped file or the decompressed block.
    View,
}

/// The unit of the timestamp column; Kafka's own is the millisecond, Spark takes only microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampUnit {
    /// `timestamp[ms, UTC]`
    #[default]
    Millisecond,
    /// `timestamp[us, UTC]`
    Microsecond,
}

/// Builder of a column, which determines its type.
#[derive(Clone, Debug)]
pub enum Filling {
    /// `binary`: a payload of each record.
    Payload(PayloadPart),
    /// `list<struct<key, value>>`
    Headers,
    /// `string`: the same for all records of a segment.
    SegmentText(fn(&Context) -> Option<&str>),
    /// `string`: the same for all records of a batch.
    BatchText(fn(&BatchHeader) -> Option<&'static str>),
    /// `string`: of each record of a control batch, given the bytes it lies in.
    ControlText(fn(&RecordSlot, &[u8]) -> Option<&'static str>),
    /// `bool`: the same for all records of a batch.
    Flag(fn(&BatchHeader) -> bool),
    /// `timestamp[UTC]` in the requested unit.
    Timestamp,
    /// Numbers of this type.
    Numbers(DataType, FixedColumn),
}

/// Numbers of an Arrow type, by a method of [`Fixed`](super::fixed::Fixed) and what it asks for.
macro_rules! numbers {
    ($type:ident, $method:ident, $value:expr) => {
        Filling::Numbers(
            <$type as ArrowPrimitiveType>::DATA_TYPE,
            FixedColumn {
                width: size_of::<<$type as ArrowPrimitiveType>::Native>(),
                fill: |column, rows| {
                    column.$method::<<$type as ArrowPrimitiveType>::Native>(rows, $value)
                },
                finish: finish::<$type>,
            },
        )
    };
}

macro_rules! columns {
    ($($variant:ident $name:literal = $filling:expr;)*) => {
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

            /// Builder of the column.
            #[must_use]
            pub const fn filling(self) -> Filling {
                match self {
                    $(Self::$variant => $filling),*
                }
            }
        }
    };
}

columns! {
    Key "key" = Filling::Payload(PayloadPart::Key);
    Value "value" = Filling::Payload(PayloadPart::Value);
    Topic "topic" = Filling::SegmentText(|context| known_topic(&context.topic));
    Partition "partition" = numbers!(Int32Type, each_segment, |context| known_partition(context.partition));
    Offset "offset" = numbers!(Int64Type, each_record, |record| record.offset);
    Timestamp "timestamp" = Filling::Timestamp;
    TimestampType "timestampType" = numbers!(Int32Type, each_batch, |b| b.header.timestamp_type().id());
    Headers "headers" = Filling::Headers;
    Segment "segment" = Filling::SegmentText(|context| Some(&context.segment));
    BatchPosition "batchPosition" = numbers!(Int64Type, each_batch_or_null, |b| i64::try_from(b.position).ok());
    BaseOffset "baseOffset" = numbers!(Int64Type, each_batch, |b| b.header.base_offset);
    BatchSize "batchSize" = numbers!(Int32Type, each_batch_or_null, |b| i32::try_from(b.header.size).ok());
    Magic "magic" = numbers!(Int8Type, each_batch_or_null, |b| i8::try_from(b.header.magic).ok());
    Compression "compression" = Filling::BatchText(|h| h.attributes.compression().map(Compression::name));
    Crc "crc" = numbers!(UInt32Type, each_batch, |b| b.header.crc);
    PartitionLeaderEpoch "partitionLeaderEpoch"
        = numbers!(Int32Type, each_batch, |b| b.header.partition_leader_epoch);
    ProducerId "producerId" = numbers!(Int64Type, each_batch, |b| b.header.producer_id);
    ProducerEpoch "producerEpoch" = numbers!(Int16Type, each_batch, |b| b.header.producer_epoch);
    Sequence "sequence" = numbers!(Int32Type, each_record_of_batch, |b, record| {
        let delta = record.offset.wrapping_sub(b.header.base_offset);
        b.header.sequence_at(i32::try_from(delta).unwrap_or(i32::MAX))
    });
    IsTransactional "isTransactional" = Filling::Flag(BatchHeader::is_transactional);
    IsControl "isControl" = Filling::Flag(BatchHeader::is_control);
    ControlType "controlType" = Filling::ControlText(control_type);
    DeleteHorizonMs "deleteHorizonMs"
        = numbers!(Int64Type, each_batch_or_null, |b| b.header.delete_horizon_ms());
    KeySize "keySize" = numbers!(Int32Type, each_record, |record| record.key_len);
    ValueSize "valueSize" = numbers!(Int32Type, each_record, |record| record.value_len);
}

/// The name of a control record's type; `None` for one that cannot be read.
fn control_type(record: &RecordSlot, source: &[u8]) -> Option<&'static str> {
    let key = PayloadPart::Key.bytes(*record, source)?;
    ControlType::parse(key).ok().map(ControlType::name)
}

impl TimestampUnit {
    /// Builder of timestamps in this unit. They wrap if the unit cannot hold them: readers check before.
    pub(super) const fn column(self) -> FixedColumn {
        match self {
            Self::Millisecond => FixedColumn {
                width: 8,
                fill: |column, rows| column.each_record(rows, |record| record.timestamp),
                finish: finish_utc::<TimestampMillisecondType>,
            },
            Self::Microsecond => FixedColumn {
                width: 8,
                fill: |column, rows| {
                    column.each_record(rows, |record| record.timestamp.wrapping_mul(1000))
                },
                finish: finish_utc::<TimestampMicrosecondType>,
            },
        }
    }
}

impl Filling {
    /// Bytes of a row, without what it points to.
    pub(super) const fn width(&self) -> usize {
        match self {
            Self::Payload(_) | Self::Headers => 4,
            Self::SegmentText(_) | Self::BatchText(_) | Self::ControlText(_) => 16,
            Self::Flag(_) => 1,
            Self::Timestamp => 8,
            Self::Numbers(_, column) => column.width,
        }
    }
}

impl Column {
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
    pub fn field(self, layout: Layout, unit: TimestampUnit) -> Field {
        let data_type = match self.filling() {
            Filling::Payload(_) => binary(layout),
            Filling::Headers => DataType::List(header_item(layout)),
            Filling::SegmentText(_) | Filling::BatchText(_) | Filling::ControlText(_) => {
                text(layout)
            }
            Filling::Flag(_) => DataType::Boolean,
            Filling::Timestamp => {
                let unit = match unit {
                    TimestampUnit::Millisecond => TimeUnit::Millisecond,
                    TimestampUnit::Microsecond => TimeUnit::Microsecond,
                };
                DataType::Timestamp(unit, Some(Arc::from("UTC")))
            }
            Filling::Numbers(data_type, _) => data_type,
        };
        Field::new(self.name(), data_type, true)
    }
}

/// The schema of these columns.
#[must_use]
pub(crate) fn record_schema(columns: &[Column], layout: Layout, unit: TimestampUnit) -> SchemaRef {
    Arc::new(Schema::new(
        columns
            .iter()
            .map(|c| c.field(layout, unit))
            .collect::<Vec<_>>(),
    ))
}

fn binary(layout: Layout) -> DataType {
    match layout {
        Layout::Binary => DataType::Binary,
        Layout::View => DataType::BinaryView,
    }
}

fn text(layout: Layout) -> DataType {
    match layout {
        Layout::Binary => DataType::Utf8,
        Layout::View => DataType::Utf8View,
    }
}

/// `struct<key: string, value: binary>`; Spark calls a list's child `element`, and does not look at the name.
pub(super) fn header_item(layout: Layout) -> Arc<Field> {
    Arc::new(Field::new(
        "element",
        DataType::Struct(header_fields(layout)),
        true,
    ))
}

/// The fields of one header.
pub(super) fn header_fields(layout: Layout) -> Fields {
    Fields::from(vec![
        Field::new("key", text(layout), true),
        Field::new("value", binary(layout), true),
    ])
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
