//! Rows of any table as JSON lines, CSV (RFC 4180) or TSV (the same with tabs), as `export` writes them.
//!
//! Bytes are base64, or text on request; times are ISO 8601; headers are a JSON array in all of them. As text, bytes that
//! are not UTF-8 are null, and base64 in a field or column of their own: `valueBase64` for `value`.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt32Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, ListArray, RecordBatch, StringArray, StructArray,
};
use arrow_schema::DataType;

use super::cell_text::{can_show, put_cell};
use super::record_cells::put_payload;
use crate::error::{Error, Result};
use crate::format::put::Put;
use crate::tables::json::{put_base64, put_base64_string, put_on_one_line, put_text_string};

/// Format in which rows are written.
#[derive(Clone, Debug)]
pub(crate) struct RowText {
    /// Between cells: a comma or a tab; none in JSON lines.
    pub(crate) separator: Option<u8>,
    /// Bytes as text where they are UTF-8, or else all as base64.
    pub(crate) as_text: bool,
    /// Names of columns of text that are JSON already.
    pub(crate) json: Vec<String>,
}

impl RowText {
    /// The text of all rows of a batch, without a header line.
    ///
    /// # Errors
    /// `InvalidArgument` for a column of a type that no table of this crate has.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let mut columns = Vec::with_capacity(batch.num_columns());
        for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
            let cells = match (field.name().as_str(), array.data_type()) {
                ("headers", _) => Cells::headers(array),
                (name, DataType::Utf8) if self.json.iter().any(|json| json == name) => {
                    array.as_string_opt().map(Cells::Json)
                }
                _ => Cells::of(array),
            };
            let cells = cells.ok_or_else(|| {
                let (name, found) = (field.name(), array.data_type());
                Error::InvalidArgument(format!(
                    "column '{name}': expected a type of kafkalog's tables, found {found}"
                ))
            })?;
            columns.push((field.name(), cells));
        }
        let (mut text, mut cell) = (Vec::new(), Vec::new());
        for row in 0..batch.num_rows() {
            for (n, (name, cells)) in columns.iter().enumerate() {
                if let Some(separator) = self.separator {
                    if n > 0 {
                        text.push(separator);
                    }
                    cells.put_cell(row, self.as_text, separator, &mut cell, &mut text);
                } else {
                    text.push(if n > 0 { b',' } else { b'{' });
                    cells.put_field(name, row, self.as_text, &mut text);
                }
            }
            if let Some(separator) = self.separator.filter(|_| self.as_text) {
                for (_, cells) in &columns {
                    cells.put_base64_cell(row, separator, &mut text);
                }
            }
            (match self.separator {
                None => "}\n",
                Some(b',') => "\r\n",
                Some(_) => "\n",
            })
            .put(&mut text);
        }
        Ok(text)
    }
}

/// A column of one batch.
enum Cells<'a> {
    Bytes(&'a ArrayRef, Box<dyn Fn(usize) -> &'a [u8] + 'a>),
    Text(&'a ArrayRef, Box<dyn Fn(usize) -> &'a str + 'a>),
    Number(&'a ArrayRef, Box<dyn Fn(usize) -> i64 + 'a>),
    Flag(&'a BooleanArray),
    Json(&'a StringArray),
    Headers(&'a ListArray, Box<Cells<'a>>, Box<Cells<'a>>),
    /// Of any other type.
    Other(&'a ArrayRef),
}

impl<'a> Cells<'a> {
    fn of(array: &'a ArrayRef) -> Option<Self> {
        if let Some(found) = array.as_binary_opt::<i32>() {
            return Some(Self::Bytes(array, Box::new(|row| found.value(row))));
        }
        if let Some(found) = array.as_binary_view_opt() {
            return Some(Self::Bytes(array, Box::new(|row| found.value(row))));
        }
        if let Some(found) = array.as_string_opt::<i32>() {
            return Some(Self::Text(array, Box::new(|row| found.value(row))));
        }
        if let Some(found) = array.as_string_view_opt() {
            return Some(Self::Text(array, Box::new(|row| found.value(row))));
        }
        if let Some(found) = array.as_primitive_opt::<Int64Type>() {
            return Some(Self::Number(array, Box::new(|row| found.value(row))));
        }
        if let Some(found) = array.as_primitive_opt::<Int32Type>() {
            return Some(Self::Number(array, Box::new(|row| found.value(row).into())));
        }
        if let Some(found) = array.as_primitive_opt::<Int16Type>() {
            return Some(Self::Number(array, Box::new(|row| found.value(row).into())));
        }
        if let Some(found) = array.as_primitive_opt::<Int8Type>() {
            return Some(Self::Number(array, Box::new(|row| found.value(row).into())));
        }
        if let Some(found) = array.as_primitive_opt::<UInt32Type>() {
            return Some(Self::Number(array, Box::new(|row| found.value(row).into())));
        }
        if let Some(flags) = array.as_boolean_opt() {
            return Some(Self::Flag(flags));
        }
        can_show(array.data_type()).then_some(Self::Other(array))
    }

    fn headers(array: &'a ArrayRef) -> Option<Self> {
        let lists = array.as_list_opt::<i32>()?;
        let fields: &StructArray = lists.values().as_struct_opt()?;
        if fields.num_columns() != 2 {
            return None;
        }
        let of = |name| Self::of(fields.column_by_name(name)?).map(Box::new);
        Some(Self::Headers(lists, of("key")?, of("value")?))
    }

    fn is_null(&self, row: usize) -> bool {
        match self {
            Self::Bytes(array, _)
            | Self::Text(array, _)
            | Self::Number(array, _)
            | Self::Other(array) => array.is_null(row),
            Self::Flag(array) => array.is_null(row),
            Self::Json(array) => array.is_null(row),
            Self::Headers(array, ..) => array.is_null(row),
        }
    }

    /// A field of an object, with its name; as text, bytes may be two fields.
    fn put_field(&self, name: &str, row: usize, as_text: bool, to: &mut Vec<u8>) {
        if let Self::Bytes(_, value) = self
            && as_text
        {
            let bytes = (!self.is_null(row)).then(|| value(row));
            return put_payload(name, bytes, to);
        }
        put_text_string(name, to);
        to.push(b':');
        self.put_json(row, as_text, to);
    }

    fn put_json(&self, row: usize, as_text: bool, to: &mut Vec<u8>) {
        if self.is_null(row) {
            return "null".put(to);
        }
        match self {
            Self::Bytes(_, value) => put_base64_string(value(row), to),
            Self::Other(array) => put_cell(array, row, to),
            Self::Text(_, value) => put_text_string(value(row), to),
            Self::Number(_, value) => value(row).put(to),
            Self::Flag(flags) => flags.value(row).put(to),
            Self::Json(text) => put_on_one_line(text.value(row), to),
            Self::Headers(lists, keys, values) => {
                let place = |at: usize| lists.value_offsets().get(at).copied().unwrap_or_default();
                let (begin, end) = (place(row), place(row.saturating_add(1)));
                to.push(b'[');
                for at in begin..end {
                    (if at > begin { ",{" } else { "{" }).put(to);
                    let at = usize::try_from(at).unwrap_or_default();
                    keys.put_field("key", at, as_text, to);
                    to.push(b',');
                    values.put_field("value", at, as_text, to);
                    to.push(b'}');
                }
                to.push(b']');
            }
        }
    }

    /// The additional cell of bytes: base64 if they are not UTF-8, and otherwise null.
    fn put_base64_cell(&self, row: usize, separator: u8, to: &mut Vec<u8>) {
        let Self::Bytes(_, value) = self else {
            return;
        };
        to.push(separator);
        if !self.is_null(row) && std::str::from_utf8(value(row)).is_err() {
            put_base64(value(row), to);
        }
    }

    /// As in RFC 4180: null is empty, and empty text `""`.
    fn put_cell(
        &self,
        row: usize,
        as_text: bool,
        separator: u8,
        cell: &mut Vec<u8>,
        to: &mut Vec<u8>,
    ) {
        if self.is_null(row) {
            return;
        }
        cell.clear();
        match self {
            Self::Bytes(_, value) if as_text => match std::str::from_utf8(value(row)) {
                Ok(text) => text.put(cell),
                // In its own column.
                Err(_) => return,
            },
            Self::Bytes(_, value) => put_base64(value(row), cell),
            Self::Text(_, value) => value(row).put(cell),
            Self::Json(text) => text.value(row).put(cell),
            Self::Number(..) | Self::Flag(_) => return self.put_json(row, as_text, to),
            Self::Other(array) => {
                put_cell(array, row, cell);
                // Of a string alone, its text, which has no escapes.
                let is_nested = array.data_type().is_nested();
                let text = cell
                    .strip_prefix(b"\"")
                    .and_then(|text| text.strip_suffix(b"\""));
                if let Some(text) = text.filter(|_| !is_nested) {
                    return to.extend_from_slice(text);
                }
                if !is_nested {
                    return to.extend_from_slice(cell);
                }
            }
            Self::Headers(..) => self.put_json(row, as_text, cell),
        }
        let needs_quotes = |&byte: &u8| byte == separator || matches!(byte, b'"' | b'\r' | b'\n');
        if !cell.is_empty() && !cell.iter().any(needs_quotes) {
            return to.extend_from_slice(cell);
        }
        to.push(b'"');
        for &byte in cell.iter() {
            if byte == b'"' {
                to.push(b'"');
            }
            to.push(byte);
        }
        to.push(b'"');
    }
}
