//! Record headers as `list<struct<key, value>>`; the list is null where a record has none, as Spark's Kafka source has it.
//!
//! Keys may repeat and may be empty; values may be null. A key that is not UTF-8 shows with U+FFFD in place of what is
//! not, as Java's decoder has it (`Utils.utf8`).

use std::borrow::Cow;
use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{Buffer, NullBufferBuilder, OffsetBuffer, ScalarBuffer};

use super::payload::{Gathered, Kind, Sources};
use super::pool::Block;
use super::schema::{Layout, header_fields, header_item};
use super::views::Views;
use crate::error::{Error, Result};
use crate::format::record::key_text;
use crate::format::varint::get_varint;
use crate::records::RecordSlot;

/// Where a string lies and its length; `None` for null.
type Place = Option<(usize, u32)>;

#[derive(Debug)]
enum Strings {
    Gathered(Gathered),
    Views(Views),
}

impl Strings {
    fn new(layout: Layout) -> Self {
        match layout {
            Layout::Binary => Self::Gathered(Gathered::new(16, 256)),
            Layout::View => Self::Views(Views::new(16)),
        }
    }

    /// Appends the bytes at `at` of `source`, or null.
    fn push(&mut self, source: &[u8], at: Option<(usize, u32)>, buffer: u32) -> Result<()> {
        match self {
            Self::Gathered(column) => column.repeat(
                at.and_then(|(start, len)| source.get(start..start.checked_add(len as usize)?)),
                1,
            ),
            Self::Views(column) => column.repeat(at, source, buffer, 1),
        }
    }

    fn take_points(&mut self) -> bool {
        match self {
            Self::Gathered(_) => false,
            Self::Views(column) => column.take_points(),
        }
    }

    fn finish(&mut self, kind: Kind, sources: &Arc<[Buffer]>) -> ArrayRef {
        match self {
            Self::Gathered(column) => column.finish(kind),
            Self::Views(column) => column.finish(kind, sources),
        }
    }
}

/// The headers column in the making.
#[derive(Debug)]
pub struct Headers {
    layout: Layout,
    ends: Block,
    rows: usize,
    count: usize,
    nulls: NullBufferBuilder,
    keys: Strings,
    values: Strings,
}

impl Headers {
    /// An empty column.
    #[must_use]
    pub fn new(layout: Layout, rows: usize) -> Self {
        let ends = Block::new(rows.saturating_add(1).saturating_mul(4));
        Self {
            layout,
            ends,
            rows: 0,
            count: 0,
            nulls: NullBufferBuilder::new(rows),
            keys: Strings::new(layout),
            values: Strings::new(layout),
        }
    }

    /// Appends the headers of each record; `buffer` is where `source` is or will be among the sources.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidRecord` for a slot that does not fit its source (a fault of ours, not of the data).
    pub fn append(
        &mut self,
        slots: &[RecordSlot],
        source: &[u8],
        buffer: u32,
        sources: &mut Sources,
    ) -> Result<()> {
        self.reserve(slots.len());
        if slots.iter().all(|slot| slot.headers_count == 0) {
            let end = i32::try_from(self.count).unwrap_or(i32::MAX);
            let ends = self
                .ends
                .values::<i32>()
                .iter_mut()
                .skip(self.rows.saturating_add(1));
            ends.take(slots.len()).for_each(|place| *place = end);
            self.nulls.append_n_nulls(slots.len());
            self.rows = self.rows.saturating_add(slots.len());
            return Ok(());
        }
        for slot in slots {
            self.nulls.append(slot.headers_count > 0);
            self.append_one(slot, source, buffer, sources)?;
            self.rows = self.rows.saturating_add(1);
            if let Some(place) = self.ends.values::<i32>().get_mut(self.rows) {
                *place = i32::try_from(self.count).unwrap_or(i32::MAX);
            }
        }
        Ok(())
    }

    /// Makes room for `rows` more rows.
    fn reserve(&mut self, rows: usize) {
        let places = self.rows.saturating_add(rows).saturating_add(1);
        self.ends.grow(places.saturating_mul(4));
        if self.rows == 0
            && let Some(first) = self.ends.values::<i32>().first_mut()
        {
            *first = 0;
        }
    }

    fn append_one(
        &mut self,
        slot: &RecordSlot,
        source: &[u8],
        buffer: u32,
        sources: &mut Sources,
    ) -> Result<()> {
        let mut at = slot.headers_start as usize;
        for _ in 0..slot.headers_count {
            let gone = || {
                Error::invalid(
                    "headers",
                    u64::from(slot.headers_start),
                    "headers within the batch",
                    "bytes ran out",
                )
            };
            let (key, key_bytes) = next(source, &mut at).ok_or_else(gone)?;
            let (value, _) = next(source, &mut at).ok_or_else(gone)?;
            match key_text(key_bytes) {
                Cow::Borrowed(_) => self.keys.push(source, key, buffer)?,
                Cow::Owned(text) => {
                    let own = sources.reserve();
                    let len = u32::try_from(text.len()).unwrap_or_default();
                    self.keys.push(text.as_bytes(), Some((0, len)), own)?;
                    sources.set(own, Buffer::from(text.as_bytes()));
                }
            }
            self.values.push(source, value, buffer)?;
            self.count = self.count.saturating_add(1);
        }
        Ok(())
    }

    /// As [`Views::take_points`].
    pub fn take_points(&mut self) -> bool {
        let keys = self.keys.take_points();
        self.values.take_points() || keys
    }

    /// The column so far; begins the next one.
    #[must_use]
    pub fn finish(&mut self, sources: &Arc<[Buffer]>) -> ArrayRef {
        self.reserve(0);
        let len = self.rows.saturating_add(1);
        let next = Self {
            ends: self.ends.next(len.saturating_mul(4)),
            ..Self::new(self.layout, 0)
        };
        let mut done = std::mem::replace(self, next);
        let ends = OffsetBuffer::new(ScalarBuffer::<i32>::new(
            done.ends.freeze(len.saturating_mul(4)),
            0,
            len,
        ));
        let children = vec![
            done.keys.finish(Kind::Text, sources),
            done.values.finish(Kind::Binary, sources),
        ];
        let items = StructArray::new(header_fields(done.layout), children, None);
        Arc::new(ListArray::new(
            header_item(done.layout),
            ends,
            Arc::new(items),
            done.nulls.finish(),
        ))
    }
}

/// Bytes that the headers of a record take in its source; what their part of an Arrow batch comes to.
#[must_use]
pub fn size(slot: &RecordSlot, source: &[u8]) -> usize {
    let start = slot.headers_start as usize;
    let mut at = start;
    for _ in 0..slot.headers_count.saturating_mul(2) {
        if next(source, &mut at).is_none() {
            break;
        }
    }
    at.saturating_sub(start)
        .saturating_add(16usize.saturating_mul(slot.headers_count as usize))
}

/// A length and that many bytes; the place is `None` for a negative length, which is null.
fn next<'a>(source: &'a [u8], at: &mut usize) -> Option<(Place, &'a [u8])> {
    let len = get_varint(source, at)?;
    let start = *at;
    let end = start.checked_add(usize::try_from(len.max(0)).ok()?)?;
    let bytes = source.get(start..end)?;
    *at = end;
    Some((u32::try_from(len).ok().map(|len| (start, len)), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;

    /// Key, value, and the key as text.
    type Header = (&'static [u8], Option<&'static [u8]>, &'static str);

    /// Java's `new String(bytes, UTF_8)` makes one U+FFFD of half a surrogate pair, where Rust makes three.
    #[test]
    fn keys_that_are_not_utf8_and_values_without_bytes() {
        let headers: [Header; 4] = [
            (b"\xed\xa0\x80z", Some(b"v"), "\u{fffd}z"),
            (b"", Some(b""), ""),
            (
                b"a longer one than a view holds",
                None,
                "a longer one than a view holds",
            ),
            (b"cut off \xf0\x9f\x92", Some(b""), "cut off \u{fffd}"),
        ];
        let length =
            |bytes: Option<&[u8]>| bytes.map_or(1, |bytes| 2 * u8::try_from(bytes.len()).unwrap());
        let mut source = Vec::new();
        for (key, value, _) in headers {
            source.push(length(Some(key)));
            source.extend(key);
            source.push(length(value));
            source.extend(value.unwrap_or_default());
        }
        let slot = |headers_count| RecordSlot {
            headers_count,
            ..RecordSlot::default()
        };
        for layout in [Layout::Binary, Layout::View] {
            let (mut column, mut sources) = (Headers::new(layout, 1), Sources::default());
            let buffer = sources.reserve();
            column
                .append(&[slot(0), slot(4)], &source, buffer, &mut sources)
                .unwrap();
            sources.set(buffer, Buffer::from(&*source));
            let column = column.finish(&sources.take());
            column.to_data().validate_full().unwrap();
            assert!(column.is_null(0));
            let items = column.as_list::<i32>().value(1);
            let (keys, values) = (items.as_struct().column(0), items.as_struct().column(1));
            let found: Vec<_> = (0..items.len())
                .map(|n| match layout {
                    Layout::Binary => (
                        keys.as_string::<i32>().value(n),
                        values.as_binary::<i32>().iter().nth(n).unwrap(),
                    ),
                    Layout::View => (
                        keys.as_string_view().value(n),
                        values.as_binary_view().iter().nth(n).unwrap(),
                    ),
                })
                .collect();
            let expected = headers.map(|(_, value, text)| (text, value));
            assert_eq!(found, expected, "{layout:?}");
        }
    }
}
