//! The text as it is made: bytes in one large buffer, written out when it is full.

use std::io::{self, Write};

use crate::error::{Error, Result};

/// When the buffer goes out.
const SPILL: usize = 1 << 20;

/// Something that has a text.
pub(super) trait Put {
    /// Appends it.
    fn put(self, to: &mut Vec<u8>);
}

impl Put for &str {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        to.extend_from_slice(self.as_bytes());
    }
}

impl Put for bool {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        (if self { "true" } else { "false" }).put(to);
    }
}

impl Put for u64 {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        /// Digits of `u64::MAX`.
        const WIDTH: usize = 20;
        let mut digits = [b'0'; WIDTH];
        let mut rest = self;
        let mut used = 0usize;
        for digit in digits.iter_mut().rev() {
            *digit = b'0'.wrapping_add(u8::try_from(rest % 10).unwrap_or_default());
            rest /= 10;
            used = used.saturating_add(1);
            if rest == 0 {
                break;
            }
        }
        to.extend_from_slice(digits.split_at(WIDTH.saturating_sub(used)).1);
    }
}

impl Put for i64 {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        if self < 0 {
            to.push(b'-');
        }
        self.unsigned_abs().put(to);
    }
}

macro_rules! put_widened {
    ($($narrow:ty => $wide:ty)*) => {$(
        impl Put for $narrow {
            #[inline]
            fn put(self, to: &mut Vec<u8>) {
                <$wide>::from(self).put(to);
            }
        }
    )*};
}

put_widened! { i16 => i64  i32 => i64  u8 => u64  u16 => u64  u32 => u64 }

impl Put for usize {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        (self as u64).put(to);
    }
}

/// Java's `OptionalLong`, as its `toString` says it.
impl Put for Option<i64> {
    #[inline]
    fn put(self, to: &mut Vec<u8>) {
        match self {
            Some(value) => {
                "OptionalLong[".put(to);
                value.put(to);
                to.push(b']');
            }
            None => "OptionalLong.empty".put(to),
        }
    }
}

/// Appends several things to a `Text`.
macro_rules! put {
    ($text:expr, $($part:expr),+ $(,)?) => {{
        let buffer = $text.buffer();
        $($crate::tools::dump::text::Put::put($part, buffer);)+
    }};
}
pub(super) use put;

/// Where the text goes.
pub(super) struct Text<'w> {
    out: &'w mut dyn Write,
    buffer: Vec<u8>,
    closed: bool,
}

impl<'w> Text<'w> {
    pub(super) fn new(out: &'w mut dyn Write) -> Self {
        Self {
            out,
            buffer: Vec::with_capacity(SPILL.saturating_mul(2)),
            closed: false,
        }
    }

    /// What has not been written yet; append to it.
    #[inline]
    pub(super) const fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.buffer
    }

    /// Ends a line, and writes what has come together if that is much.
    #[inline]
    pub(super) fn end_line(&mut self) -> Result<()> {
        self.buffer.push(b'\n');
        if self.buffer.len() < SPILL {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what has come together.
    #[cold]
    pub(super) fn flush(&mut self) -> Result<()> {
        let written = self
            .out
            .write_all(&self.buffer)
            .and_then(|()| self.out.flush());
        self.buffer.clear();
        // One huge payload must not hold its memory for the rest of the run.
        self.buffer.shrink_to(SPILL.saturating_mul(2));
        written.map_err(|e| {
            self.closed |= e.kind() == io::ErrorKind::BrokenPipe;
            Error::io("standard output")(e)
        })
    }

    /// Nobody reads on: the reason of the last failure.
    pub(super) const fn is_closed(&self) -> bool {
        self.closed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(what: impl Put) -> String {
        let mut to = Vec::new();
        what.put(&mut to);
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn numbers_as_java_writes_them() {
        for n in [0, 1, 9, 10, 99, 100, 12_345, -1, -10, i64::MAX, i64::MIN] {
            assert_eq!(text(n), n.to_string());
        }
        assert_eq!(text(u32::MAX), "4294967295");
        assert_eq!(text(u64::MAX), "18446744073709551615");
        assert_eq!(text(i16::MIN), "-32768");
        assert_eq!(text(Some(5)), "OptionalLong[5]");
        assert_eq!(text(None::<i64>), "OptionalLong.empty");
    }

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
        let mut text = Text::new(&mut gone);
        put!(text, "lost");
        assert!(text.end_line().is_ok());
        assert!(text.flush().is_err() && text.is_closed());
    }
}
