//! Output text: bytes in one large buffer, written out when it is full.

use std::io::{self, Write};

use crate::error::{Error, Result};

/// Length at which the buffer is written.
const SPILL: usize = 1 << 20;

/// Appends several things to a `TextOutput`.
macro_rules! put {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let buffer = $text.buffer();
        $($crate::format::put::Put::put($part, buffer);)+
    }};
}
pub(super) use put;

/// Destination of the text.
pub(super) struct TextOutput<'w> {
    /// `None`: it stays in the buffer.
    out: Option<&'w mut dyn Write>,
    buffer: Vec<u8>,
    /// Length at which the buffer is written.
    spill: usize,
    closed: bool,
}

impl<'w> TextOutput<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self {
            out: Some(out),
            buffer: Vec::with_capacity(SPILL.saturating_mul(2)),
            spill: SPILL,
            closed: false,
        }
    }

    /// Text that stays in `buffer`. A line that ends beyond `most` bytes is an error; then [`TextOutput::is_closed`].
    pub(super) const fn kept(buffer: Vec<u8>, most: usize) -> Self {
        Self {
            out: None,
            buffer,
            spill: most,
            closed: false,
        }
    }

    /// Returns the text that has not been written.
    pub(super) fn into_buffer(self) -> Vec<u8> {
        self.buffer
    }

    /// Returns the text that has not been written yet; append to it.
    #[inline]
    pub(super) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Ends a line, and writes the buffered text if that is much.
    #[inline]
    pub(super) fn end_line(&mut self) -> Result<()> {
        self.buffer.push(b'\n');
        if self.buffer.len() < self.spill {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what another text kept, after the buffered text here.
    pub(super) fn write(&mut self, kept: &[u8]) -> Result<()> {
        self.flush()?;
        if let Some(out) = &mut self.out {
            let written = out.write_all(kept);
            written.map_err(|error| failed(&mut self.closed, error))?;
        }
        Ok(())
    }

    /// Writes the buffered text.
    #[cold]
    pub(super) fn flush(&mut self) -> Result<()> {
        let Some(out) = &mut self.out else {
            self.closed = true;
            return Err(Error::no_memory(self.buffer.len()));
        };
        let written = out.write_all(&self.buffer).and_then(|()| out.flush());
        self.buffer.clear();
        // One huge payload must not hold its memory for the rest of the run.
        self.buffer.shrink_to(SPILL.saturating_mul(2));
        written.map_err(|error| failed(&mut self.closed, error))
    }

    /// The reader is gone, or the text is too long to be kept: the reason of the last failure.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }
}

/// The error of standard output; `closed` if its reader is gone.
fn failed(closed: &mut bool, error: io::Error) -> Error {
    *closed |= error.kind() == io::ErrorKind::BrokenPipe;
    Error::io("standard output")(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_goes_away_is_known_by_its_error() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut gone = Gone;
        let mut text = TextOutput::new(&mut gone);
        put!(text, "lost");
        assert!(text.end_line().is_ok());
        assert!(text.flush().is_err() && text.is_closed());
    }
}
