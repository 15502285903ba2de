//! The columns of rows to be written, in any layout: read in place, never converted as a whole.
//!
//! | column | types |
//! |---|---|
//! | `key`, `value`, names and values of headers | binary, large_binary, binary_view, fixed_size_binary, the same of string, null |
//! | `headers` | map, or list, large_list, list_view, large_list_view or fixed_size_list of struct<key, value>, null |
//! | `timestamp` | timestamp of any unit and zone, int64 (milliseconds), null |
//! | `offset` | int64 |
//! | any of them, and what is in the lists | dictionaries and run-end encodings of these ([`places`](super::places)) |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int64Type, TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType,
    TimestampSecondType,
};
use arrow_array::{Array, ArrayRef, RecordBatch};
use arrow_buffer::{NullBuffer, ScalarBuffer};
use arrow_schema::{DataType, TimeUnit};

use super::bytes::{InputColumn, wrong_type};
use super::headers::HeaderRows;
use super::places::{Places, find};
use crate::error::{Error, Result};
use crate::types::{NO_TIMESTAMP, Offset, TimestampMs};

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
    /// Below -1 after the last row, which no record takes.
    #[inline]
    fn get(&self, row: usize) -> TimestampMs {
        <[i64]>::get(self, row).copied().unwrap_or(i64::MIN)
    }
}

/// Timestamps in milliseconds, from whatever unit.
#[derive(Debug)]
pub(super) struct Timestamps {
    places: Option<Places>,
    values: ScalarBuffer<i64>,
    nulls: Option<NullBuffer>,
    /// Factor between the unit and a millisecond, whichever is larger.
    divide: i64,
    multiply: i64,
}

impl Timestamps {
    fn new(array: &ArrayRef) -> Result<Option<Self>> {
        let (places, array) = Places::of(array);
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
            places,
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
        let Some(row) = find(self.places.as_ref(), row) else {
            return Ok(None);
        };
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
        let is_plain = is_plain && self.places.is_none();
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

/// The columns of one record batch that are written.
#[derive(Debug)]
pub(super) struct InputColumns {
    pub(super) rows: usize,
    pub(super) key: InputColumn,
    pub(super) value: InputColumn,
    pub(super) headers: Option<HeaderRows>,
    pub(super) timestamps: Option<Timestamps>,
    pub(super) offsets: Option<OffsetRows>,
}

impl InputColumns {
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
                    "column '{name}' appears twice"
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
            Some(array) => InputColumn::new(name, array),
            None => Ok(InputColumn::Absent),
        };
        Ok(Self {
            rows: batch.num_rows(),
            key: column("key", key)?,
            value: column("value", value)?,
            headers: find("headers")?.map_or(Ok(None), HeaderRows::new)?,
            timestamps: find("timestamp")?.map_or(Ok(None), Timestamps::new)?,
            offsets: match find("offset")? {
                Some(array) if keeps_offsets => Some(OffsetRows::new(array)?),
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

/// Offsets by row.
#[derive(Debug)]
pub(super) struct OffsetRows {
    places: Option<Places>,
    values: ScalarBuffer<Offset>,
    nulls: Option<NullBuffer>,
}

impl OffsetRows {
    fn new(array: &ArrayRef) -> Result<Self> {
        let (places, array) = Places::of(array);
        let offsets = array
            .as_primitive_opt::<Int64Type>()
            .ok_or_else(|| wrong_type("offset", "int64", array.data_type()))?;
        // Of values with numbers, none may be there for the null ones.
        if places.is_none() && offsets.null_count() > 0 {
            return Err(Error::InvalidArgument(
                "column 'offset': expected no nulls, found some".to_owned(),
            ));
        }
        Ok(Self {
            places,
            values: offsets.values().clone(),
            nulls: offsets.nulls().cloned(),
        })
    }

    /// The row's offset, if it has one.
    #[inline]
    pub(super) fn get(&self, row: usize) -> Option<Offset> {
        let at = find(self.places.as_ref(), row);
        let at = at.filter(|&at| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(at)));
        at.and_then(|at| self.values.get(at).copied())
    }
}
