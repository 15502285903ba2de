//! Formats records for `cat`: by kcat's format string, or as its JSON.
//!
//! | token | prints |
//! |---|---|
//! | `%s` `%k` | the value, the key, as they are |
//! | `%S` `%K` | their sizes, -1 for null |
//! | `%R` | the value's size as four bytes, big-endian |
//! | `%t` `%p` `%o` `%T` | topic, partition, offset, timestamp in ms |
//! | `%h` | headers, `key=value` with commas between them |
//! | `%%` | a percent sign |
//!
//! Between tokens stand text and the escapes `\n`, `\t`, `\r`, `\xNN` and `\NNN` (octal).
//!
//! Source: kcat's `format.c` and `json.c`.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, Int64Type, TimestampMillisecondType};
use arrow_array::{
    Array, ArrayRef, BinaryViewArray, Int32Array, Int64Array, RecordBatch, StringViewArray,
    TimestampMillisecondArray,
};
use arrow_buffer::OffsetBuffer;
use arrow_schema::DataType;

use super::cell_text::{can_show, put_cell};
use crate::arrow::schema::{Column, ColumnOptions, Layout};
use crate::error::{Error, Result};
use crate::format::put::Put;
use crate::tables::json::{put_base64_string, put_text_string};
use crate::types::TimestampType;

/// End of the name of a field for bytes that are not UTF-8.
const BASE64: &str = "Base64";

/// The columns of the JSON, as [`put_json`] takes them.
const ENVELOPE: [Column; 8] = [
    Column::Topic,
    Column::Partition,
    Column::Offset,
    Column::TimestampType,
    Column::Timestamp,
    Column::Headers,
    Column::Key,
    Column::Value,
];

/// Format in which each record is printed.
#[derive(Debug)]
pub(crate) struct RecordText {
    columns: Vec<Column>,
    shape: Shape,
    /// Printed for a null key or value.
    null: Vec<u8>,
    /// Decoded keys and values are JSON text, and not of the type of a schema.
    is_json_text: bool,
}

#[derive(Debug)]
enum Shape {
    Format(Vec<FormatPart>),
    Json,
}

/// A part of a format string.
#[derive(Debug)]
enum FormatPart {
    Literal(Vec<u8>),
    /// A column, by its place among those that are read.
    Cell(usize),
    /// The same, as four bytes.
    FourBytes(usize),
}

impl RecordText {
    /// As kcat's JSON.
    pub(crate) fn json() -> Self {
        Self {
            columns: ENVELOPE.to_vec(),
            shape: Shape::Json,
            null: Vec::new(),
            is_json_text: false,
        }
    }

    /// The same, for decoded keys and values that are JSON text.
    pub(crate) const fn of_json_text(mut self, is_json_text: bool) -> Self {
        self.is_json_text = is_json_text;
        self
    }

    /// By a format string.
    ///
    /// # Errors
    /// `InvalidArgument` for an unknown token.
    pub(crate) fn parse(format: &str, null: &str) -> Result<Self> {
        let mut columns = Vec::new();
        let mut parts = Vec::new();
        let mut rest = format;
        while !rest.is_empty() {
            let Some(after) = rest.strip_prefix('%') else {
                let (literal, after) = rest.split_at(rest.find('%').unwrap_or(rest.len()));
                parts.push(FormatPart::Literal(unescaped(literal)));
                rest = after;
                continue;
            };
            let mut chars = after.chars();
            let letter = chars.next();
            rest = chars.as_str();
            if letter == Some('%') {
                parts.push(FormatPart::Literal(b"%".to_vec()));
                continue;
            }
            let column = letter
                .and_then(column_of)
                .ok_or_else(|| unknown_token(letter))?;
            let known = columns.iter().position(|&known| known == column);
            let at = known.unwrap_or(columns.len());
            if known.is_none() {
                columns.push(column);
            }
            parts.push(match letter {
                Some('R') => FormatPart::FourBytes(at),
                _ => FormatPart::Cell(at),
            });
        }
        Ok(Self {
            columns,
            shape: Shape::Format(parts),
            null: null.into(),
            is_json_text: false,
        })
    }

    /// The columns to read, as views, timestamps in ms.
    #[must_use]
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The text of all records of `batch`, which has [`RecordText::columns`] in this order, and perhaps others after
    /// them.
    ///
    /// # Errors
    /// `InvalidArgument` where a column is missing or has another type.
    pub(crate) fn of(&self, batch: &RecordBatch) -> Result<Vec<u8>> {
        let layout = ColumnOptions {
            layout: Layout::View,
            ..ColumnOptions::default()
        };
        let mut cells = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            let field = column.field(&layout);
            let found = batch.columns().get(at);
            // Decoded ones are of any type.
            let decoded = found.filter(|array| {
                matches!(column, Column::Key | Column::Value)
                    && !matches!(array.data_type(), DataType::Binary | DataType::BinaryView)
                    && can_show(array.data_type())
            });
            let array = found.filter(|array| array.data_type().equals_datatype(field.data_type()));
            let cell = match decoded {
                Some(array) => Some(Cell::Decoded(array, self.is_json_text)),
                None => array.and_then(Cell::of),
            };
            let cell = cell.ok_or_else(|| {
                let found = found.map_or_else(|| "none".to_owned(), |a| a.data_type().to_string());
                let (name, expected) = (field.name(), field.data_type());
                Error::InvalidArgument(format!(
                    "column {at} to print: expected '{name}' of type {expected}, found {found}"
                ))
            })?;
            cells.push(cell);
        }
        let mut text = Vec::new();
        for row in 0..batch.num_rows() {
            match &self.shape {
                Shape::Format(parts) => self.put_parts(parts, &cells, row, &mut text),
                Shape::Json => put_json(&cells, row, &mut text),
            }
        }
        Ok(text)
    }

    fn put_parts(&self, parts: &[FormatPart], cells: &[Cell<'_>], row: usize, to: &mut Vec<u8>) {
        for part in parts {
            match part {
                FormatPart::Literal(literal) => to.extend_from_slice(literal),
                FormatPart::Cell(at) => {
                    if let Some(cell) = cells.get(*at) {
                        cell.put(row, &self.null, to);
                    }
                }
                FormatPart::FourBytes(at) => {
                    if let Some(Cell::Int(numbers)) = cells.get(*at) {
                        to.extend_from_slice(&numbers.value(row).to_be_bytes());
                    }
                }
            }
        }
    }
}

/// A column of one batch.
enum Cell<'a> {
    Bytes(&'a BinaryViewArray),
    Text(&'a StringViewArray),
    Int(&'a Int32Array),
    Long(&'a Int64Array),
    Time(&'a TimestampMillisecondArray),
    Headers(HeaderCells<'a>),
    /// A decoded key or value, and whether it is JSON text.
    Decoded(&'a ArrayRef, bool),
}

/// Of each record a list of keys and values.
struct HeaderCells<'a> {
    lists: &'a dyn Array,
    offsets: &'a OffsetBuffer<i32>,
    keys: &'a StringViewArray,
    values: &'a BinaryViewArray,
}

impl<'a> Cell<'a> {
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

    fn put(&self, row: usize, null: &[u8], to: &mut Vec<u8>) {
        match self {
            Self::Bytes(bytes) => to.extend_from_slice(some(bytes, row).unwrap_or(null)),
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

    /// A key or value as a field of an object.
    fn put_field(&self, name: &str, row: usize, to: &mut Vec<u8>) {
        let bytes = match self {
            Self::Bytes(bytes) => some(bytes, row),
            Self::Decoded(array, is_json) if array.is_valid(row) => {
                put_text_string(name, to);
                to.push(b':');
                return put_decoded(array, *is_json, row, to);
            }
            _ => None,
        };
        put_payload(name, bytes, to);
    }
}

/// A decoded key or value as JSON.
fn put_decoded(array: &ArrayRef, is_json: bool, row: usize, to: &mut Vec<u8>) {
    match array.as_string_opt::<i32>().filter(|_| is_json) {
        Some(json) => json.value(row).put(to),
        None => put_cell(array, row, to),
    }
}

fn some(bytes: &BinaryViewArray, row: usize) -> Option<&[u8]> {
    bytes.is_valid(row).then(|| bytes.value(row))
}

impl<'a> HeaderCells<'a> {
    fn of(&self, row: usize) -> impl Iterator<Item = (&'a str, Option<&'a [u8]>)> {
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

/// One record as kcat's JSON. Without a broker, `broker` is -1.
fn put_json(cells: &[Cell<'_>], row: usize, to: &mut Vec<u8>) {
    let [
        Cell::Text(topic),
        Cell::Int(partition),
        Cell::Long(offset),
        Cell::Int(kind),
        Cell::Time(time),
        Cell::Headers(headers),
        key,
        value,
    ] = cells
    else {
        return;
    };
    let kind = match kind.value(row) {
        kind if kind == TimestampType::CreateTime.id() => "create",
        kind if kind == TimestampType::LogAppendTime.id() => "logappend",
        _ => "unknown",
    };
    "{\"topic\":".put(to);
    if topic.is_valid(row) {
        put_text_string(topic.value(row), to);
    } else {
        "null".put(to);
    }
    ",\"partition\":".put(to);
    if partition.is_valid(row) {
        partition.value(row).put(to);
    } else {
        "null".put(to);
    }
    ",\"offset\":".put(to);
    offset.value(row).put(to);
    ",\"tstype\":\"".put(to);
    kind.put(to);
    "\",\"ts\":".put(to);
    time.value(row).put(to);
    ",\"broker\":-1,".put(to);
    for (n, (key, value)) in headers.of(row).enumerate() {
        (if n == 0 { "\"headers\":[" } else { "," }).put(to);
        put_text_string(key, to);
        to.push(b',');
        // A list has no names: bytes that are not UTF-8 are an object, which no text is.
        match value.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
            None => "null".put(to),
            Some((_, Ok(text))) => put_text_string(text, to),
            Some((bytes, Err(_))) => {
                "{\"base64\":".put(to);
                put_base64_string(bytes, to);
                to.push(b'}');
            }
        }
    }
    if headers.of(row).next().is_some() {
        "],".put(to);
    }
    key.put_field("key", row, to);
    to.push(b',');
    value.put_field("payload", row, to);
    "}\n".put(to);
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

const fn column_of(letter: char) -> Option<Column> {
    Some(match letter {
        's' => Column::Value,
        'S' | 'R' => Column::ValueSize,
        'k' => Column::Key,
        'K' => Column::KeySize,
        't' => Column::Topic,
        'p' => Column::Partition,
        'o' => Column::Offset,
        'T' => Column::Timestamp,
        'h' => Column::Headers,
        _ => return None,
    })
}

fn unknown_token(letter: Option<char>) -> Error {
    let letter = letter.map(String::from).unwrap_or_default();
    let valid = "%s %S %R %k %K %t %p %o %T %h %%";
    Error::InvalidArgument(format!(
        "unknown token %{letter} in the format; valid are {valid}"
    ))
}

/// Text with its escapes replaced; a backslash before any other character stands for that character.
fn unescaped(text: &str) -> Vec<u8> {
    let mut found = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('\\') {
        before.put(&mut found);
        let (byte, used) = match after.as_bytes() {
            [] => (b'\\', 0),
            [b'n', ..] => (b'\n', 1),
            [b't', ..] => (b'\t', 1),
            [b'r', ..] => (b'\r', 1),
            [b'x', digits @ ..] => match number::<16>(digits, 2) {
                (_, 0) => (b'x', 1),
                (byte, used) => (byte, used.saturating_add(1)),
            },
            digits @ [b'0'..=b'7', ..] => number::<8>(digits, 3),
            // The character stands there by itself.
            _ => {
                let mut chars = after.chars();
                chars
                    .next()
                    .map(String::from)
                    .unwrap_or_default()
                    .as_str()
                    .put(&mut found);
                rest = chars.as_str();
                continue;
            }
        };
        found.push(byte);
        rest = after.get(used..).unwrap_or_default();
    }
    rest.put(&mut found);
    found
}

/// The low byte of a number of at most `most` digits, and how many there are.
fn number<const RADIX: u32>(digits: &[u8], most: usize) -> (u8, usize) {
    let values = digits.iter().take(most);
    let values = values.map_while(|&digit| char::from(digit).to_digit(RADIX));
    values.fold((0, 0), |(number, used), digit| {
        let digit = u8::try_from(digit).unwrap_or_default();
        let shifted = number << RADIX.trailing_zeros();
        (shifted | digit, used.saturating_add(1))
    })
}
