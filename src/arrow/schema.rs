//! The columns there are, in one table: name, type, nullability.
//!
//! Names and types of the first eight are those of Spark's Kafka source; the rest use `kafka-dump-log`'s words.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields, Schema, SchemaRef, TimeUnit};

use crate::error::{Error, Result};

/// How keys, values and strings are laid out.
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

macro_rules! columns {
    ($($variant:ident $name:literal)*) => {
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

            /// As users spell it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),*
                }
            }
        }
    };
}

columns! {
    Key "key"
    Value "value"
    Topic "topic"
    Partition "partition"
    Offset "offset"
    Timestamp "timestamp"
    TimestampType "timestampType"
    Headers "headers"
    Segment "segment"
    BatchPosition "batchPosition"
    BaseOffset "baseOffset"
    BatchSize "batchSize"
    Magic "magic"
    Compression "compression"
    Crc "crc"
    PartitionLeaderEpoch "partitionLeaderEpoch"
    ProducerId "producerId"
    ProducerEpoch "producerEpoch"
    Sequence "sequence"
    IsTransactional "isTransactional"
    IsControl "isControl"
    ControlType "controlType"
    DeleteHorizonMs "deleteHorizonMs"
    KeySize "keySize"
    ValueSize "valueSize"
}

impl Column {
    /// What is read when nothing else is said: Spark's seven and the headers.
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
                    "column '{name}' is asked for twice"
                )));
            }
            columns.push(column);
        }
        Ok(columns)
    }

    /// Its Arrow field. All are nullable, as Spark declares them.
    #[must_use]
    pub fn field(self, layout: Layout, unit: TimestampUnit) -> Field {
        let data_type = match self {
            Self::Key | Self::Value => binary(layout),
            Self::Topic | Self::Segment | Self::Compression | Self::ControlType => text(layout),
            Self::Partition
            | Self::TimestampType
            | Self::BatchSize
            | Self::PartitionLeaderEpoch
            | Self::Sequence
            | Self::KeySize
            | Self::ValueSize => DataType::Int32,
            Self::Offset
            | Self::BatchPosition
            | Self::BaseOffset
            | Self::ProducerId
            | Self::DeleteHorizonMs => DataType::Int64,
            Self::Timestamp => {
                let unit = match unit {
                    TimestampUnit::Millisecond => TimeUnit::Millisecond,
                    TimestampUnit::Microsecond => TimeUnit::Microsecond,
                };
                DataType::Timestamp(unit, Some(Arc::from("UTC")))
            }
            Self::Headers => DataType::List(header_item(layout)),
            Self::Magic => DataType::Int8,
            Self::Crc => DataType::UInt32,
            Self::ProducerEpoch => DataType::Int16,
            Self::IsTransactional | Self::IsControl => DataType::Boolean,
        };
        Field::new(self.name(), data_type, true)
    }
}

/// The schema of these columns.
#[must_use]
pub fn record_schema(columns: &[Column], layout: Layout, unit: TimestampUnit) -> SchemaRef {
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
