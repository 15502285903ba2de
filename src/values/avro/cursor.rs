//! The bytes of a value, read strictly: what Java tolerates (a boolean of 2, varints beyond their width) is a fault.

use super::super::builder::{BytesBuilder, Text};
use super::super::decoder::Body;
use super::super::fault::{Cause, Undecoded};
use super::schema::{AvroKind, AvroSchema};
use crate::format::varint::{MAX_VARINT_LEN, MAX_VARLONG_LEN, get_word, unzigzag32, unzigzag64};

/// Most items without bytes in a value: their number is not bounded by the bytes that are left.
const MAX_EMPTY_ITEMS: usize = 1 << 20;
/// Bytes that a value may take in columns or text, beside those for each of its own.
const BUDGET: usize = 256 << 20;
/// Bytes in columns or text for each byte of a value. What takes less is not counted.
pub(super) const EXPANSION: usize = 64;
/// Deepest value.
pub(super) const MAX_DEPTH: usize = 64;

type Strict<T> = Result<T, Undecoded>;

/// A position in the bytes of a value.
#[derive(Clone, Debug)]
pub(super) struct AvroCursor<'a> {
    rest: &'a [u8],
    length: usize,
    budget: usize,
    empty_items: usize,
}

impl<'a> AvroCursor<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            length: bytes.len(),
            budget: BUDGET.saturating_add(bytes.len().saturating_mul(EXPANSION)),
            empty_items: 0,
        }
    }

    pub(super) const fn position(&self) -> usize {
        self.length.saturating_sub(self.rest.len())
    }

    /// Bytes that are left.
    #[inline]
    pub(super) const fn left(&self) -> usize {
        self.rest.len()
    }

    /// Bytes that the value may still take.
    pub(super) const fn budget(&self) -> usize {
        self.budget
    }

    #[cold]
    pub(super) fn malformed(&self, text: std::fmt::Arguments<'_>) -> Undecoded {
        Undecoded::at(Cause::Malformed, self.position(), text)
    }

    #[cold]
    fn truncated(&self, wanted: usize) -> Undecoded {
        let left = self.rest.len();
        let text = format_args!("{wanted} bytes expected, {left} left");
        Undecoded::at(Cause::Truncated, self.position(), text)
    }

    #[cold]
    pub(super) fn too_deep(&self) -> Undecoded {
        self.malformed(format_args!("nested deeper than {MAX_DEPTH} levels"))
    }

    #[cold]
    pub(super) fn too_large(&self) -> Undecoded {
        let text = format_args!(
            "the value takes more than {} bytes, {EXPANSION} for each of its own and {BUDGET} more",
            BUDGET.saturating_add(self.length.saturating_mul(EXPANSION)),
        );
        Undecoded::at(Cause::TooLarge, self.position(), text)
    }

    /// Counts bytes that the value takes.
    #[inline]
    pub(super) fn charge(&mut self, bytes: usize) -> Strict<()> {
        match self.budget.checked_sub(bytes) {
            Some(left) => self.budget = left,
            None => return Err(self.too_large()),
        }
        Ok(())
    }

    /// Counts an item that took no bytes, as many as it has columns: they take time.
    #[inline]
    pub(super) fn empty_item(&mut self, columns: usize) -> Strict<()> {
        self.empty_items = self.empty_items.saturating_add(columns);
        if self.empty_items > MAX_EMPTY_ITEMS {
            let text = format_args!("more than {MAX_EMPTY_ITEMS} items without bytes");
            return Err(self.malformed(text));
        }
        Ok(())
    }

    /// Demands that nothing is left.
    #[inline]
    pub(super) fn end(&self) -> Strict<()> {
        if self.rest.is_empty() {
            return Ok(());
        }
        let left = self.rest.len();
        Err(Undecoded::at(
            Cause::TrailingBytes,
            self.position(),
            format_args!("{left} bytes are left after the value"),
        ))
    }

    #[inline]
    pub(super) fn take(&mut self, count: usize) -> Strict<&'a [u8]> {
        match self.rest.split_at_checked(count) {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(taken)
            }
            None => Err(self.truncated(count)),
        }
    }

    /// All that is left.
    pub(super) fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    #[inline]
    pub(super) fn array<const N: usize>(&mut self) -> Strict<[u8; N]> {
        match self.rest.split_first_chunk::<N>() {
            Some((taken, rest)) => {
                self.rest = rest;
                Ok(*taken)
            }
            None => Err(self.truncated(N)),
        }
    }

    #[inline]
    pub(super) fn boolean(&mut self) -> Strict<bool> {
        match self.array::<1>()? {
            [0] => Ok(false),
            [1] => Ok(true),
            [other] => Err(self.malformed(format_args!("boolean {other}"))),
        }
    }

    #[inline]
    #[expect(clippy::little_endian_bytes, reason = "Avro's floats are")]
    pub(super) fn float(&mut self) -> Strict<f32> {
        Ok(f32::from_le_bytes(self.array()?))
    }

    #[inline]
    #[expect(clippy::little_endian_bytes, reason = "Avro's floats are")]
    pub(super) fn double(&mut self) -> Strict<f64> {
        Ok(f64::from_le_bytes(self.array()?))
    }

    #[expect(clippy::inline_always, reason = "a call costs as much as a scalar")]
    #[inline(always)]
    pub(super) fn int(&mut self) -> Strict<i32> {
        if let [byte, rest @ ..] = self.rest
            && *byte < 0x80
        {
            self.rest = rest;
            return Ok(unzigzag32(u32::from(*byte)));
        }
        self.long_int()
    }

    #[inline(never)]
    fn long_int(&mut self) -> Strict<i32> {
        let raw = match get_word(self.rest) {
            Some((raw, length)) if length <= MAX_VARINT_LEN => {
                self.rest = self.rest.get(length..).unwrap_or_default();
                raw
            }
            _ => self.varint(MAX_VARINT_LEN)?,
        };
        match u32::try_from(raw) {
            Ok(raw) => Ok(unzigzag32(raw)),
            Err(_) => Err(self.malformed(format_args!("an int beyond 32 bits"))),
        }
    }

    #[expect(clippy::inline_always, reason = "a call costs as much as a scalar")]
    #[inline(always)]
    pub(super) fn long(&mut self) -> Strict<i64> {
        match self.rest {
            [a, rest @ ..] if *a < 0x80 => {
                self.rest = rest;
                Ok(unzigzag64(u64::from(*a)))
            }
            [a, b, rest @ ..] if *b < 0x80 => {
                self.rest = rest;
                Ok(unzigzag64(
                    u64::from(*a & 0x7f) | u64::from(*b).wrapping_shl(7),
                ))
            }
            _ => self.long_long(),
        }
    }

    #[inline(never)]
    fn long_long(&mut self) -> Strict<i64> {
        let raw = match get_word(self.rest) {
            Some((raw, length)) => {
                self.rest = self.rest.get(length..).unwrap_or_default();
                raw
            }
            None => self.varint(MAX_VARLONG_LEN)?,
        };
        Ok(unzigzag64(raw))
    }

    /// A varint of at most `longest` bytes.
    fn varint(&mut self, longest: usize) -> Strict<u64> {
        let (mut value, mut shift) = (0_u64, 0_u32);
        for (at, &byte) in self.rest.iter().take(longest).enumerate() {
            let group = u64::from(byte & 0x7f);
            let shifted = group.wrapping_shl(shift);
            if shifted.wrapping_shr(shift) != group {
                return Err(self.malformed(format_args!("a number beyond 64 bits")));
            }
            value |= shifted;
            if byte < 0x80 {
                self.rest = self.rest.get(at.saturating_add(1)..).unwrap_or_default();
                return Ok(value);
            }
            shift = shift.wrapping_add(7);
        }
        if self.rest.len() < longest {
            return Err(self.truncated(self.rest.len().saturating_add(1)));
        }
        Err(self.malformed(format_args!("a number of more than {longest} bytes")))
    }

    /// The bytes after their length.
    #[inline]
    pub(super) fn prefixed(&mut self) -> Strict<&'a [u8]> {
        let length = self.long()?;
        match usize::try_from(length) {
            Ok(length) => self.take(length),
            Err(_) => Err(self.malformed(format_args!("length {length}"))),
        }
    }

    /// A branch or symbol out of `count`.
    #[inline]
    pub(super) fn index(&mut self, count: usize, what: &str) -> Strict<usize> {
        let index = self.int()?;
        match usize::try_from(index) {
            Ok(at) if at < count => Ok(at),
            _ => Err(self.malformed(format_args!("{what} {index} of {count}"))),
        }
    }

    /// Items of the next block of an array or map; 0 ends it. A block's size in bytes is read but not trusted, as all
    /// readers that go item by item do.
    #[inline]
    pub(super) fn block(&mut self) -> Strict<u64> {
        let count = self.long()?;
        if count == i64::MIN {
            // As Java, which cannot negate it either.
            return Err(self.malformed(format_args!("a block of {count} items")));
        }
        if count < 0 {
            let size = self.long()?;
            if size < 0 {
                return Err(self.malformed(format_args!("a block of {size} bytes")));
            }
        }
        Ok(count.unsigned_abs())
    }

    /// Reads all blocks of an array or map, item by item.
    #[inline]
    pub(super) fn items(
        &mut self,
        columns: usize,
        mut item: impl FnMut(&mut Self) -> Strict<()>,
    ) -> Strict<()> {
        loop {
            let count = self.block()?;
            if count == 0 {
                return Ok(());
            }
            for _ in 0..count {
                let left = self.left();
                item(self)?;
                if self.left() == left {
                    self.empty_item(columns)?;
                }
            }
        }
    }
}

/// The bytes of a value. One that is `bytes` as a whole may come with or without Avro's length; it is returned without.
#[inline]
pub(super) fn value_bytes<'a>(body: Body<'a>, writer: &AvroSchema) -> Strict<&'a [u8]> {
    if body.bare_bytes || !matches!(writer.get(writer.root).kind, AvroKind::Bytes) {
        return Ok(body.bytes);
    }
    let mut input = AvroCursor::new(body.bytes);
    let bytes = input.prefixed()?;
    input.end()?;
    Ok(bytes)
}

/// `bytes` as text.
#[inline]
pub(super) fn utf8<'a>(bytes: &'a [u8], input: &AvroCursor<'_>) -> Strict<&'a str> {
    std::str::from_utf8(bytes).map_err(|e| not_utf8(bytes.len(), &e, input))
}

impl<'a> AvroCursor<'a> {
    /// Appends the text after its length to a column.
    #[inline(never)]
    pub(super) fn text(&mut self, texts: &mut BytesBuilder) -> Strict<()> {
        texts.push_text(self.next_text()?)
    }

    /// The text after its length.
    #[expect(clippy::inline_always, reason = "a call costs as much as a short text")]
    #[inline(always)]
    pub(super) fn next_text(&mut self) -> Strict<Text<'a>> {
        let length = self.long()?;
        let Ok(length) = usize::try_from(length) else {
            return Err(self.malformed(format_args!("length {length}")));
        };
        // Most texts are short, and ASCII.
        if let Some(text) = Text::short_ascii(self.rest, length)
            && let Some(rest) = self.rest.get(length..)
        {
            self.rest = rest;
            return Ok(text);
        }
        let text = self.take(length)?;
        Ok(Text::Long(utf8(text, self)?.as_bytes()))
    }
}

#[cold]
fn not_utf8(length: usize, e: &std::str::Utf8Error, input: &AvroCursor<'_>) -> Undecoded {
    let at = input.position().saturating_sub(length);
    let at = at.saturating_add(e.valid_up_to());
    Undecoded::at(Cause::InvalidUtf8, at, "text that is not UTF-8")
}
