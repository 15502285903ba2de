//! JSON (RFC 8259), one level at a time: the members of an object, the elements of an array, the text of a string.
//! Values are not decoded until they are read.

use std::borrow::Cow;
use std::collections::BTreeMap;

/// The deepest nesting that is followed.
const MAX_DEPTH: usize = 32;

/// The members of the object that `text` is, each value as it is spelled; `None` where it is no such object. Of a name
/// that comes twice the last counts.
#[must_use]
pub(crate) fn members(text: &str) -> Option<BTreeMap<String, &str>> {
    let mut found = BTreeMap::new();
    let mut cursor = Cursor { text, at: 0 };
    cursor.object(0, &mut |name, value| {
        found.insert(name.to_owned(), value);
    })?;
    cursor.skip_blanks();
    (cursor.at == text.len()).then_some(found)
}

/// The elements of the array that `text` is, each as it is spelled; `None` where it is no array.
#[must_use]
pub(crate) fn elements(text: &str) -> Option<Vec<&str>> {
    let mut found = Vec::new();
    let mut cursor = Cursor { text, at: 0 };
    cursor.take(b'[')?;
    cursor.list(b']', |this| {
        this.skip_blanks();
        let begin = this.at;
        this.value(1)?;
        found.push(this.text.get(begin..this.at)?);
        Some(())
    })?;
    cursor.skip_blanks();
    (cursor.at == text.len()).then_some(found)
}

/// Decodes the JSON string `text`; `None` if it is not a string, or contains half a surrogate pair.
#[must_use]
pub(crate) fn string(text: &str) -> Option<Cow<'_, str>> {
    let mut cursor = Cursor { text, at: 0 };
    let raw = cursor.string()?;
    cursor.skip_blanks();
    if cursor.at != text.len() {
        return None;
    }
    if !raw.contains('\\') {
        return Some(Cow::Borrowed(raw));
    }
    let mut said = String::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((before, after)) = rest.split_once('\\') {
        said.push_str(before);
        let mut chars = after.chars();
        said.push(match chars.next()? {
            'b' => '\u{8}',
            'f' => '\u{c}',
            'n' => '\n',
            'r' => '\r',
            't' => '\t',
            same @ ('"' | '\\' | '/') => same,
            'u' => {
                let (escaped, left) = unit_pair(chars.as_str())?;
                chars = left.chars();
                escaped
            }
            _ => return None,
        });
        rest = chars.as_str();
    }
    said.push_str(rest);
    Some(Cow::Owned(said))
}

/// The character of four hexadecimal digits, or of two such escapes that are a surrogate pair, and what follows it.
fn unit_pair(text: &str) -> Option<(char, &str)> {
    let unit = |text: &str| {
        let digits = text
            .get(..4)
            .filter(|digits| digits.bytes().all(|b| b.is_ascii_hexdigit()))?;
        u16::from_str_radix(digits, 16).ok()
    };
    let first = unit(text)?;
    let after = text.get(4..)?;
    let (units, rest) = match after.strip_prefix("\\u").map(|low| (unit(low), low)) {
        Some((Some(low), digits)) if (0xd800..0xdc00).contains(&first) => {
            (vec![first, low], digits.get(4..)?)
        }
        _ => (vec![first], after),
    };
    let mut decoded = char::decode_utf16(units);
    Some((decoded.next()?.ok()?, rest))
}

struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    const fn step(&mut self) {
        self.at = self.at.saturating_add(1);
    }

    fn skip_blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.step();
        }
    }

    /// The next character that is no blank, if it is this one.
    fn take(&mut self, wanted: u8) -> Option<()> {
        self.skip_blanks();
        (self.peek()? == wanted).then(|| self.step())
    }

    /// Items between brackets, with commas.
    fn list(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Option<()>) -> Option<()> {
        self.skip_blanks();
        if self.peek()? == end {
            self.step();
            return Some(());
        }
        loop {
            item(self)?;
            if self.take(b',').is_none() {
                return self.take(end);
            }
        }
    }

    fn object(&mut self, depth: usize, member: &mut dyn FnMut(&str, &'a str)) -> Option<()> {
        self.take(b'{')?;
        self.list(b'}', |this| {
            this.skip_blanks();
            let name = this.string()?;
            this.take(b':')?;
            this.skip_blanks();
            let begin = this.at;
            this.value(depth.saturating_add(1))?;
            member(name, this.text.get(begin..this.at)?);
            Some(())
        })
    }

    fn value(&mut self, depth: usize) -> Option<()> {
        if depth > MAX_DEPTH {
            return None;
        }
        self.skip_blanks();
        match self.peek()? {
            b'{' => self.object(depth, &mut |_, _| {}),
            b'[' => {
                self.step();
                self.list(b']', |this| this.value(depth.saturating_add(1)))
            }
            b'"' => self.string().map(drop),
            _ => self.word(),
        }
    }

    /// Returns the text between quotes, escapes included.
    fn string(&mut self) -> Option<&'a str> {
        self.take(b'"')?;
        let begin = self.at;
        loop {
            match self.peek()? {
                b'"' => {
                    let found = self.text.get(begin..self.at);
                    self.step();
                    return found;
                }
                b'\\' => {
                    self.step();
                    self.peek()?;
                    self.step();
                }
                0..0x20 => return None,
                _ => self.step(),
            }
        }
    }

    /// A number, or `true`, `false`, `null`.
    fn word(&mut self) -> Option<()> {
        let begin = self.at;
        while matches!(
            self.peek(),
            Some(b'0'..=b'9' | b'a'..=b'z' | b'E' | b'+' | b'-' | b'.')
        ) {
            self.step();
        }
        let word = self.text.get(begin..self.at)?;
        let is_known = matches!(word, "true" | "false" | "null");
        let is_number = word.parse::<f64>().is_ok_and(f64::is_finite) && !word.starts_with('+');
        (is_known || is_number).then_some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_an_object() {
        let text =
            r#" {"a":1, "b" : [1,{"c":"}"}], "d\"":null,"e":-2.5e3,"f":{}, "g":[] ,"h":"" } "#;
        let found = members(text).unwrap();
        let expected = [
            ("a", "1"),
            ("b", r#"[1,{"c":"}"}]"#),
            ("d\\\"", "null"),
            ("e", "-2.5e3"),
            ("f", "{}"),
            ("g", "[]"),
            ("h", "\"\""),
        ];
        let found: Vec<_> = found.iter().map(|(k, v)| (k.as_str(), *v)).collect();
        assert_eq!(found, expected);
        assert_eq!(members("{}"), Some(BTreeMap::new()));
    }

    #[test]
    fn elements_of_an_array() {
        assert_eq!(
            elements(" [1, [2,3] ,\"],\",{}] "),
            Some(vec!["1", "[2,3]", "\"],\"", "{}"])
        );
        assert_eq!(elements("[]"), Some(vec![]));
        for text in ["", "{}", "[", "[1", "[1,]", "[1]x", "[1 2]"] {
            assert_eq!(elements(text), None, "{text}");
        }
    }

    #[test]
    fn what_strings_say() {
        for (text, said) in [
            (r#""""#, ""),
            (r#""plain \u20ac""#, "plain \u{20ac}"),
            (r#""a\"b\\c\/\b\f\n\r\t""#, "a\"b\\c/\u{8}\u{c}\n\r\t"),
            (r#""\ud83d\uDE00!""#, "\u{1f600}!"),
            (r#""\u0041\u0042""#, "AB"),
        ] {
            assert_eq!(string(text).as_deref(), Some(said), "{text}");
        }
        for text in [
            "",
            "1",
            "\"",
            "\"a\"b",
            r#""\x""#,
            r#""\u12""#,
            r#""\u+123""#,
            r#""\ud83d""#,
            r#""\ud83dx""#,
            r#""\ud83d\u0041""#,
            r#""\ude00""#,
        ] {
            assert_eq!(string(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_none() {
        let deep = format!("{{\"a\":{}1{}}}", "[".repeat(100), "]".repeat(100));
        for text in [
            "",
            "1",
            "[]",
            "{",
            "{}x",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{a:1}",
            "{\"a\":nul}",
            "{\"a\":inf}",
            "{\"a\":\"\n\"}",
            "{\"a\":\"\\",
            "{\"a\":1 2}",
            &deep,
        ] {
            assert_eq!(members(text), None, "{text}");
        }
    }
}
