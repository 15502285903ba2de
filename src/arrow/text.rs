//! Texts that are the same for many rows: topic, segment, codec, control type.

use arrow_array::ArrayRef;
use arrow_schema::Field;

use super::layout::{Layout, text};
use super::payload::Gathered;
use super::rows::Rows;
use super::sources::{DataBuffers, Sources};
use super::value_column::{AppendError, ValueColumn};
use super::views::TextViews;
use crate::error::Result;
use crate::records::RecordSlot;

/// Appends the text of records.
type FillText = fn(&mut TextBuilder, &Rows<'_>) -> Result<()>;

/// A string column that is appended run by run.
#[derive(Debug)]
struct StringColumn {
    strings: TextBuilder,
    fill: FillText,
}

/// A column that `fill` fills, by [`TextBuilder::repeat`].
pub(super) fn strings(layout: Layout, fill: FillText) -> Box<dyn ValueColumn> {
    let strings = match layout {
        Layout::Binary => TextBuilder::Gathered(Gathered::new(1024, 1024)),
        Layout::View => TextBuilder::Views(TextViews::new(1024), Sources::default()),
    };
    Box::new(StringColumn { strings, fill })
}

/// Texts in the order of rows.
#[derive(Debug)]
pub(super) enum TextBuilder {
    /// `string`
    Gathered(Gathered),
    /// `string_view`, with data buffers of its own.
    Views(TextViews, Sources),
}

impl TextBuilder {
    /// Appends `value`, or null, `times` times.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of [`TextViews::push`].
    pub(super) fn repeat(&mut self, value: Option<&str>, times: usize) -> Result<()> {
        match (self, value) {
            (Self::Gathered(column), value) => column.repeat(value.map(str::as_bytes), times),
            (Self::Views(column, _), None) => column.push_nulls(times),
            (Self::Views(column, sources), Some(value)) => {
                column.push(sources.text(value)?, times).map(drop)
            }
        }
    }
}

impl ValueColumn for StringColumn {
    fn field(&self, name: &str) -> Field {
        let layout = match self.strings {
            TextBuilder::Gathered(_) => Layout::Binary,
            TextBuilder::Views(..) => Layout::View,
        };
        Field::new(name, text(layout), true)
    }

    fn append(&mut self, rows: &mut Rows<'_>) -> Result<(), AppendError> {
        Ok((self.fill)(&mut self.strings, rows)?)
    }

    fn bytes(&self, slots: &[RecordSlot], _: &[u8], _: usize) -> usize {
        slots.len().saturating_mul(16)
    }

    fn finish(&mut self, _: &DataBuffers) -> Result<ArrayRef> {
        match &mut self.strings {
            TextBuilder::Gathered(column) => column.finish_text(),
            TextBuilder::Views(column, sources) => column.finish(&sources.finish()),
        }
    }

    fn truncate(&mut self, rows: usize) {
        match &mut self.strings {
            TextBuilder::Gathered(column) => column.truncate(rows),
            TextBuilder::Views(column, _) => column.truncate(rows),
        }
    }
}
