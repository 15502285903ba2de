//! Values of any type as JSON: fields of decoded records.
//!
//! | type | JSON |
//! |---|---|
//! | struct, map, list | object, object, array |
//! | numbers, boolean | the same; `"NaN"`, `"Infinity"`, `"-Infinity"` |
//! | decimal | string with all digits |
//! | text | string |
//! | bytes | string, base64 |
//! | date, time, timestamp | string, ISO 8601, timestamps with milliseconds or more; a number where that has no form |

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type, Int8Type, Int16Type,
    Int32Type, Int64Type, Time32MillisecondType, Time64MicrosecondType, Time64NanosecondType,
    TimestampMicrosecondType, TimestampMillisecondType, TimestampNanosecondType, UInt32Type,
    UInt64Type,
};
use arrow_array::{Array, ArrowPrimitiveType, OffsetSizeTrait};
use arrow_schema::{DataType, TimeUnit};
use chrono::{DateTime, Datelike, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike};

use crate::format::put::Put;
use crate::tables::json::{put_base64_string, put_text_string};

/// Returns whether a column of this type can be shown.
pub(super) fn can_show(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(fields) => fields.iter().all(|field| can_show(field.data_type())),
        DataType::List(item) | DataType::Map(item, _) => can_show(item.data_type()),
        DataType::Null
        | DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Float32
        | DataType::Float64
        | DataType::Utf8
        | DataType::Utf8View
        | DataType::Binary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::Date32
        | DataType::Time32(TimeUnit::Millisecond)
        | DataType::Time64(_)
        | DataType::Timestamp(
            TimeUnit::Millisecond | TimeUnit::Microsecond | TimeUnit::Nanosecond,
            _,
        )
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => true,
        _ => false,
    }
}

/// Writes a value as JSON; null for one of a type that is not shown.
pub(super) fn put_cell(array: &dyn Array, row: usize, to: &mut Vec<u8>) {
    if array.is_null(row) || put_known(array, row, to).is_none() {
        "null".put(to);
    }
}

#[expect(
    clippy::too_many_lines,
    reason = "a line or two for each type of Arrow"
)]
fn put_known(array: &dyn Array, row: usize, to: &mut Vec<u8>) -> Option<()> {
    match array.data_type() {
        DataType::Boolean => array.as_boolean().value(row).put(to),
        DataType::Int8 => put_number::<Int8Type>(array, row, to),
        DataType::Int16 => put_number::<Int16Type>(array, row, to),
        DataType::Int32 => put_number::<Int32Type>(array, row, to),
        DataType::Int64 => put_number::<Int64Type>(array, row, to),
        DataType::UInt32 => put_number::<UInt32Type>(array, row, to),
        DataType::UInt64 => array.as_primitive::<UInt64Type>().value(row).put(to),
        DataType::Float32 => {
            let number = array.as_primitive::<Float32Type>().value(row);
            put_float(number.into(), serde_json::to_string(&number).ok(), to);
        }
        DataType::Float64 => {
            let number = array.as_primitive::<Float64Type>().value(row);
            put_float(number, serde_json::to_string(&number).ok(), to);
        }
        DataType::Decimal128(..) => {
            put_plain(
                &array.as_primitive::<Decimal128Type>().value_as_string(row),
                to,
            );
        }
        DataType::Decimal256(..) => {
            put_plain(
                &array.as_primitive::<Decimal256Type>().value_as_string(row),
                to,
            );
        }
        DataType::Utf8 => put_text_string(array.as_string::<i32>().value(row), to),
        DataType::Utf8View => put_text_string(array.as_string_view().value(row), to),
        DataType::Binary => put_base64_string(array.as_binary::<i32>().value(row), to),
        DataType::BinaryView => put_base64_string(array.as_binary_view().value(row), to),
        DataType::FixedSizeBinary(_) => {
            put_base64_string(array.as_fixed_size_binary().value(row), to);
        }
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>().value(row);
            let epoch = DateTime::UNIX_EPOCH.date_naive();
            let date = TimeDelta::try_days(days.into());
            let date = date.and_then(|days| epoch.checked_add_signed(days));
            match date.filter(|date| is_plain_year(*date)) {
                Some(date) => put_plain(&date.to_string(), to),
                None => i64::from(days).put(to),
            }
        }
        DataType::Time32(TimeUnit::Millisecond) => {
            let millis = array.as_primitive::<Time32MillisecondType>().value(row);
            put_time_of_day(millis.into(), 1_000_000, to);
        }
        DataType::Time64(TimeUnit::Microsecond) => {
            let micros = array.as_primitive::<Time64MicrosecondType>().value(row);
            put_time_of_day(micros, 1_000, to);
        }
        DataType::Time64(TimeUnit::Nanosecond) => {
            let nanos = array.as_primitive::<Time64NanosecondType>().value(row);
            put_time_of_day(nanos, 1, to);
        }
        DataType::Timestamp(unit, zone) => {
            let (number, time) = match unit {
                TimeUnit::Millisecond => {
                    let millis = array.as_primitive::<TimestampMillisecondType>().value(row);
                    (millis, DateTime::from_timestamp_millis(millis))
                }
                TimeUnit::Microsecond => {
                    let micros = array.as_primitive::<TimestampMicrosecondType>().value(row);
                    (micros, DateTime::from_timestamp_micros(micros))
                }
                TimeUnit::Nanosecond => {
                    let nanos = array.as_primitive::<TimestampNanosecondType>().value(row);
                    (nanos, Some(DateTime::from_timestamp_nanos(nanos)))
                }
                TimeUnit::Second => return None,
            };
            let zone = if zone.is_some() { "Z" } else { "" };
            let time = time.map(|time| time.naive_utc());
            match time.filter(|time| is_plain_year(time.date())) {
                Some(time) => put_time(time, zone, to),
                None => number.put(to),
            }
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct().columns();
            for (n, (field, column)) in fields.iter().zip(columns).enumerate() {
                to.push(if n > 0 { b',' } else { b'{' });
                put_text_string(field.name(), to);
                to.push(b':');
                put_cell(column, row, to);
            }
            (if fields.is_empty() { "{}" } else { "}" }).put(to);
        }
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            to.push(b'[');
            for (n, at) in places(lists.value_offsets(), row).enumerate() {
                if n > 0 {
                    to.push(b',');
                }
                put_cell(lists.values(), at, to);
            }
            to.push(b']');
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let mut key = Vec::new();
            to.push(b'{');
            for (n, at) in places(maps.value_offsets(), row).enumerate() {
                if n > 0 {
                    to.push(b',');
                }
                key.clear();
                put_cell(maps.keys(), at, &mut key);
                if key.first() == Some(&b'"') {
                    to.extend_from_slice(&key);
                } else {
                    put_plain(&String::from_utf8_lossy(&key), to);
                }
                to.push(b':');
                put_cell(maps.values(), at, to);
            }
            to.push(b'}');
        }
        _ => return None,
    }
    Some(())
}

fn places<O: OffsetSizeTrait>(offsets: &[O], row: usize) -> std::ops::Range<usize> {
    let place = |at: usize| offsets.get(at).map_or(0, |offset| offset.as_usize());
    place(row)..place(row.saturating_add(1))
}

fn put_number<T: ArrowPrimitiveType<Native: Into<i64>>>(
    array: &dyn Array,
    row: usize,
    to: &mut Vec<u8>,
) {
    array.as_primitive::<T>().value(row).into().put(to);
}

fn put_float(number: f64, text: Option<String>, to: &mut Vec<u8>) {
    match text.filter(|_| number.is_finite()) {
        Some(text) => text.as_str().put(to),
        None if number.is_nan() => "\"NaN\"".put(to),
        None if number > 0.0 => "\"Infinity\"".put(to),
        None => "\"-Infinity\"".put(to),
    }
}

/// Text that needs no escapes.
fn put_plain(text: &str, to: &mut Vec<u8>) {
    to.push(b'"');
    text.put(to);
    to.push(b'"');
}

/// ISO 8601 writes these with four digits.
fn is_plain_year(date: NaiveDate) -> bool {
    (1..=9999).contains(&date.year())
}

/// ISO 8601 with milliseconds, and with more digits where there are some.
fn put_time(time: NaiveDateTime, zone: &str, to: &mut Vec<u8>) {
    let digits = |number: u32, width: usize, to: &mut Vec<u8>| {
        let begin = to.len();
        u64::from(number).put(to);
        while to.len() < begin.saturating_add(width) {
            to.insert(begin, b'0');
        }
    };
    let nanos = time.nanosecond();
    let (fraction, width) = match nanos {
        _ if nanos.is_multiple_of(1_000_000) => (nanos / 1_000_000, 3),
        _ if nanos.is_multiple_of(1_000) => (nanos / 1_000, 6),
        _ => (nanos, 9),
    };
    for (before, number, width) in [
        (b'"', time.year().unsigned_abs(), 4),
        (b'-', time.month(), 2),
        (b'-', time.day(), 2),
        (b'T', time.hour(), 2),
        (b':', time.minute(), 2),
        (b':', time.second(), 2),
        (b'.', fraction, width),
    ] {
        to.push(before);
        digits(number, width, to);
    }
    zone.put(to);
    to.push(b'"');
}

fn put_time_of_day(number: i64, nanos: i64, to: &mut Vec<u8>) {
    let total = number
        .checked_mul(nanos)
        .and_then(|total| u64::try_from(total).ok());
    let time = total.and_then(|total| {
        let (seconds, nanos) = (total / 1_000_000_000, total % 1_000_000_000);
        let (seconds, nanos) = (u32::try_from(seconds).ok()?, u32::try_from(nanos).ok()?);
        NaiveTime::from_num_seconds_from_midnight_opt(seconds, nanos)
    });
    match time {
        Some(time) => put_plain(&time.to_string(), to),
        None => number.put(to),
    }
}
