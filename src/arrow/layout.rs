//! Types of keys, values, strings and timestamps, as the reader chose them.

use std::sync::Arc;

use arrow_schema::{DataType, Field, Fields};

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

/// The type of byte strings.
pub(super) const fn binary(layout: Layout) -> DataType {
    match layout {
        Layout::Binary => DataType::Binary,
        Layout::View => DataType::BinaryView,
    }
}

/// The type of strings.
pub(super) const fn text(layout: Layout) -> DataType {
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
