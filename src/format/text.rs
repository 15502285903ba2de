//! Text as Java reads it: `new String(bytes, UTF_8)` never fails; malformed bytes become U+FFFD.
//!
//! How many bytes one U+FFFD stands for differs from Rust's `from_utf8_lossy` where a character is cut off or is half
//! of a surrogate pair (`String.decodeUTF8_UTF16` of OpenJDK 17).

/// U+FFFD.
const REPLACEMENT: &[u8] = "\u{fffd}".as_bytes();

/// Appends what Java's `new String(bytes, UTF_8)` holds: every malformed piece becomes U+FFFD.
#[inline]
pub(crate) fn put_text(bytes: &[u8], to: &mut Vec<u8>) {
    match std::str::from_utf8(bytes) {
        Ok(_) => to.extend_from_slice(bytes),
        Err(_) => put_malformed(bytes, to),
    }
}

#[cold]
fn put_malformed(mut bytes: &[u8], to: &mut Vec<u8>) {
    loop {
        let good = match std::str::from_utf8(bytes) {
            Ok(_) => bytes.len(),
            Err(e) => e.valid_up_to(),
        };
        let (text, rest) = bytes.split_at_checked(good).unwrap_or_default();
        to.extend_from_slice(text);
        if rest.is_empty() {
            return;
        }
        to.extend_from_slice(REPLACEMENT);
        bytes = rest.get(malformed_len(rest)..).unwrap_or_default();
    }
}

/// Counts the bytes that one U+FFFD stands for, at bytes that do not begin with a whole character. It is the longest
/// beginning of a character, as Unicode advises, but a surrogate half is one piece, and one cut off by the end takes
/// all the rest.
fn malformed_len(bytes: &[u8]) -> usize {
    const fn is_tail(byte: u8) -> bool {
        byte & 0xc0 == 0x80
    }
    /// Returns whether `second` can follow `first` at all, in characters of three and four bytes (surrogates pass
    /// here).
    const fn may_follow(first: u8, second: u8) -> bool {
        is_tail(second)
            && match first {
                0xe0 => second >= 0xa0,
                0xf0 => second >= 0x90,
                0xf4 => second < 0x90,
                _ => true,
            }
    }
    match *bytes {
        [0xe0..=0xef, second, ..] if bytes.len() > 2 => match bytes.get(2) {
            _ if !may_follow(bytes.first().copied().unwrap_or_default(), second) => 1,
            Some(&third) if is_tail(third) => 3,
            _ => 2,
        },
        [first @ 0xe0..=0xf4, second, ..] if !may_follow(first, second) => 1,
        [0xf0..=0xf4, _, third, _, ..] => {
            if is_tail(third) {
                3
            } else {
                2
            }
        }
        [0xf0..=0xf4, _, third] if !is_tail(third) => 2,
        [0xe0..=0xf4, ..] => bytes.len(),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers of OpenJDK 17's `new String(bytes, UTF_8)`.
    #[test]
    fn malformed_text_as_java_reads_it() {
        for (bytes, expected) in [
            (&b"plain"[..], "plain"),
            (
                "\u{e4}\u{20ac}\u{1f600}".as_bytes(),
                "\u{e4}\u{20ac}\u{1f600}",
            ),
            (b"a\xffb", "a\u{fffd}b"),
            (b"\xc0\x80", "\u{fffd}\u{fffd}"),
            (b"\xc3", "\u{fffd}"),
            (b"\xc3(", "\u{fffd}("),
            (b"\xed\xa0\x80x", "\u{fffd}x"),
            (b"\xe2\x82", "\u{fffd}"),
            (b"\xe2\x82x", "\u{fffd}x"),
            (b"\xe0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xf0\x9f\x98x", "\u{fffd}x"),
            (b"\xf0\x9fxy", "\u{fffd}xy"),
            (b"\xf0\x9fx", "\u{fffd}x"),
            (b"\xf0\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x80", "\u{fffd}\u{fffd}"),
            (b"\xf1\x80", "\u{fffd}"),
            (b"\xf1\x80\x80", "\u{fffd}"),
            (b"\xf4\x8f\x80z", "\u{fffd}z"),
            (b"\xf0\xf0", "\u{fffd}\u{fffd}"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\xa0z", "\u{fffd}z"),
            (b"\xef\xbf\xbe", "\u{fffe}"),
            (b"\xf5\x80\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf4\x90\x80\x80", "\u{fffd}\u{fffd}\u{fffd}\u{fffd}"),
        ] {
            let mut to = Vec::new();
            put_text(bytes, &mut to);
            assert_eq!(String::from_utf8(to).unwrap(), expected, "{bytes:x?}");
        }
    }
}
