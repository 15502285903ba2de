//! Tokens of JSON (RFC 8259), without recursion.

use crate::values::fault::{Cause, Undecoded};

/// Deepest nesting: as Jackson's default, which most consumers have.
const MAX_DEPTH: usize = 1000;

/// A position in JSON text, which is UTF-8.
#[derive(Clone, Debug)]
pub(super) struct JsonScan<'a> {
    text: &'a str,
    pos: usize,
    /// The containers around a skipped value; true for an object.
    open: Vec<bool>,
}

/// The text of a string, without quotes and with its escapes.
#[derive(Clone, Copy, Debug)]
pub(super) struct JsonString<'a> {
    pub(super) raw: &'a str,
    pub(super) has_escapes: bool,
    at: usize,
}

impl<'a> JsonScan<'a> {
    /// # Errors
    /// `InvalidUtf8`
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, Undecoded> {
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Self {
                text,
                pos: 0,
                open: Vec::new(),
            }),
            Err(error) => Err(Undecoded::at(
                Cause::InvalidUtf8,
                error.valid_up_to(),
                "text that is not UTF-8",
            )),
        }
    }

    #[cold]
    pub(super) fn invalid(&self, text: &str) -> Undecoded {
        Undecoded::at(Cause::InvalidJson, self.pos, text)
    }

    pub(super) const fn position(&self) -> usize {
        self.pos
    }

    /// The next byte after white space; zero at the end.
    #[inline]
    pub(super) fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while let Some(&byte) = bytes.get(self.pos) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return byte;
            }
            self.pos = self.pos.saturating_add(1);
        }
        0
    }

    /// Takes a byte that follows white space, if it is this one.
    #[inline]
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == byte && self.pos < self.text.len();
        self.pos = self.pos.saturating_add(usize::from(found));
        found
    }

    pub(super) fn expect(&mut self, byte: u8) -> Result<(), Undecoded> {
        if self.take(byte) {
            return Ok(());
        }
        Err(self.invalid(&format!("expected '{}'", char::from(byte))))
    }

    /// # Errors
    /// `InvalidJson` where more than white space is left.
    pub(super) fn end(&mut self) -> Result<(), Undecoded> {
        self.peek();
        if self.pos < self.text.len() {
            return Err(self.invalid("more text after the value"));
        }
        Ok(())
    }

    fn literal(&mut self, word: &str) -> Result<(), Undecoded> {
        let rest = self.text.get(self.pos..).unwrap_or_default();
        if !rest.starts_with(word) {
            return Err(self.invalid("expected a value"));
        }
        self.pos = self.pos.saturating_add(word.len());
        Ok(())
    }

    /// Takes `null`, if it is next.
    pub(super) fn null(&mut self) -> Result<bool, Undecoded> {
        if self.peek() != b'n' {
            return Ok(false);
        }
        self.literal("null").map(|()| true)
    }

    pub(super) fn boolean(&mut self) -> Result<bool, Undecoded> {
        let found = self.peek() == b't';
        self.literal(if found { "true" } else { "false" })?;
        Ok(found)
    }

    /// A string, whose quote is next.
    pub(super) fn string(&mut self) -> Result<JsonString<'a>, Undecoded> {
        self.expect(b'"')?;
        let bytes = self.text.as_bytes();
        let start = self.pos;
        let mut has_escapes = false;
        loop {
            match bytes.get(self.pos) {
                Some(b'"') => break,
                Some(b'\\') => {
                    has_escapes = true;
                    let escape = bytes.get(self.pos.saturating_add(1));
                    let length = match escape {
                        Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => 2,
                        Some(b'u') => {
                            let digits = self.pos.saturating_add(2)..self.pos.saturating_add(6);
                            let digits = bytes.get(digits).unwrap_or_default();
                            if digits.len() != 4 || !digits.iter().all(u8::is_ascii_hexdigit) {
                                return Err(self.invalid("an escape without four digits"));
                            }
                            6
                        }
                        _ => return Err(self.invalid("an escape that does not exist")),
                    };
                    self.pos = self.pos.saturating_add(length);
                }
                Some(0..0x20) => return Err(self.invalid("a control character in a string")),
                Some(_) => self.pos = self.pos.saturating_add(1),
                None => return Err(self.invalid("the text ends within a string")),
            }
        }
        let raw = self.text.get(start..self.pos).unwrap_or_default();
        self.pos = self.pos.saturating_add(1);
        Ok(JsonString {
            raw,
            has_escapes,
            at: start,
        })
    }

    fn digits(&mut self) -> usize {
        let rest = self.text.as_bytes().get(self.pos..).unwrap_or_default();
        let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.pos = self.pos.saturating_add(digits);
        digits
    }

    fn is_next(&self, bytes: &[u8]) -> bool {
        let next = self.text.as_bytes().get(self.pos);
        next.is_some_and(|next| bytes.contains(next))
    }

    /// The text of a number.
    pub(super) fn number(&mut self) -> Result<&'a str, Undecoded> {
        self.peek();
        let start = self.pos;
        let skip = |found: bool| usize::from(found);
        self.pos = self.pos.saturating_add(skip(self.is_next(b"-")));
        let is_zero = self.is_next(b"0");
        let digits = self.digits();
        if digits == 0 || is_zero && digits > 1 {
            return Err(self.invalid("expected a value"));
        }
        if self.is_next(b".") {
            self.pos = self.pos.saturating_add(1);
            if self.digits() == 0 {
                return Err(self.invalid("a number without digits after its point"));
            }
        }
        if self.is_next(b"eE") {
            self.pos = self.pos.saturating_add(1);
            self.pos = self.pos.saturating_add(skip(self.is_next(b"+-")));
            if self.digits() == 0 {
                return Err(self.invalid("a number without digits in its exponent"));
            }
        }
        Ok(self.text.get(start..self.pos).unwrap_or_default())
    }

    /// Skips a value; returns its text.
    pub(super) fn value(&mut self) -> Result<&'a str, Undecoded> {
        self.peek();
        let start = self.pos;
        self.open.clear();
        loop {
            // A value begins here, or an empty container ends.
            match self.peek() {
                b'{' | b'[' => {
                    let is_object = self.peek() == b'{';
                    self.pos = self.pos.saturating_add(1);
                    if self.open.len() >= MAX_DEPTH {
                        return Err(self.invalid("values nest deeper than 1000"));
                    }
                    if !self.take(if is_object { b'}' } else { b']' }) {
                        self.open.push(is_object);
                        if is_object {
                            self.string()?;
                            self.expect(b':')?;
                        }
                        continue;
                    }
                }
                b'"' => drop(self.string()?),
                b't' | b'f' => drop(self.boolean()?),
                b'n' => drop(self.null()?),
                _ => drop(self.number()?),
            }
            // A value ended.
            loop {
                let Some(&is_object) = self.open.last() else {
                    return Ok(self.text.get(start..self.pos).unwrap_or_default());
                };
                if self.take(b',') {
                    if is_object {
                        self.string()?;
                        self.expect(b':')?;
                    }
                    break;
                }
                self.expect(if is_object { b'}' } else { b']' })?;
                self.open.pop();
            }
        }
    }
}

impl JsonString<'_> {
    /// Appends the string's characters.
    ///
    /// # Errors
    /// `InvalidJson` for half of a surrogate pair, which UTF-8 cannot hold.
    pub(super) fn unescape(&self, to: &mut Vec<u8>) -> Result<(), Undecoded> {
        if !self.has_escapes {
            to.extend_from_slice(self.raw.as_bytes());
            return Ok(());
        }
        let mut rest = self.raw;
        while let Some((plain, escape)) = rest.split_once('\\') {
            to.extend_from_slice(plain.as_bytes());
            let (kind, after) = escape.split_at_checked(1).unwrap_or_default();
            rest = after;
            let c = match kind {
                "b" => '\u{8}',
                "f" => '\u{c}',
                "n" => '\n',
                "r" => '\r',
                "t" => '\t',
                "u" => {
                    let (c, after) = self.unicode(rest)?;
                    rest = after;
                    c
                }
                other => other.chars().next().unwrap_or_default(),
            };
            to.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
        to.extend_from_slice(rest.as_bytes());
        Ok(())
    }

    /// The character of four digits, or of two such escapes.
    fn unicode<'t>(&self, text: &'t str) -> Result<(char, &'t str), Undecoded> {
        let (high, after) = unit(text).unwrap_or_default();
        let second = after.strip_prefix("\\u").and_then(unit);
        let mut units = [high, second.map_or(0, |(low, _)| low)].into_iter();
        let is_pair = (0xd800..0xdc00).contains(&high);
        let first = char::decode_utf16(units.by_ref().take(if is_pair { 2 } else { 1 })).next();
        match (first, second) {
            (Some(Ok(c)), Some((_, rest))) if is_pair => Ok((c, rest)),
            (Some(Ok(c)), _) if !is_pair => Ok((c, after)),
            _ => Err(Undecoded::at(
                Cause::InvalidJson,
                self.at,
                "half of a surrogate pair, which no text column can hold; decode_as=\"json\" keeps it",
            )),
        }
    }
}

fn unit(text: &str) -> Option<(u16, &str)> {
    let (digits, rest) = text.split_at_checked(4)?;
    Some((u16::from_str_radix(digits, 16).ok()?, rest))
}
