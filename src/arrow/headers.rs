//! Record headers as `list<struct<key, value>>`. The list is null if a record has none, as in Spark's Kafka source.
//!
//! Keys may repeat and may be empty; values may be null. A key that is not UTF-8 gets U+FFFD in place of what is not,
//! as Java's decoder has it (`Utils.utf8`).

use std::sync::Arc;

use arrow_array::{ArrayRef, ListArray, StructArray};
use arrow_buffer::{NullBufferBuilder, ScalarBuffer};
use arrow_schema::{DataType, Field};

use super::layout::{Layout, header_fields, header_item};
use super::payload::{Gathered, ascending, did_not_grow};
use super::pool::PooledBlock;
use super::rows::{RowBytes, Rows};
use super::sources::{DataBuffers, SourceBytes, Sources};
use super::value_column::{AppendError, ValueColumn};
use super::views::{TextViews, Views};
use crate::error::{Error, Result};
use crate::format::record::key_text;
use crate::format::varint::get_varint;
use crate::records::RecordSlot;

/// Position of a string and its length; `None` for null.
type StringPlace = Option<(usize, u32)>;

/// Keys and values.
#[derive(Debug)]
enum Strings {
    Gathered(Gathered, Gathered),
    Views(TextViews, Views),
}

impl Strings {
    fn new(layout: Layout) -> Self {
        match layout {
            Layout::Binary => Self::Gathered(Gathered::new(16, 256), Gathered::new(16, 256)),
            Layout::View => Self::Views(TextViews::new(16), Views::new(16)),
        }
    }

    /// Appends a header; returns whether a view points into `source`.
    fn push(
        &mut self,
        source: RowBytes<'_>,
        (key, key_bytes): (StringPlace, &[u8]),
        (value, value_bytes): (StringPlace, &[u8]),
        sources: &mut Sources,
    ) -> Result<bool> {
        match (self, source) {
            (Self::Gathered(keys, values), _) => {
                let key = key.map(|_| key_text(key_bytes));
                keys.repeat(key.as_deref().map(str::as_bytes), 1)?;
                values.repeat(value.map(|_| value_bytes), 1)?;
                Ok(false)
            }
            (Self::Views(keys, values), RowBytes::Kept(source)) => {
                let points = push_key(keys, source, (key, key_bytes), sources)?;
                if let Some(place) = value {
                    return Ok(values.push(source, place, 1)? || points);
                }
                values.push_nulls(1)?;
                Ok(points)
            }
            (Self::Views(..), RowBytes::Copied(_)) => {
                Err(Error::internal("views of bytes that are not kept"))
            }
        }
    }

    fn truncate(&mut self, count: usize) {
        match self {
            Self::Gathered(keys, values) => {
                keys.truncate(count);
                values.truncate(count);
            }
            Self::Views(keys, values) => {
                keys.truncate(count);
                values.truncate(count);
            }
        }
    }

    fn finish(&mut self, sources: &DataBuffers) -> Result<Vec<ArrayRef>> {
        Ok(match self {
            Self::Gathered(keys, values) => vec![keys.finish_text()?, values.finish()?],
            Self::Views(keys, values) => vec![keys.finish(sources)?, values.finish(sources)?],
        })
    }
}

fn push_key(
    keys: &mut TextViews,
    source: SourceBytes<'_>,
    (place, bytes): (StringPlace, &[u8]),
    sources: &mut Sources,
) -> Result<bool> {
    let Some((start, len)) = place else {
        return keys.push_nulls(1).map(|()| false);
    };
    if let Some(text) = source.text(start, len) {
        return keys.push(text, 1);
    }
    keys.push(sources.text(&key_text(bytes))?, 1).map(|_| false)
}

/// The headers column being built.
#[derive(Debug)]
pub(crate) struct HeadersBuilder {
    layout: Layout,
    ends: PooledBlock,
    rows: usize,
    count: usize,
    nulls: NullBufferBuilder,
    strings: Strings,
}

impl HeadersBuilder {
    /// An empty column.
    #[must_use]
    pub(crate) fn new(layout: Layout, rows: usize) -> Self {
        let ends = PooledBlock::new(rows.saturating_add(1).saturating_mul(4));
        Self {
            layout,
            ends,
            rows: 0,
            count: 0,
            nulls: NullBufferBuilder::new(rows),
            strings: Strings::new(layout),
        }
    }

    /// Appends the headers of each record, whose slots count from `source`; returns whether a view points into it.
    ///
    /// # Errors
    /// `OutOfMemory`; `InvalidRecord` for a slot that does not fit its source (a fault of ours, not of the data).
    fn append_records(
        &mut self,
        slots: &[RecordSlot],
        source: RowBytes<'_>,
        sources: &mut Sources,
    ) -> Result<bool> {
        self.reserve(slots.len());
        let first = self.rows.saturating_add(1);
        if slots.iter().all(|slot| slot.headers_count == 0) {
            let end = offset(self.count)?;
            let ends = self.ends.values::<i32>();
            let ends = ends.get_mut(first..first.saturating_add(slots.len()));
            ends.ok_or_else(did_not_grow)?.fill(end);
            self.nulls.append_n_nulls(slots.len());
            self.rows = self.rows.saturating_add(slots.len());
            return Ok(false);
        }
        let mut points = false;
        for slot in slots {
            points |= self.append_one(slot, source, sources)?;
            self.nulls.append(slot.headers_count > 0);
            self.rows = self.rows.saturating_add(1);
            let end = offset(self.count)?;
            *(self.ends.values::<i32>().get_mut(self.rows)).ok_or_else(did_not_grow)? = end;
        }
        Ok(points)
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
        source: RowBytes<'_>,
        sources: &mut Sources,
    ) -> Result<bool> {
        let bytes = source.as_slice();
        let mut at = slot.headers_start as usize;
        let mut points = false;
        for _ in 0..slot.headers_count {
            let cut = || {
                Error::invalid(
                    "headers",
                    u64::from(slot.headers_start),
                    "headers within the batch",
                    "bytes ran out",
                )
            };
            let key = next(bytes, &mut at).ok_or_else(cut)?;
            let value = next(bytes, &mut at).ok_or_else(cut)?;
            points |= self.strings.push(source, key, value, sources)?;
            self.count = self.count.saturating_add(1);
        }
        Ok(points)
    }
}

impl ValueColumn for HeadersBuilder {
    fn field(&self, name: &str) -> Field {
        Field::new(name, DataType::List(header_item(self.layout)), true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        if self.append_records(rows.slots, rows.bytes, rows.sources)? {
            rows.point();
        }
        Ok(())
    }

    /// Roughly the bytes that they take in their source.
    fn bytes(&self, slots: &[RecordSlot], source: &[u8], most: usize) -> usize {
        let mut total = slots.len().saturating_mul(4);
        if slots.iter().fold(0, |any, slot| any | slot.headers_count) != 0 {
            for slot in slots {
                if total > most {
                    break;
                }
                total = total.saturating_add(size(slot, source));
            }
        }
        total
    }

    fn keeps_source(&self) -> bool {
        self.layout == Layout::View
    }

    fn truncate(&mut self, rows: usize) {
        if rows < self.rows {
            let ends = self.ends.values::<i32>();
            let count = ends.get(rows).map_or(0, |end| end.unsigned_abs());
            self.count = count as usize;
            self.rows = rows;
            self.nulls.truncate(rows);
            self.strings.truncate(self.count);
        }
    }

    fn finish(&mut self, sources: &DataBuffers) -> Result<ArrayRef> {
        self.reserve(0);
        let len = self.rows.saturating_add(1);
        let next = Self {
            ends: self.ends.next(len.saturating_mul(4)),
            ..Self::new(self.layout, 0)
        };
        let mut done = std::mem::replace(self, next);
        let ends = done.ends.freeze(len.saturating_mul(4));
        let ends = ascending(ScalarBuffer::new(ends, 0, len))?;
        let children = done.strings.finish(sources)?;
        let items = StructArray::try_new(header_fields(done.layout), children, None)
            .map_err(|e| Error::internal(format_args!("Arrow refused a column: {e}")))?;
        let lists = ListArray::try_new(
            header_item(done.layout),
            ends,
            Arc::new(items),
            done.nulls.finish(),
        );
        Ok(Arc::new(lists.map_err(|e| {
            Error::internal(format_args!("Arrow refused a column: {e}"))
        })?))
    }
}

/// A count of headers as an offset.
fn offset(count: usize) -> Result<i32> {
    i32::try_from(count).map_err(|_| Error::internal(format_args!("{count} headers in a batch")))
}

/// Bytes that the headers of a record add to an Arrow batch: about what they take in its source.
fn size(slot: &RecordSlot, source: &[u8]) -> usize {
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
fn next<'a>(source: &'a [u8], at: &mut usize) -> Option<(StringPlace, &'a [u8])> {
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
    use crate::io::region::Region;
    use crate::records::chunk::ChunkBytes;
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
            let (mut column, mut sources) = (HeadersBuilder::new(layout, 1), Sources::default());
            let region = Region::heap(source.clone());
            let kept = sources.of(ChunkBytes::Region(&region)).unwrap();
            let bytes = match layout {
                Layout::Binary => RowBytes::Copied(&source),
                Layout::View => RowBytes::Kept(kept),
            };
            if column
                .append_records(&[slot(0), slot(4)], bytes, &mut sources)
                .unwrap()
            {
                sources.point(kept.number());
            }
            let column = column.finish(&sources.finish()).unwrap();
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
