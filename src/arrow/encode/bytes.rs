//! Columns of byte strings by row, whatever their layout.

use arrow_array::cast::AsArray;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, FixedSizeBinaryArray, LargeBinaryArray,
};
use arrow_schema::DataType;

use super::places::Places;
use crate::error::{Error, Result};
use crate::io::unaligned::Unaligned;

/// A column of byte strings by row; the row is one of the column's.
pub(super) trait ByteColumn {
    fn get(&self, row: usize) -> Option<&[u8]>;
}

/// A column that is missing: null in every row.
#[derive(Debug)]
pub(super) struct Absent;

impl ByteColumn for Absent {
    #[inline]
    fn get(&self, _: usize) -> Option<&[u8]> {
        None
    }
}

/// The most common layout, without nulls.
#[derive(Debug)]
pub(super) struct Dense<'a> {
    pub(super) offsets: &'a [i32],
    pub(super) data: &'a [u8],
}

impl ByteColumn for Dense<'_> {
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

/// Prefetches bytes that are read later.
#[inline]
fn fetch(data: &[u8], mut at: usize, len: usize) {
    let end = at.wrapping_add(len.min(AHEAD));
    Unaligned::new(data).fetch(at);
    at = at.wrapping_add(LINE);
    while at <= end {
        Unaligned::new(data).fetch(at);
        at = at.wrapping_add(LINE);
    }
}

/// Distance of prefetching, in bytes. The processor's own prefetcher does not cross pages, and restarts after every
/// write.
const AHEAD: usize = 4 << 10;
/// Size of a cache line, in bytes.
const LINE: usize = 64;
/// Of shorter values, the record takes longer than its bytes.
const LEAST_FETCHED: usize = LINE / 2;

/// Any layout.
#[derive(Debug)]
pub(super) enum InputColumn {
    Absent,
    Binary(BinaryArray),
    Large(LargeBinaryArray),
    View(BinaryViewArray),
    Fixed(FixedSizeBinaryArray),
    /// Not one value for each row.
    Placed(Places, Box<Self>),
}

impl InputColumn {
    /// This array, shared.
    pub(super) fn new(name: &str, array: &ArrayRef) -> Result<Self> {
        if let (Some(places), values) = Places::of(array) {
            return Ok(Self::Placed(places, Box::new(Self::new(name, &values)?)));
        }
        Ok(match array.data_type() {
            DataType::Null => Self::Absent,
            DataType::Binary => Self::Binary(array.as_binary::<i32>().clone()),
            DataType::Utf8 => Self::Binary(array.as_string::<i32>().clone().into()),
            DataType::LargeBinary => Self::Large(array.as_binary::<i64>().clone()),
            DataType::LargeUtf8 => Self::Large(array.as_string::<i64>().clone().into()),
            DataType::BinaryView => Self::View(array.as_binary_view().clone()),
            DataType::Utf8View => Self::View(array.as_string_view().clone().to_binary_view()),
            DataType::FixedSizeBinary(_) => Self::Fixed(array.as_fixed_size_binary().clone()),
            other => return Err(wrong_type(name, "binary or string, of any layout", other)),
        })
    }

    /// As the most common layout, if it is that.
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

impl ByteColumn for InputColumn {
    #[inline]
    fn get(&self, row: usize) -> Option<&[u8]> {
        match self {
            Self::Absent => None,
            Self::Binary(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Large(array) => array.is_valid(row).then(|| array.value(row)),
            Self::View(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Fixed(array) => array.is_valid(row).then(|| array.value(row)),
            Self::Placed(places, values) => values.get(places.find(row)?),
        }
    }
}

#[cold]
pub(super) fn wrong_type(name: &str, expected: &str, found: &DataType) -> Error {
    Error::InvalidArgument(format!(
        "column '{name}': expected {expected}, found {found}"
    ))
}
