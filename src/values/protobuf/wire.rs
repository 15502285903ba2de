//! The wire format: tags, varints, lengths, groups; as strict as google.protobuf's parser (upb).

use crate::format::varint::get_word;
use crate::values::builder::Text;
use crate::values::fault::{Cause, Undecoded};

/// Deepest nesting of messages and groups, as in google.protobuf.
pub(super) const MAX_DEPTH: u32 = 100;

pub(super) const VARINT: u32 = 0;
pub(super) const FIXED64: u32 = 1;
pub(super) const LENGTH: u32 = 2;
pub(super) const GROUP: u32 = 3;
pub(super) const END_GROUP: u32 = 4;
pub(super) const FIXED32: u32 = 5;

/// Bytes of one message, and where they begin in the payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> Part<'a> {
    pub(super) fn cut(self, from: usize, to: usize) -> Self {
        Self {
            bytes: self.bytes.get(from..to).unwrap_or_default(),
            at: self.at.saturating_add(from),
        }
    }

    pub(super) const fn cursor(self) -> ProtoCursor<'a> {
        ProtoCursor { part: self, pos: 0 }
    }
}

/// A position in a message.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProtoCursor<'a> {
    part: Part<'a>,
    pub(super) pos: usize,
}

impl<'a> ProtoCursor<'a> {
    /// The message that it is a position in.
    #[inline]
    pub(super) const fn part(&self) -> Part<'a> {
        self.part
    }

    #[cold]
    pub(super) fn fault(&self, cause: Cause, text: &str) -> Undecoded {
        Undecoded::at(cause, self.part.at.saturating_add(self.pos), text)
    }

    #[cold]
    pub(super) fn malformed(&self, text: &str) -> Undecoded {
        self.fault(Cause::Malformed, text)
    }

    #[cold]
    fn truncated(&self) -> Undecoded {
        self.fault(Cause::Truncated, "the message ends within a field")
    }

    #[inline]
    pub(super) const fn is_done(&self) -> bool {
        self.pos >= self.part.bytes.len()
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Undecoded> {
        match self.part.bytes.get(self.pos) {
            Some(&byte) if byte < 0x80 => {
                self.pos = self.pos.saturating_add(1);
                Ok(u64::from(byte))
            }
            _ => self.long_varint(10),
        }
    }

    fn long_varint(&mut self, most: usize) -> Result<u64, Undecoded> {
        let rest = self.part.bytes.get(self.pos..).unwrap_or_default();
        if let Some((value, length)) = get_word(rest)
            && length <= most
        {
            self.pos = self.pos.saturating_add(length);
            return Ok(value);
        }
        let mut value = 0_u64;
        for (i, &byte) in rest.iter().take(most).enumerate() {
            // Bits beyond the 64th are dropped.
            let shift = u32::try_from(i).unwrap_or_default().wrapping_mul(7);
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                self.pos = self.pos.saturating_add(i).saturating_add(1);
                return Ok(value);
            }
        }
        if rest.len() < most {
            return Err(self.truncated());
        }
        Err(self.malformed("a varint is too long"))
    }

    /// A tag: field number and wire type in one.
    #[inline]
    pub(super) fn tag(&mut self) -> Result<u32, Undecoded> {
        let start = *self;
        let tag = match self.part.bytes.get(self.pos) {
            Some(&byte) if byte < 0x80 => {
                self.pos = self.pos.saturating_add(1);
                u64::from(byte)
            }
            _ => self.long_varint(5)?,
        };
        match u32::try_from(tag) {
            Ok(tag) if tag >= 8 => Ok(tag),
            _ => Err(start.malformed("a tag without a field number")),
        }
    }

    /// A length and as many bytes.
    #[inline]
    pub(super) fn chunk(&mut self) -> Result<Part<'a>, Undecoded> {
        let start = *self;
        let length = match self.part.bytes.get(self.pos) {
            Some(&byte) if byte < 0x80 => {
                self.pos = self.pos.saturating_add(1);
                u64::from(byte)
            }
            _ => self.long_varint(5)?,
        };
        let length = i32::try_from(length).map_err(|_| start.malformed("a length is too large"))?;
        self.take(usize::try_from(length).unwrap_or_default())
    }

    /// A length and as many bytes, as text to append, if they are short and ASCII.
    #[inline]
    pub(super) fn short_ascii(&mut self) -> Option<Text<'a>> {
        let rest = self.part.bytes.get(self.pos..)?;
        let (&length, rest) = rest.split_first()?;
        // A longer length has a bit that makes it more than is short.
        let length = usize::from(length);
        let text = Text::short_ascii(rest, length)?;
        self.pos = self.pos.saturating_add(length).saturating_add(1);
        Some(text)
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<Part<'a>, Undecoded> {
        let end = self.pos.saturating_add(length);
        let Some(bytes) = self.part.bytes.get(self.pos..end) else {
            return Err(self.truncated());
        };
        let at = self.part.at.saturating_add(self.pos);
        self.pos = end;
        Ok(Part { bytes, at })
    }

    #[inline]
    pub(super) fn fixed32(&mut self) -> Result<u64, Undecoded> {
        let part = self.take(4)?;
        let bytes = part.bytes.first_chunk().copied().unwrap_or_default();
        #[expect(clippy::little_endian_bytes, reason = "Protobuf is little-endian")]
        Ok(u64::from(u32::from_le_bytes(bytes)))
    }

    #[inline]
    pub(super) fn fixed64(&mut self) -> Result<u64, Undecoded> {
        let part = self.take(8)?;
        let bytes = part.bytes.first_chunk().copied().unwrap_or_default();
        #[expect(clippy::little_endian_bytes, reason = "Protobuf is little-endian")]
        Ok(u64::from_le_bytes(bytes))
    }

    /// A number of this wire type.
    #[inline]
    pub(super) fn number(&mut self, wire: u32) -> Result<u64, Undecoded> {
        match wire {
            VARINT => self.varint(),
            FIXED64 => self.fixed64(),
            _ => self.fixed32(),
        }
    }

    /// The content of a group, whose begin was read.
    pub(super) fn group(&mut self, number: u32, depth: u32) -> Result<Part<'a>, Undecoded> {
        let Some(depth) = depth.checked_sub(1) else {
            return Err(self.too_deep());
        };
        let start = self.pos;
        loop {
            if self.is_done() {
                return Err(self.truncated());
            }
            let before = self.pos;
            let tag = self.tag()?;
            if tag & 7 == END_GROUP {
                if tag >> 3 != number {
                    return Err(self.malformed("a group ends that did not begin"));
                }
                return Ok(self.part.cut(start, before));
            }
            self.skip(tag, depth)?;
        }
    }

    /// Skips the field of a tag.
    pub(super) fn skip(&mut self, tag: u32, depth: u32) -> Result<(), Undecoded> {
        match tag & 7 {
            VARINT => self.varint().map(drop),
            FIXED64 => self.take(8).map(drop),
            LENGTH => self.chunk().map(drop),
            GROUP => self.group(tag >> 3, depth).map(drop),
            FIXED32 => self.take(4).map(drop),
            _ => Err(self.malformed("a wire type that does not exist, or the end of no group")),
        }
    }

    #[cold]
    pub(super) fn too_deep(&self) -> Undecoded {
        self.malformed("messages nest deeper than 100")
    }
}

#[inline]
pub(super) fn unzigzag32(value: u64) -> i32 {
    let value = low32(value);
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[inline]
pub(super) fn unzigzag64(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// The low 32 bits, which is what google.protobuf keeps of a longer varint.
#[inline]
pub(super) fn low32(raw: u64) -> u32 {
    u32::try_from(raw & 0xffff_ffff).unwrap_or_default()
}
