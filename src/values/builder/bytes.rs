//! Columns of text and of bytes.

use std::mem;
use std::sync::Arc;

use arrow_array::{ArrayRef, BinaryArray, StringArray, make_array};
use arrow_buffer::{Buffer, NullBufferBuilder};
use arrow_data::ArrayData;
use arrow_schema::DataType;

use super::offsets::{Validity, end_of, finish_offsets, offset, refused, renewed};
use crate::error::Result;
use crate::values::fault::{Cause, Undecoded};

/// Bytes that are copied at once.
pub(crate) const SHORT: usize = 16;

/// Text or bytes.
#[derive(Debug)]
pub(crate) struct BytesBuilder {
    data_type: DataType,
    bytes: Vec<u8>,
    /// One more than rows.
    offsets: Vec<i32>,
    nulls: NullBufferBuilder,
}

/// Byte strings of one width.
#[derive(Debug)]
pub(crate) struct FixedBuilder {
    width: usize,
    data_type: DataType,
    bytes: Vec<u8>,
    nulls: NullBufferBuilder,
}

/// Bytes to append; of a column of text, UTF-8.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Text<'a> {
    /// The first of these.
    Short(&'a [u8; SHORT], usize),
    Long(&'a [u8]),
}

impl<'a> Text<'a> {
    /// The first `length` bytes, if they are ASCII and no more than are copied at once, with those after them.
    #[inline]
    #[expect(clippy::little_endian_bytes, reason = "the first byte is the lowest")]
    pub(crate) fn short_ascii(bytes: &'a [u8], length: usize) -> Option<Self> {
        const HIGH: u128 = u128::from_le_bytes([0x80; SHORT]);
        let start = bytes.first_chunk::<SHORT>()?;
        let bits = u32::try_from(length).ok()?.checked_mul(8)?;
        let high = u128::from_le_bytes(*start) & HIGH & !u128::MAX.unbounded_shl(bits);
        (length <= SHORT && high == 0).then_some(Self::Short(start, length))
    }
}

impl BytesBuilder {
    /// Appends a text.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn push_text(&mut self, text: Text<'_>) -> std::result::Result<(), Undecoded> {
        match text {
            Text::Short(start, length) => self.push_short(start, length),
            Text::Long(bytes) => self.push(bytes),
        }
    }

    /// Appends what `value` makes of each of `all`, null where it makes nothing.
    ///
    /// # Errors
    /// The last one of `value`, and `TooLarge`; some rows are appended then.
    #[inline]
    pub(crate) fn push_all<'a, S>(
        &mut self,
        all: &mut [S],
        mut value: impl FnMut(&mut S) -> std::result::Result<Option<Text<'a>>, Undecoded>,
    ) -> std::result::Result<(), Undecoded> {
        let mut validity = Validity::default();
        let mut done = Ok(());
        let bytes = &mut self.bytes;
        let mut end = bytes.len();
        let room = all.len().saturating_mul(SHORT);
        self.offsets.extend(all.iter_mut().map(|each| {
            let made = value(each).unwrap_or_else(|e| {
                done = Err(e);
                None
            });
            validity.push(made.is_some());
            match made {
                Some(Text::Short(start, length)) => {
                    // A copy of a known length is cheaper, also into room that is there.
                    if bytes.len() < end.saturating_add(SHORT) {
                        bytes.resize(end.saturating_add(room), 0);
                    }
                    let place = bytes.get_mut(end..).and_then(<[u8]>::first_chunk_mut);
                    if let Some(place) = place {
                        *place = *start;
                    }
                    end = end.saturating_add(length);
                }
                Some(Text::Long(value)) => {
                    let ends = end.saturating_add(value.len());
                    if let Some(place) = bytes.get_mut(end..ends) {
                        place.copy_from_slice(value);
                    } else {
                        bytes.truncate(end);
                        bytes.extend_from_slice(value);
                    }
                    end = ends;
                }
                None => {}
            }
            i32::try_from(end).unwrap_or(i32::MAX)
        }));
        bytes.truncate(end);
        offset(end, "bytes")?;
        validity.append_to(&mut self.nulls);
        done
    }

    /// Appends bytes; of a column of text, bytes that are UTF-8.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) -> std::result::Result<(), Undecoded> {
        let end = offset(self.bytes.len().saturating_add(value.len()), "bytes")?;
        self.bytes.extend_from_slice(value);
        self.offsets.push(end);
        self.nulls.append_non_null();
        Ok(())
    }

    /// Appends the first bytes of `start`: a copy of a known length is cheaper.
    ///
    /// # Errors
    /// `TooLarge`
    #[inline]
    pub(crate) fn push_short(
        &mut self,
        start: &[u8; SHORT],
        length: usize,
    ) -> std::result::Result<(), Undecoded> {
        let end = self.bytes.len().saturating_add(length);
        let ends = offset(end, "bytes")?;
        self.bytes.extend_from_slice(start);
        self.bytes.truncate(end);
        self.offsets.push(ends);
        self.nulls.append_non_null();
        Ok(())
    }

    /// The rows from `first` on, counted from it, whose value a later row has too. They rise.
    pub(crate) fn repeated(&self, first: usize) -> Vec<usize> {
        let place = |offset: &i32| usize::try_from(*offset).unwrap_or_default();
        let ends = self.offsets.get(first..).unwrap_or_default();
        let values = ends.windows(2).map(|pair| match pair {
            [begin, end] => self.bytes.get(place(begin)..place(end)),
            _ => None,
        });
        let mut values: Vec<_> = values
            .enumerate()
            .map(|(row, value)| (value, row))
            .collect();
        values.sort_unstable();
        let pairs = values.windows(2).filter_map(|pair| match pair {
            [(value, row), (next, _)] if value == next => Some(*row),
            _ => None,
        });
        let mut repeated: Vec<usize> = pairs.collect();
        repeated.sort_unstable();
        repeated
    }

    /// Appends the bytes that `write` adds to those of the column.
    ///
    /// # Errors
    /// Those of `write`, and `TooLarge`.
    pub(crate) fn push_with(
        &mut self,
        write: impl FnOnce(&mut Vec<u8>) -> std::result::Result<(), Undecoded>,
    ) -> std::result::Result<(), Undecoded> {
        write(&mut self.bytes)?;
        self.offsets.push(offset(self.bytes.len(), "bytes")?);
        self.nulls.append_non_null();
        Ok(())
    }

    pub(super) fn new(data_type: &DataType) -> Self {
        Self {
            data_type: data_type.clone(),
            bytes: Vec::new(),
            offsets: vec![0],
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Rows so far.
    pub(super) const fn len(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Bytes of the values so far.
    pub(super) fn bytes(&self) -> usize {
        mem::size_of_val(self.offsets.as_slice()).saturating_add(self.bytes.len())
    }

    #[inline]
    pub(super) fn push_null(&mut self) {
        let end = self.offsets.last().copied().unwrap_or_default();
        self.offsets.push(end);
        self.nulls.append_null();
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.offsets.truncate(rows.saturating_add(1));
        self.bytes.truncate(end_of(&self.offsets));
        self.nulls.truncate(rows);
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let nulls = self.nulls.finish();
        let bytes = Buffer::from_vec(renewed(&mut self.bytes));
        let offsets = finish_offsets(&mut self.offsets);
        Ok(if self.data_type == DataType::Utf8 {
            Arc::new(StringArray::try_new(offsets, bytes, nulls).map_err(refused)?)
        } else {
            Arc::new(BinaryArray::try_new(offsets, bytes, nulls).map_err(refused)?)
        })
    }
}

impl FixedBuilder {
    /// Appends a value of the column's width; anything else is a fault of the caller.
    ///
    /// # Errors
    /// `Malformed` for another width.
    #[inline]
    pub(crate) fn push(&mut self, value: &[u8]) -> std::result::Result<(), Undecoded> {
        if value.len() != self.width {
            let (expected, found) = (self.width, value.len());
            return Err(Undecoded::new(
                Cause::Malformed,
                format_args!("expected {expected} bytes, found {found}"),
            ));
        }
        self.bytes.extend_from_slice(value);
        self.nulls.append_non_null();
        Ok(())
    }

    pub(super) fn new(data_type: &DataType, width: i32) -> Self {
        Self {
            width: usize::try_from(width).unwrap_or_default(),
            data_type: data_type.clone(),
            bytes: Vec::new(),
            nulls: NullBufferBuilder::new(0),
        }
    }

    /// Rows so far.
    pub(super) fn len(&self) -> usize {
        self.nulls.len()
    }

    /// Bytes of the values so far.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes.len()
    }

    pub(super) fn truncate(&mut self, rows: usize) {
        self.bytes.truncate(rows.saturating_mul(self.width));
        self.nulls.truncate(rows);
    }

    pub(super) fn finish(&mut self) -> Result<ArrayRef> {
        let rows = self.nulls.len();
        let nulls = self.nulls.finish();
        let data = ArrayData::builder(self.data_type.clone())
            .len(rows)
            .nulls(nulls)
            .add_buffer(Buffer::from_vec(renewed(&mut self.bytes)));
        Ok(make_array(data.build().map_err(refused)?))
    }

    pub(super) fn push_null(&mut self) {
        let length = self.bytes.len().saturating_add(self.width);
        self.bytes.resize(length, 0);
        self.nulls.append_null();
    }
}
