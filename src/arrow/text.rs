//! Strings that are the same for many rows: topic, segment, codec, control type.

use arrow_array::ArrayRef;
use arrow_buffer::Buffer;

use super::payload::{Gathered, Kind, Sources};
use super::schema::Layout;
use super::views::Views;
use crate::error::Result;

/// A string column appended run by run.
#[derive(Debug)]
pub enum Text {
    /// `string`
    Gathered(Gathered),
    /// `string_view`, with data buffers of its own and the last string's place among them.
    Views(Views, Sources, Option<(String, u32)>),
}

impl Text {
    /// An empty column.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        match layout {
            Layout::Binary => Self::Gathered(Gathered::new(1024, 1024)),
            Layout::View => Self::Views(Views::new(1024), Sources::default(), None),
        }
    }

    /// Appends `value`, or null, `times` times.
    ///
    /// # Errors
    /// `OutOfMemory`, and those of [`Views::repeat`].
    pub fn repeat(&mut self, value: Option<&str>, times: usize) -> Result<()> {
        match (self, value) {
            (Self::Gathered(column), value) => column.repeat(value.map(str::as_bytes), times),
            (Self::Views(column, ..), None) => column.repeat(None, &[], 0, times),
            (Self::Views(column, sources, last), Some(value)) => {
                let buffer = match last {
                    Some((text, buffer)) if text == value => *buffer,
                    _ => {
                        let buffer = sources.reserve();
                        sources.set(buffer, Buffer::from(value.as_bytes()));
                        *last = Some((value.to_owned(), buffer));
                        buffer
                    }
                };
                let len = u32::try_from(value.len()).unwrap_or_default();
                column.repeat(Some((0, len)), value.as_bytes(), buffer, times)
            }
        }
    }

    /// The column so far; begins the next one.
    #[must_use]
    pub fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Gathered(column) => column.finish(Kind::Text),
            Self::Views(column, sources, last) => {
                *last = None;
                column.finish(Kind::Text, &sources.take())
            }
        }
    }
}
