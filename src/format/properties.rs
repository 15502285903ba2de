//! Java properties, which is what `meta.properties` is (`java.util.Properties`, `PropertiesUtils`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::checkpoint::{lines, text};
use crate::error::{Error, Result};

/// Reads `meta.properties`, or any Java properties file in UTF-8 or ASCII.
///
/// # Errors
/// `CorruptIndex` for bytes that are no text, or a broken `\u` escape.
pub fn parse_properties(data: &[u8]) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut natural = lines(text(data)?);
    while let Some((at, first)) = natural.next() {
        let start = first.trim_start_matches(is_blank);
        if start.is_empty() || start.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = start.to_owned();
        // An odd number of backslashes at the end continues in the next line.
        while logical.bytes().rev().take_while(|&b| b == b'\\').count() % 2 == 1 {
            logical.pop();
            match natural.next() {
                Some((_, more)) => logical.push_str(more.trim_start_matches(is_blank)),
                None => break,
            }
        }
        let (key, value) = split_property(&logical);
        found.insert(unescape(at, key)?, unescape(at, value)?);
    }
    Ok(found)
}

const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\x0c')
}

/// The key ends at the first bare `=`, `:` or blank; one `=` or `:` and blanks around it belong to neither.
fn split_property(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.find(|c: char| {
        let ends = !escaped && (is_blank(c) || matches!(c, '=' | ':'));
        escaped = c == '\\' && !escaped;
        ends
    });
    let (key, rest) = line.split_at(end.unwrap_or(line.len()));
    let rest = rest.trim_start_matches(is_blank);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, rest.trim_start_matches(is_blank))
}

fn unescape(at: u64, raw: &str) -> Result<String> {
    let mut units: Vec<u16> = Vec::with_capacity(raw.len());
    let mut chars = raw.chars();
    let mut buffer = [0u16; 2];
    while let Some(c) = chars.next() {
        let c = if c == '\\' {
            match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let unit = (digits.len() == 4)
                        .then(|| u16::from_str_radix(&digits, 16).ok())
                        .flatten();
                    units.push(unit.ok_or_else(|| {
                        Error::corrupt_index("escape", at, "\\u and four hex digits", digits)
                    })?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\x0c',
                Some(other) => other,
                None => break,
            }
        } else {
            c
        };
        units.extend_from_slice(c.encode_utf16(&mut buffer));
    }
    Ok(String::from_utf16_lossy(&units))
}

/// A properties file of these entries, by key. Java writes a comment with the date on top; it means nothing.
#[must_use]
pub(crate) fn write_properties(properties: &BTreeMap<String, String>) -> Vec<u8> {
    let mut text = String::new();
    for (key, value) in properties {
        escape(key, true, &mut text);
        text.push('=');
        escape(value, false, &mut text);
        text.push('\n');
    }
    text.into_bytes()
}

/// Every blank of a key is escaped, of a value only the first character; beyond ASCII as `\u` escapes.
fn escape(raw: &str, is_key: bool, to: &mut String) {
    for (at, c) in raw.char_indices() {
        match c {
            ' ' if !is_key && at > 0 => to.push(' '),
            ' ' | ':' | '=' | '#' | '!' | '\\' => to.extend(['\\', c]),
            '\t' => to.push_str("\\t"),
            '\n' => to.push_str("\\n"),
            '\r' => to.push_str("\\r"),
            '\x0c' => to.push_str("\\f"),
            ' '..='~' => to.push(c),
            _ => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a string cannot fail.
                    let _ = write!(to, "\\u{unit:04X}");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Cases of `java.util.Properties.load`'s documentation.
    #[test]
    fn properties() {
        let text = "#\n#Sat Nov 21\n! note\n\ncluster.id=abc\nTruth = Beauty\n Truth2:Beauty\nTruth3\t\t :Beauty\n\
                    fruits  apple, banana, \\\n    pear\ncheeses\nesc\\=aped\\ key=\\u0041\\tb\\\\\nlast=1\\";
        let found = parse_properties(text.as_bytes()).unwrap();
        let expected = [
            ("Truth", "Beauty"),
            ("Truth2", "Beauty"),
            ("Truth3", "Beauty"),
            ("cheeses", ""),
            ("cluster.id", "abc"),
            ("esc=aped key", "A\tb\\"),
            ("fruits", "apple, banana, pear"),
            ("last", "1"),
        ];
        let found: Vec<_> = found
            .iter()
            .map(|(k, v)| (k.as_str(), v.as_str()))
            .collect();
        assert_eq!(found, expected);
        assert!(parse_properties(b"a=\\u00x1").is_err());
    }

    #[test]
    fn written_as_java_does() {
        let entry = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let properties = BTreeMap::from([
            entry("a key:=#!", " value with = : # ! and \\"),
            entry("node.id", "7"),
            entry("t", "\u{e4}\u{1f600}\t\u{1}"),
        ]);
        let expected = "a\\ key\\:\\=\\#\\!=\\ value with \\= \\: \\# \\! and \\\\\nnode.id=7\n\
                        t=\\u00E4\\uD83D\\uDE00\\t\\u0001\n";
        let written = write_properties(&properties);
        assert_eq!(String::from_utf8(written).unwrap(), expected);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            properties in prop::collection::btree_map(any::<String>(), any::<String>(), 0..5),
        ) {
            let written = write_properties(&properties);
            prop_assert!(written.is_ascii());
            prop_assert_eq!(parse_properties(&written).unwrap(), properties);
        }
    }
}
