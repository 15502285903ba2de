//! Columns of one batch of records, as `cat` prints and `grep` searches them.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, Int32Array, Int64Array, StringViewArray,
    TimestampMillisecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;

use super::cell_text::{can_show, put_cell};
use crate::arrow::schema::{Column, ColumnOptions, Layout};
use crate::error::{Error, Result};
use crate::format::put::Put;
use crate::tables::json::{put_base64_string, put_on_one_line, put_text_string};

/// End of the name of a field for bytes that are not UTF-8.
const BASE64: &str = "Base64";

/// A column of one batch.
pub(super) enum Cell<'a> {
    Bytes(&'a BinaryViewArray),
    /// A decoded key or value of bytes.
    DecodedBytes(&'a BinaryArray),
    Text(&'a StringViewArray),
    Int(&'a Int32Array),
    Long(&'a Int64Array),
    Time(&'a TimestampMillisecondArray),
    Headers(HeaderCells<'a>),
    /// A decoded key or value, and whether it is JSON text.
    Decoded(&'a ArrayRef, bool),
}

/// Of each record a list of keys and values.
pub(super) struct HeaderCells<'a> {
    lists: &'a dyn Array,
    offsets: &'a OffsetBuffer<i32>,
    keys: &'a StringViewArray,
    values: &'a BinaryViewArray,
}

impl<'a> Cell<'a> {
    /// A column of a batch, where one of this type is expected.
    ///
    /// # Errors
    /// `InvalidArgument` for one of another type.
    pub(super) fn try_new(column: Column, array: &'a ArrayRef, is_json_text: bool) -> Result<Self> {
        let (found, is_text) = (array.data_type(), *array.data_type() == DataType::Utf8);
        let cell = match column {
            // Decoded ones are of any type.
            Column::Key | Column::Value => match array.as_binary_opt() {
                Some(bytes) => Some(Self::DecodedBytes(bytes)),
                None if *found == DataType::BinaryView => Self::of(array),
                None => can_show(found).then_some(Self::Decoded(array, is_json_text)),
            },
            Column::KeyError | Column::ValueError => is_text.then_some(Self::Decoded(array, false)),
            _ => None,
        };
        let layout = ColumnOptions {
            layout: Layout::View,
            ..ColumnOptions::default()
        };
        let field = column.field(&layout);
        let plain = || {
            found
                .equals_datatype(field.data_type())
                .then(|| Self::of(array))
        };
        cell.or_else(|| plain().flatten()).ok_or_else(|| {
            let (name, expected) = (field.name(), field.data_type());
            Error::InvalidArgument(format!(
                "column '{name}' to print: expected type {expected}, found {found}"
            ))
        })
    }

    fn of(array: &'a ArrayRef) -> Option<Self> {
        if let Some(bytes) = array.as_binary_view_opt() {
            return Some(Self::Bytes(bytes));
        }
        if let Some(text) = array.as_string_view_opt() {
            return Some(Self::Text(text));
        }
        if let Some(numbers) = array.as_primitive_opt::<Int32Type>() {
            return Some(Self::Int(numbers));
        }
        if let Some(numbers) = array.as_primitive_opt::<Int64Type>() {
            return Some(Self::Long(numbers));
        }
        if let Some(times) = array.as_primitive_opt::<TimestampMillisecondType>() {
            return Some(Self::Time(times));
        }
        let lists = array.as_list_opt::<i32>()?;
        let fields = lists.values().as_struct_opt()?;
        Some(Self::Headers(HeaderCells {
            lists,
            offsets: lists.offsets(),
            keys: fields.column_by_name("key")?.as_string_view_opt()?,
            values: fields.column_by_name("value")?.as_binary_view_opt()?,
        }))
    }

    /// Appends the cell as it is.
    pub(super) fn put(&self, row: usize, null: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Bytes(_) | Self::DecodedBytes(_) => {
                to.extend_from_slice(self.bytes(row).unwrap_or(null));
            }
            Self::Text(text) if text.is_null(row) => to.extend_from_slice(null),
            Self::Int(numbers) if numbers.is_null(row) => to.extend_from_slice(null),
            Self::Decoded(array, _) if array.is_null(row) => to.extend_from_slice(null),
            Self::Decoded(array, is_json) => put_decoded(array, *is_json, row, to),
            Self::Text(text) => text.value(row).put(to),
            Self::Int(numbers) => numbers.value(row).put(to),
            Self::Long(numbers) => numbers.value(row).put(to),
            Self::Time(times) => times.value(row).put(to),
            Self::Headers(headers) => {
                for (n, (key, value)) in headers.of(row).enumerate() {
                    if n > 0 {
                        to.push(b',');
                    }
                    key.put(to);
                    to.push(b'=');
                    to.extend_from_slice(value.unwrap_or(b"NULL"));
                }
            }
        }
    }

    /// Appends a key or value as a field of an object.
    pub(super) fn put_field(&self, name: &str, row: usize, to: &mut Vec<u8>) {
        match self {
            Self::Decoded(array, is_json) if array.is_valid(row) => {
                put_text_string(name, to);
                to.push(b':');
                put_decoded(array, *is_json, row, to);
            }
            _ => put_payload(name, self.bytes(row), to),
        }
    }

    fn bytes(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Bytes(bytes) => some(bytes, row),
            Self::DecodedBytes(bytes) => bytes.is_valid(row).then(|| bytes.value(row)),
            _ => None,
        }
    }

    /// A key or value as it is printed; `None` for null. The buffer is for what has to be written for it.
    pub(super) fn printed<'b>(&'b self, row: usize, buffer: &'b mut Vec<u8>) -> Option<&'b [u8]> {
        let Self::Decoded(array, is_json) = self else {
            return self.bytes(row);
        };
        array.is_valid(row).then(|| {
            buffer.clear();
            put_decoded(array, *is_json, row, buffer);
            buffer.as_slice()
        })
    }
}

/// A decoded key or value as JSON.
fn put_decoded(array: &ArrayRef, is_json: bool, row: usize, to: &mut Vec<u8>) {
    match array.as_string_opt::<i32>().filter(|_| is_json) {
        Some(json) => put_on_one_line(json.value(row), to),
        None => put_cell(array, row, to),
    }
}

fn some(bytes: &BinaryViewArray, row: usize) -> Option<&[u8]> {
    bytes.is_valid(row).then(|| bytes.value(row))
}

impl<'a> HeaderCells<'a> {
    /// The names and values of a record's headers.
    pub(super) fn of(&self, row: usize) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> {
        let place = |at| self.offsets.get(at).and_then(|&n| usize::try_from(n).ok());
        let (begin, end) = (place(row), place(row.saturating_add(1)));
        let range = match begin.zip(end) {
            Some((begin, end)) if self.lists.is_valid(row) => begin..end,
            _ => 0..0,
        };
        let (keys, values) = (self.keys, self.values);
        range.map(|at| (keys.value(at), some(values, at)))
    }
}

/// A field of an object with bytes, without loss: text if they are UTF-8, and otherwise null, with a second field that
/// has the bytes: `"value":null,"valueBase64":"/w=="`.
pub(super) fn put_payload(name: &str, bytes: Option<&[u8]>, to: &mut Vec<u8>) {
    put_text_string(name, to);
    to.push(b':');
    let Some(bytes) = bytes else {
        return "null".put(to);
    };
    if let Ok(text) = std::str::from_utf8(bytes) {
        return put_text_string(text, to);
    }
    "null,".put(to);
    put_text_string(&format!("{name}{BASE64}"), to);
    to.push(b':');
    put_base64_string(bytes, to);
}
