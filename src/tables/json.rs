//! Messages as JSON, with the fields of Kafka's `*JsonConverter` classes (`JsonConverterGenerator`).
//!
//! A field is written where its version has it: a tagged one only if it is not its default, every other one always.
//! Bytes are base64, ids are spelled as Kafka spells them, numbers and strings as Jackson writes them.

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::{Engine as _, alphabet};

use super::decode::Tree;
use super::messages::{MessageField, Table};
use super::node::Node;
use super::value::{Fields, Value};
use crate::format::put::Put;
use crate::format::text::put_text;

/// Text in place of a secret.
const HIDDEN: &str = "\"***\"";

/// The messages that members of a classic group write, in these fields of theirs, each after its version.
const EMBEDDED: [(&str, &str); 2] = [
    ("subscription", "ConsumerProtocolSubscription"),
    ("assignment", "ConsumerProtocolAssignment"),
];

/// Options of writing JSON.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Style<'s> {
    /// Fields of the message itself that are not shown.
    pub(crate) hidden: &'s [&'s str],
    /// Bytes that hold messages are shown as these.
    pub(crate) expand: bool,
}

/// Appends a message as one of this version; what its own version lacks has its default.
pub(crate) fn put_message(fields: Fields<'_>, version: i16, style: Style<'_>, to: &mut Vec<u8>) {
    // Kafka checks whether a version has a field only if some version lacks it.
    put_fields(fields, version.max(0), style, to);
}

fn put_fields(fields: Fields<'_>, version: i16, style: Style<'_>, to: &mut Vec<u8>) {
    let mut opening = b'{';
    for (field, node) in fields.each() {
        let is_tagged = field.tag_in(version).is_some();
        if !field.versions.has(version) || is_tagged && is_default(fields, field, node) {
            continue;
        }
        to.push(opening);
        opening = b',';
        to.extend_from_slice(field.json_name.as_bytes());
        let value = fields.value(field, node);
        if style.hidden.contains(&field.name.as_str()) && !value.is_null() {
            HIDDEN.put(to);
        } else if !(style.expand && put_embedded(field, value, to)) {
            put_value(value, version, style.expand, to);
        }
    }
    if opening == b'{' {
        to.push(b'{');
    }
    to.push(b'}');
}

/// Returns whether a field holds its default.
fn is_default(fields: Fields<'_>, field: &'static MessageField, node: Node<'_>) -> bool {
    match node {
        Node::Absent => true,
        Node::Fixed(elements) => elements.is_empty() && field.default != Node::Null,
        Node::Array { len, .. } => len == 0 && field.default != Node::Null,
        Node::Struct(_) => (fields.value(field, node).fields())
            .is_some_and(|own| own.each().all(|(field, node)| is_default(own, field, node))),
        node => node == field.default,
    }
}

/// Appends the message that bytes hold; false where they do not.
fn put_embedded(field: &MessageField, value: Value<'_>, to: &mut Vec<u8>) -> bool {
    let Value::Bytes(raw) = value else {
        return false;
    };
    let embedded = EMBEDDED.into_iter().find(|(name, _)| *name == field.name);
    let message = embedded.and_then(|(_, message)| Table::get().ok()?.data(message).ok());
    let (Some(message), Some((head, rest))) = (message, raw.split_first_chunk()) else {
        return false;
    };
    let version = i16::from_be_bytes(*head);
    let mut tree = Tree::default();
    let Ok((root, _)) = tree.read(message, version.max(0), rest) else {
        return false;
    };
    put_message(tree.fields(root), version, Style::default(), to);
    true
}

fn put_value(value: Value<'_>, version: i16, expand: bool, to: &mut Vec<u8>) {
    match value {
        Value::Null => "null".put(to),
        Value::Bool(value) => value.put(to),
        Value::Int(value) => value.put(to),
        Value::Float(value) => put_float(value, to),
        Value::Uuid(value) => {
            to.push(b'"');
            value.put(to);
            to.push(b'"');
        }
        Value::Text(value) => put_string(value, to),
        Value::Bytes(value) => {
            to.push(b'"');
            put_base64(value, to);
            to.push(b'"');
        }
        Value::List(list) => {
            to.push(b'[');
            for (n, element) in list.into_iter().enumerate() {
                if n > 0 {
                    to.push(b',');
                }
                put_value(element, version, expand, to);
            }
            to.push(b']');
        }
        Value::Fields(fields) => {
            let style = Style {
                hidden: &[],
                expand,
            };
            put_fields(fields, version, style, to);
        }
    }
}

/// A string of raw UTF-8, as Jackson writes what Java read of it.
pub(crate) fn put_string(raw: &[u8], to: &mut Vec<u8>) {
    if let Ok(text) = std::str::from_utf8(raw) {
        return put_text_string(text, to);
    }
    let mut text = Vec::with_capacity(raw.len());
    put_text(raw, &mut text);
    put_text_string(&String::from_utf8_lossy(&text), to);
}

/// A string of text.
pub(crate) fn put_text_string(text: &str, to: &mut Vec<u8>) {
    to.push(b'"');
    let mut rest = text.as_bytes();
    loop {
        let (plain, other) = rest.split_at_checked(plain_len(rest)).unwrap_or_default();
        to.extend_from_slice(plain);
        let Some((&byte, after)) = other.split_first() else {
            break;
        };
        put_escaped(byte, to);
        rest = after;
    }
    to.push(b'"');
}

/// A text of JSON, on one line: it has line breaks only between tokens, where a space means the same.
pub(crate) fn put_on_one_line(json: &str, to: &mut Vec<u8>) {
    let start = to.len();
    json.put(to);
    for byte in to.iter_mut().skip(start) {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b' ';
        }
    }
}

/// Counts the bytes that need no escape, in blocks, which avoids a branch per byte.
fn plain_len(bytes: &[u8]) -> usize {
    const BLOCK: usize = 32;
    const fn is_plain(byte: u8) -> bool {
        byte >= 0x20 && byte != b'"' && byte != b'\\'
    }
    let blocks = bytes.chunks(BLOCK);
    let plain =
        blocks.take_while(|block| block.iter().fold(true, |all, &byte| all & is_plain(byte)));
    let start = plain.map(<[u8]>::len).sum();
    let rest = bytes.get(start..).unwrap_or_default();
    let more = rest.iter().take_while(|&&byte| is_plain(byte)).count();
    start.saturating_add(more)
}

fn put_escaped(byte: u8, to: &mut Vec<u8>) {
    match byte {
        b'"' => "\\\"".put(to),
        b'\\' => "\\\\".put(to),
        0x08 => "\\b".put(to),
        0x09 => "\\t".put(to),
        0x0a => "\\n".put(to),
        0x0c => "\\f".put(to),
        0x0d => "\\r".put(to),
        0x00..0x20 => format!("\\u{byte:04X}").as_str().put(to),
        _ => to.push(byte),
    }
}

/// Base64 with padding (RFC 4648, section 4). As in Jackson, the bits that the last character has too many may be any.
pub(super) const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true),
);

/// Bytes as base64, in quotes.
pub(crate) fn put_base64_string(bytes: &[u8], to: &mut Vec<u8>) {
    to.push(b'"');
    put_base64(bytes, to);
    to.push(b'"');
}

/// Bytes as [`BASE64`].
pub(crate) fn put_base64(raw: &[u8], to: &mut Vec<u8>) {
    let start = to.len();
    to.resize(
        start.saturating_add(raw.len().div_ceil(3).saturating_mul(4)),
        0,
    );
    let room = to.get_mut(start..).unwrap_or_default();
    let written = BASE64.encode_slice(raw, room).unwrap_or_default();
    to.truncate(start.saturating_add(written));
}

/// A number as Java's `Double.toString` spells it (that of JDK 19 and later, which is the shortest that reads back);
/// what is none is quoted.
fn put_float(value: f64, to: &mut Vec<u8>) {
    if value.is_nan() {
        return "\"NaN\"".put(to);
    }
    if value.is_infinite() {
        let text = if value > 0.0 {
            "\"Infinity\""
        } else {
            "\"-Infinity\""
        };
        return text.put(to);
    }
    let size = value.abs();
    if size == 0.0 || (1e-3..1e7).contains(&size) {
        let text = format!("{value:?}");
        return text.as_str().put(to);
    }
    // At least two digits, the closest ones.
    let text = Some(format!("{value:.1e}")).filter(|text| text.parse() == Ok(value));
    let text = text.unwrap_or_else(|| format!("{value:e}"));
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    digits.put(to);
    to.push(b'E');
    exponent.put(to);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(put: impl Fn(&mut Vec<u8>)) -> String {
        let mut to = Vec::new();
        put(&mut to);
        String::from_utf8(to).unwrap()
    }

    /// Spellings by OpenJDK 21's `Double.toString`.
    #[test]
    fn fractions_as_java_spells_them() {
        for (value, spelled) in [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1024.0, "1024.0"),
            (0.001, "0.001"),
            (9.99e-4, "9.99E-4"),
            (9_999_999.0, "9999999.0"),
            (1e7, "1.0E7"),
            (12_345_678.9, "1.23456789E7"),
            (-1.5e300, "-1.5E300"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (4.9e-324, "4.9E-324"),
            (f64::NAN, "\"NaN\""),
            (f64::NEG_INFINITY, "\"-Infinity\""),
        ] {
            assert_eq!(text(|to| put_float(value, to)), spelled);
        }
    }

    #[test]
    fn bytes_as_base64() {
        for (raw, spelled) in [
            (&b""[..], ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"\xff\xfe\xfd\xfc", "//79/A=="),
        ] {
            assert_eq!(text(|to| put_base64(raw, to)), spelled);
        }
        assert_eq!(BASE64.decode("Zh==").as_deref(), Ok(&b"f"[..]));
        for text in ["Zg", "Z===", "Zg==Zg==", "Zm-_", "Zm9v\n"] {
            assert!(BASE64.decode(text).is_err(), "{text}");
        }
    }

    #[test]
    fn strings_as_jackson_writes_them() {
        let raw = b"a\"b\\c\x00\x1f\x7f\n\t\r\x08\x0c\xff\xe2\x82\xac/";
        let spelled = "\"a\\\"b\\\\c\\u0000\\u001F\x7f\\n\\t\\r\\b\\f\u{fffd}\u{20ac}/\"";
        assert_eq!(text(|to| put_string(raw, to)), spelled);
    }
}
