//! The columns of rows to be written, whatever their layout: looked at where they lie, never converted as a whole.
//!
//! | column | types |
//! |---|---|
//! | `key`, `value`, names and values of headers | binary, large_binary, binary_view, fixed_size_binary, the same of string, dictionaries of these, null |
//! | `headers` | list, large_list or map of struct<key, value>, null |
//! | `timestamp` | timestamp of any unit and zone, int64 (milliseconds), null |
//! | `offset` | int64 |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
    RecordBatch, StructArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use crate::error::{Error, Result};
use crate::io::words::Words;
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

/// A column of byte strings by row; the row is one of the column's.
pub(super) trait Bytes {
    fn get(&self, row: usize) -> Option<&[u8]>;
}

/// No column at all: null in every row.
#[derive(Debug)]
pub(super) struct Absent;

impl Bytes for Absent {
    #[inline]
    fn get(&self, _: usize) -> Option<&[u8]> {
        None
    }
}

/// The layout nearly everybody has, without a null in it.
#[derive(Debug)]
pub(super) struct Dense<'a> {
    pub(super) offsets: &'a [i32],
    pub(super) data: &'a [u8],
}

impl Bytes for Dense<'_> {
    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        let &[begin, end] = self.offsets.get(row..)?.first_chunk()?;
        let (begin, end) = (usize::try_from(begin).ok()?, usize::try_from(end).ok()?);
        let value = self.data.get(begin..end)?;
        if value.len() >= LEAST_FETCHED {
            fetch(self.data, begin.wrapping_add(AHEAD), value.len());
        }
        Some(value)
    }
}

/// Has bytes fetched that are read later.
#[inline]
fn fetch(data: &[u8], mut at: usize, len: usize) {
    let end = at.wrapping_add(len.min(AHEAD));
    Words::new(data).fetch(at);
    at = at.wrapping_add(LINE);
    while at <= end {
        Words::new(data).fetch(at);
        at = at.wrapping_add(LINE);
    }
}

/// So many bytes ahead the processor is told what will be read: by itself it does not look beyond the page it is in, and
/// begins anew behind every write.
const AHEAD: usize = 4 << 10;
/// What it fetches at once.
const LINE: usize = 64;
/// Where values are shorter, records take longer than their bytes.
const LEAST_FETCHED: usize = LINE / 2;

/// Any layout.
#[derive(Debug)]
pub(super) enum Column {
    Absent,
    Binary(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
    /// For each row the value's number, and where rows are null.
    Dictionary(Vec<usize>, Option<NullBuffer>, Box<Self>),
}

impl Column {
    /// This array, shared.
    pub(super) fn new(name: &str, array: &dyn Array) -> Result<Self> {
        Ok(match array.data_type() {
            DataType::Null => Self::Absent,
            DataType::Binary => Self::Binary(array.as_binary::<i32>().clone()),
            DataType::Utf8 => Self::Binary(array.as_string::<i32>().clone().into()),
            DataType::LargeBinary => Self::Large(array.as_binary::<i64>().clone()),
            DataType::LargeUtf8 => Self::Large(array.as_string::<i64>().clone().into()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone().to_binary_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary().clone()),
            DataType::Dictionary(_, _) => {
                let dictionary = array.as_any_dictionary();
                let values = Self::new(name, dictionary.values().as_ref())?;
                if dictionary.values().is_empty() {
                    Self::Absent
                } else {
                    let nulls = dictionary.keys().nulls().cloned();
                    Self::Dictionary(dictionary.normalized_keys(), nulls, Box::new(values))
                }
            }
            other => return Err(wrong_type(name, "binary or string, of any layout", other)),
        })
    }

    /// As the layout nearly everybody has, if it is that.
    pub(super) fn dense(&self) -> Option<Dense<'_>> {
        match self {
            Self::Binary(array) if array.null_count() == 0 => Some(Dense {
                offsets: array.value_offsets(),
                data: array.value_data(),
            }),
            _ => None,
        }
    }
}

impl Bytes for Column {
    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Large(array) => array.is_valid(row).then(|| array.value(row)),
            Self::View(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Fixed(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Dictionary(keys, nulls, values) => {
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    return None;
                }
                values.get(*keys.get(row)?)
            }
        }
    }
}

/// A column of timestamps by row that needs no looking at: milliseconds, or -1.
pub(super) trait Times {
    fn get(&self, row: usize) -> TimestampMs;
}

/// The same in every row.
#[derive(Clone, Copy, Debug)]
pub(super) struct Always(pub(super) TimestampMs);

impl Times for Always {
    #[inline]
    fn get(&self, _: usize) -> TimestampMs {
        self.0
    }
}

impl Times for &[i64] {
    /// Below -1 behind the last row, which no record takes.
    #[inline]
    fn get(&self, row: usize) -> TimestampMs {
        <[i64]>::get(self, row).copied().unwrap_or(i64::MIN)
    }
}

/// Timestamps in milliseconds, from whatever unit.
#[derive(Debug)]
pub(super) struct Timestamps {
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    /// How many of the unit are a millisecond, or how many milliseconds are one of the unit.
    divide: i64,
    multiply: i64,
}

impl Timestamps {
    fn new(array: &dyn Array) -> Result<Option<Self>> {
        let (values, divide, multiply) = match array.data_type() {
            DataType::Null => return Ok(None),
            DataType::Int64 => (array.as_primitive::<Int64Type>().values(), 1, 1),
            DataType::Timestamp(TimeUnit::Second, _) => (
                array.as_primitive::<TimestampSecondType>().values(),
                1,
                1000,
            ),
            DataType::Timestamp(TimeUnit::Millisecond, _) => (
                array.as_primitive::<TimestampMillisecondType>().values(),
                1,
                1,
            ),
            DataType::Timestamp(TimeUnit::Microsecond, _) => (
                array.as_primitive::<TimestampMicrosecondType>().values(),
                1000,
                1,
            ),
            DataType::Timestamp(TimeUnit::Nanosecond, _) => (
                array.as_primitive::<TimestampNanosecondType>().values(),
                1_000_000,
                1,
            ),
            other => {
                return Err(wrong_type(
                    "timestamp",
                    "a timestamp or int64 (milliseconds)",
                    other,
                ));
            }
        };
        Ok(Some(Self {
            values: values.clone(),
            nulls: array.nulls().cloned(),
            divide,
            multiply,
        }))
    }

    /// The row's timestamp, parts of a millisecond cut off; `None` for null, an error for one below 0 that is not
    /// exactly -1 ms, which is how a record without timestamp is read.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Result<Option<TimestampMs>, i64> {
        if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            return Ok(None);
        }
        let raw = self.values.get(row).copied().unwrap_or_default();
        if self.divide == 1 && self.multiply == 1 && raw >= NO_TIMESTAMP {
            return Ok(Some(raw));
        }
        self.scaled(raw).map(Some).ok_or(raw)
    }

    /// As they stand, where they are milliseconds without a null; some may be below -1.
    pub(super) fn dense(&self) -> Option<&[i64]> {
        let is_plain = self.divide == 1 && self.multiply == 1 && self.nulls.is_none();
        is_plain.then_some(&*self.values)
    }

    fn scaled(&self, raw: i64) -> Option<TimestampMs> {
        let timestamp = raw.checked_mul(self.multiply)?;
        if timestamp >= 0 {
            return timestamp.checked_div(self.divide);
        }
        (timestamp == NO_TIMESTAMP.checked_mul(self.divide)?).then_some(NO_TIMESTAMP)
    }
}

/// Where each row's headers are among all of them.
#[derive(Debug)]
enum Spans {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

/// Headers by row.
#[derive(Debug)]
pub(super) struct Headers {
    spans: Spans,
    nulls: Option<NullBuffer>,
    entries: Option<NullBuffer>,
    keys: Column,
    values: Column,
}

impl Headers {
    fn new(array: &dyn Array) -> Result<Option<Self>> {
        let (spans, entries): (_, &StructArray) = match array.data_type() {
            DataType::Null => return Ok(None),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (
                    Spans::Small(list.offsets().clone()),
                    structs(array, list.values())?,
                )
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (
                    Spans::Large(list.offsets().clone()),
                    structs(array, list.values())?,
                )
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                (Spans::Small(map.offsets().clone()), map.entries())
            }
            other => return Err(headers_type(other)),
        };
        let is_map = matches!(array.data_type(), DataType::Map(_, _));
        let field = |name: &str, at: usize| {
            let array = if is_map {
                entries.columns().get(at)
            } else {
                entries.column_by_name(name)
            };
            array.ok_or_else(|| headers_type(array_type(entries)))
        };
        if entries.num_columns() != 2 {
            return Err(headers_type(array.data_type()));
        }
        Ok(Some(Self {
            spans,
            nulls: array.nulls().cloned(),
            entries: entries.nulls().cloned(),
            keys: Column::new("the key of headers", field("key", 0)?)?,
            values: Column::new("the value of headers", field("value", 1)?)?,
        }))
    }

    /// The row's headers, in order: key, null if it is, and value.
    #[inline]
    pub(super) fn get(
        &self,
        row: usize,
    ) -> impl ExactSizeIterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        let range = if self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            None
        } else {
            match &self.spans {
                Spans::Small(offsets) => span(offsets, row),
                Spans::Large(offsets) => span(offsets, row),
            }
        };
        range.unwrap_or(0..0).map(|at| {
            let is_null = self.entries.as_ref().is_some_and(|nulls| nulls.is_null(at));
            let key = if is_null { None } else { self.keys.get(at) };
            (key, self.values.get(at))
        })
    }
}

fn span<T: Copy + TryInto<usize>>(offsets: &[T], row: usize) -> Option<std::ops::Range<usize>> {
    let &[begin, end] = offsets.get(row..)?.first_chunk()?;
    Some(begin.try_into().ok()?..end.try_into().ok()?)
}

fn structs<'a>(list: &dyn Array, values: &'a ArrayRef) -> Result<&'a StructArray> {
    values
        .as_struct_opt()
        .ok_or_else(|| headers_type(list.data_type()))
}

fn array_type(array: &StructArray) -> &DataType {
    array.data_type()
}

#[cold]
fn headers_type(found: &DataType) -> Error {
    wrong_type("headers", "list<struct<key, value>> or a map", found)
}

#[cold]
fn wrong_type(name: &str, expected: &str, found: &DataType) -> Error {
    Error::InvalidArgument(format!(
        "column '{name}': expected {expected}, found {found}"
    ))
}

/// The columns of one record batch that are written.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) rows: usize,
    pub(super) key: Column,
    pub(super) value: Column,
    pub(super) headers: Option<Headers>,
    pub(super) timestamps: Option<Timestamps>,
    pub(super) offsets: Option<ScalarBuffer<Offset>>,
}

impl Columns {
    /// Finds them by name.
    ///
    /// # Errors
    /// `InvalidArgument` without key and value, with a column that is not written unless `ignore_extra`, with a name
    /// twice, with a type that does not serve, with an offset that is null.
    pub(super) fn new(
        batch: &RecordBatch,
        keeps_offsets: bool,
        ignore_extra: bool,
    ) -> Result<Self> {
        let schema = batch.schema_ref();
        let known = |name: &str| {
            matches!(name, "key" | "value" | "headers" | "timestamp")
                || (keeps_offsets && name == "offset")
        };
        let names = || schema.fields().iter().map(|field| field.name().as_str());
        let extra: Vec<_> = names().filter(|name| !known(name)).collect();
        if !extra.is_empty() && !ignore_extra {
            let offset = if keeps_offsets { ", offset" } else { "" };
            return Err(Error::InvalidArgument(format!(
                "columns: expected key, value, headers, timestamp{offset}, found also {} (extra=\"ignore\" leaves them out)",
                extra.join(", ")
            )));
        }
        let find = |name: &str| -> Result<Option<&ArrayRef>> {
            let mut found = names().zip(batch.columns()).filter(|(n, _)| *n == name);
            let first = found.next().map(|(_, array)| array);
            match found.next() {
                Some(_) => Err(Error::InvalidArgument(format!(
                    "column '{name}' is there twice"
                ))),
                None => Ok(first),
            }
        };
        let (key, value) = (find("key")?, find("value")?);
        if key.is_none() && value.is_none() {
            return Err(Error::InvalidArgument(format!(
                "columns: expected key or value, found {}",
                names().collect::<Vec<_>>().join(", ")
            )));
        }
        let column = |name: &str, array: Option<&ArrayRef>| match array {
            Some(array) => Column::new(name, array),
            None => Ok(Column::Absent),
        };
        Ok(Self {
            rows: batch.num_rows(),
            key: column("key", key)?,
            value: column("value", value)?,
            headers: find("headers")?.map_or(Ok(None), |array| Headers::new(array))?,
            timestamps: find("timestamp")?.map_or(Ok(None), |array| Timestamps::new(array))?,
            offsets: match find("offset")? {
                Some(array) if keeps_offsets => Some(offsets(array)?),
                None if keeps_offsets => {
                    return Err(Error::InvalidArgument(format!(
                        "columns: expected offset, to be kept, found {}",
                        names().collect::<Vec<_>>().join(", ")
                    )));
                }
                _ => None,
            },
        })
    }
}

fn offsets(array: &ArrayRef) -> Result<ScalarBuffer<Offset>> {
    match array.as_primitive_opt::<Int64Type>() {
        Some(offsets) if offsets.null_count() == 0 => Ok(offsets.values().clone()),
        Some(_) => Err(Error::InvalidArgument(
            "column 'offset': expected no nulls, found some".to_owned(),
        )),
        None => Err(wrong_type("offset", "int64", array.data_type())),
    }
}
