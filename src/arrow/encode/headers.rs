//! Headers by row, from any of Arrow's list types.

use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::{Array, ArrayRef, GenericListViewArray, OffsetSizeTrait};
use arrow_buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_schema::DataType;

use super::bytes::{ByteColumn, InputColumn, wrong_type};
use super::places::{Places, find};
use crate::error::{Error, Result};

/// Range of each row's headers among all of them.
#[derive(Debug)]
enum Spans {
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
    /// First header of each row, and number of headers.
    View(ScalarBuffer<i32>, ScalarBuffer<i32>),
    LargeView(ScalarBuffer<i64>, ScalarBuffer<i64>),
    /// As many in each row.
    Fixed(usize),
}

impl Spans {
    /// Returns the ranges, and all headers.
    fn of(array: &ArrayRef) -> Result<Option<(Self, ArrayRef)>> {
        Ok(Some(match array.data_type() {
            DataType::Null => return Ok(None),
            DataType::List(_) => {
                let list = array.as_list::<i32>();
                (Self::Small(list.offsets().clone()), list.values().clone())
            }
            DataType::LargeList(_) => {
                let list = array.as_list::<i64>();
                (Self::Large(list.offsets().clone()), list.values().clone())
            }
            DataType::ListView(_) => {
                let list = array.as_list_view::<i32>();
                ensure_inside(list)?;
                let (begins, sizes) = (list.offsets().clone(), list.sizes().clone());
                (Self::View(begins, sizes), list.values().clone())
            }
            DataType::LargeListView(_) => {
                let list = array.as_list_view::<i64>();
                ensure_inside(list)?;
                let (begins, sizes) = (list.offsets().clone(), list.sizes().clone());
                (Self::LargeView(begins, sizes), list.values().clone())
            }
            DataType::FixedSizeList(_, _) => {
                let list = array.as_fixed_size_list();
                let size = usize::try_from(list.value_length()).unwrap_or_default();
                (Self::Fixed(size), list.values().clone())
            }
            DataType::Map(_, _) => {
                let map = array.as_map();
                let entries: ArrayRef = std::sync::Arc::new(map.entries().clone());
                (Self::Small(map.offsets().clone()), entries)
            }
            other => return Err(headers_type(other)),
        }))
    }

    #[inline]
    fn get(&self, row: usize) -> Option<Range<usize>> {
        match self {
            Self::Small(offsets) => between(offsets, row),
            Self::Large(offsets) => between(offsets, row),
            Self::View(begins, sizes) => from(begins, sizes, row),
            Self::LargeView(begins, sizes) => from(begins, sizes, row),
            Self::Fixed(size) => {
                let begin = row.checked_mul(*size)?;
                Some(begin..begin.checked_add(*size)?)
            }
        }
    }
}

fn between<T: Copy + TryInto<usize>>(offsets: &[T], row: usize) -> Option<Range<usize>> {
    let &[begin, end] = offsets.get(row..)?.first_chunk()?;
    Some(begin.try_into().ok()?..end.try_into().ok()?)
}

fn from<T: Copy + TryInto<usize>>(begins: &[T], sizes: &[T], row: usize) -> Option<Range<usize>> {
    let begin = (*begins.get(row)?).try_into().ok()?;
    let size: usize = (*sizes.get(row)?).try_into().ok()?;
    Some(begin..begin.checked_add(size)?)
}

/// Views that came through a C pointer were not examined, and may point anywhere.
fn ensure_inside<O: OffsetSizeTrait + TryInto<usize>>(
    list: &GenericListViewArray<O>,
) -> Result<()> {
    let count = list.values().len();
    let is_outside = |&row: &usize| {
        let range = from(list.offsets(), list.sizes(), row);
        list.is_valid(row) && range.is_none_or(|range| range.end > count)
    };
    match (0..list.len()).find(is_outside) {
        Some(row) => Err(Error::InvalidArgument(format!(
            "column 'headers': expected views into {count} headers, found one that is not in row {row}"
        ))),
        None => Ok(()),
    }
}

/// Headers by row.
#[derive(Debug)]
pub(super) struct HeaderRows {
    places: Option<Places>,
    spans: Spans,
    nulls: Option<NullBuffer>,
    entry_places: Option<Places>,
    entry_nulls: Option<NullBuffer>,
    keys: InputColumn,
    values: InputColumn,
}

impl HeaderRows {
    /// `None` for a column of nulls.
    pub(super) fn new(array: &ArrayRef) -> Result<Option<Self>> {
        let (places, array) = Places::of(array);
        let Some((spans, entries)) = Spans::of(&array)? else {
            return Ok(None);
        };
        let (entry_places, entries) = Places::of(&entries);
        let entries = entries
            .as_struct_opt()
            .filter(|entries| entries.num_columns() == 2)
            .ok_or_else(|| headers_type(array.data_type()))?;
        let is_map = matches!(array.data_type(), DataType::Map(_, _));
        let field = |name: &str, at: usize| {
            let field = if is_map {
                entries.columns().get(at)
            } else {
                entries.column_by_name(name)
            };
            field.ok_or_else(|| headers_type(array.data_type()))
        };
        Ok(Some(Self {
            places,
            spans,
            nulls: array.nulls().cloned(),
            entry_places,
            entry_nulls: entries.nulls().cloned(),
            keys: InputColumn::new("the key of headers", field("key", 0)?)?,
            values: InputColumn::new("the value of headers", field("value", 1)?)?,
        }))
    }

    /// The row's headers, in order: key, null if it is, and value.
    #[inline]
    pub(super) fn get(
        &self,
        row: usize,
    ) -> impl ExactSizeIterator<Item = (Option<&[u8]>, Option<&[u8]>)> {
        let row = find(self.places.as_ref(), row);
        let is_valid = |at: &usize| self.nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
        let range = row.filter(is_valid).and_then(|row| self.spans.get(row));
        range.unwrap_or(0..0).map(|at| {
            let at = find(self.entry_places.as_ref(), at);
            let is_valid =
                |at: &usize| (self.entry_nulls.as_ref()).is_none_or(|nulls| nulls.is_valid(*at));
            match at.filter(is_valid) {
                Some(at) => (self.keys.get(at), self.values.get(at)),
                None => (None, None),
            }
        })
    }
}

#[cold]
fn headers_type(found: &DataType) -> Error {
    wrong_type("headers", "list<struct<key, value>> or a map", found)
}
