//! Strings that are the same for many rows: topic, segment, codec, control type.

use arrow_array::ArrayRef;

use super::payload::Gathered;
use super::schema::Layout;
use super::sources::Sources;
use super::views::TextViews;
use crate::error::Result;

/// A string column that is appended run by run.
#[derive(Debug)]
pub(crate) enum StringColumn {
    /// `string`
    Gathered(Gathered),
    /// `string_view`, with data buffers of its own.
    Views(TextViews, Sources),
}

impl StringColumn {
    /// An empty column.
    #[must_use]
    pub(crate) fn new(layout: Layout) -> Self {
        match layout {
            Layout::Binary => Self::Gathered(Gathered::new(1024, 1024)),
            Layout::View => Self::Views(TextViews::new(1024), Sources::default()),
        }
    }

    /// Appends `value`, or null, `times` times.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of [`TextViews::push`].
    pub(crate) fn repeat(&mut self, value: Option<&str>, times: usize) -> Result<()> {
        match (self, value) {
            (Self::Gathered(column), value) => column.repeat(value.map(str::as_bytes), times),
            (Self::Views(column, _), None) => column.push_nulls(times),
            (Self::Views(column, sources), Some(value)) => {
                column.push(sources.text(value)?, times).map(drop)
            }
        }
    }

    /// The column so far; begins the next one.
    ///
    /// # Errors
    /// `Internal` where Arrow refuses what was built.
    pub(crate) fn finish(&mut self) -> Result<ArrayRef> {
        match self {
            Self::Gathered(column) => column.finish_text(),
            Self::Views(column, sources) => column.finish(&sources.finish()),
        }
    }
}
