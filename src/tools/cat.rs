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

use arrow_array::{Array as _, RecordBatch};

use super::record_cells::Cell;
use crate::arrow::schema::Column;
use crate::error::{Error, Result};
use crate::format::put::Put;
use crate::tables::json::{put_base64_string, put_text_string};
use crate::types::TimestampType;

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
    /// Names of the fields for the columns after [`ENVELOPE`].
    error_names: Vec<&'static str>,
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
            error_names: Vec::new(),
        }
    }

    /// The same, for decoded keys and values that are JSON text.
    pub(crate) const fn of_json_text(mut self, is_json_text: bool) -> Self {
        self.is_json_text = is_json_text;
        self
    }

    /// The same; as JSON, with a field that says why the key, or the value, is not decoded.
    pub(crate) fn with_errors(mut self, key: bool, value: bool) -> Self {
        if let Shape::Json = self.shape {
            self.columns.extend(key.then_some(Column::KeyError));
            self.columns.extend(value.then_some(Column::ValueError));
            self.error_names.extend(key.then_some("keyError"));
            self.error_names.extend(value.then_some("payloadError"));
        }
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
            error_names: Vec::new(),
        })
    }

    /// The columns to read, as views, timestamps in ms.
    #[must_use]
    pub(crate) fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// The text of the records of `batch`, or of these rows of it; the batch has [`RecordText::columns`] in this order, and
    /// perhaps others after them.
    ///
    /// # Errors
    /// `InvalidArgument` where a column is missing or has another type.
    pub(crate) fn of(&self, batch: &RecordBatch, rows: Option<&[usize]>) -> Result<Vec<u8>> {
        let mut cells = Vec::with_capacity(self.columns.len());
        for (at, column) in self.columns.iter().enumerate() {
            let array = batch.columns().get(at).ok_or_else(|| {
                let name = column.name();
                Error::InvalidArgument(format!(
                    "column {at} to print: expected '{name}', found none"
                ))
            })?;
            cells.push(Cell::try_new(*column, array, self.is_json_text)?);
        }
        let mut text = Vec::new();
        let mut put = |row| match &self.shape {
            Shape::Format(parts) => self.put_parts(parts, &cells, row, &mut text),
            Shape::Json => put_json(&cells, &self.error_names, row, &mut text),
        };
        match rows {
            Some(rows) => {
                let known = rows.iter().filter(|&&row| row < batch.num_rows());
                known.for_each(|&row| put(row));
            }
            None => (0..batch.num_rows()).for_each(put),
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

/// One record as kcat's JSON. Without a broker, `broker` is -1.
fn put_json(cells: &[Cell<'_>], error_names: &[&str], row: usize, to: &mut Vec<u8>) {
    let [
        Cell::Text(topic),
        Cell::Int(partition),
        Cell::Long(offset),
        Cell::Int(kind),
        Cell::Time(time),
        Cell::Headers(headers),
        key,
        value,
        errors @ ..,
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
    for (name, error) in error_names.iter().zip(errors) {
        if let Cell::Decoded(array, _) = error
            && array.is_valid(row)
        {
            to.push(b',');
            error.put_field(name, row, to);
        }
    }
    "}\n".put(to);
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
