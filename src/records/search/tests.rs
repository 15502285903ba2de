//! Searches in chunks, and what is known of their patterns.

use proptest::prelude::*;

use super::*;
use crate::format::batch::BatchHeader;
use crate::io::region::Region;

fn found(pattern: &str, text: &[u8]) -> bool {
    let pattern = BytePattern::expression(pattern).unwrap();
    pattern.is_match(&mut pattern.cache(), text)
}

/// As `re.search(pattern, text)` with bytes says.
#[test]
fn expressions_mean_what_re_means() {
    for (pattern, text, expected) in [
        ("", &b""[..], true),
        ("a.c", b"a\xffc", true),
        ("a.c", b"a\nc", false),
        ("(?s)a.c", b"a\nc", true),
        (r"^\w+$", b"abc", true),
        (r"^\w+$", b"abc\n", true),
        (r"^\w+$", b"abc\n\n", false),
        (r"^\w+\z", b"abc\n", false),
        (r"(?m)^b$", b"a\nb\nc", true),
        (r"^b$", b"a\nb\nc", false),
        (r"^$", b"\n", true),
        (r"\w", "\u{fc}".as_bytes(), false),
        (r"(?u)\w", "\u{fc}".as_bytes(), true),
        ("(?i)\u{fc}", "\u{dc}".as_bytes(), false),
        ("(?iu)\u{fc}", "\u{dc}".as_bytes(), true),
        ("(?i)ORDER", b"an order", true),
        (r"\xff", b"\xff", true),
        ("[^a]", b"\xff", true),
        (r"\bcat\b", b"concat", false),
    ] {
        assert_eq!(found(pattern, text), expected, "{pattern} {text:?}");
    }
}

#[test]
fn what_cannot_be_parsed_is_placed() {
    for (pattern, expected) in [
        ("a(b", "the pattern 'a(b' at position 1: unclosed group"),
        ("\u{fc}*)", "at position 2: unopened group"),
        ("a++", "at position 2: a repetition of a repetition"),
        (r"(a)\1", "at position 3: backreferences are not supported"),
        ("(?=a)", "at position 0: look-around"),
        ("[z-a]", "at position 1: invalid character class range"),
        (
            "(?:a{1000}b){1000}",
            "takes more than 10485760 bytes when compiled",
        ),
    ] {
        let error = BytePattern::expression(pattern).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let long = "a".repeat(1 << 17);
    let error = BytePattern::expression(&long).unwrap_err().to_string();
    assert_eq!(error, "the pattern has 131072 bytes; at most 65536");
    let nested = format!("{}{}", "(".repeat(1000), ")".repeat(1000));
    assert!(BytePattern::expression(&nested).is_err());
}

#[test]
fn literals_are_taken_from_any_part() {
    for (pattern, candidate) in [
        (r"order-\d+", Some(4)),
        (r"\d+-order", Some(3)),
        (r"[a-z]*order", Some(4)),
        (r"(?i)ORDER", Some(4)),
        (r"\d+", None),
        (r"x?", None),
        (r"(?:order|place)", Some(4)),
    ] {
        let pattern_of = BytePattern::expression(pattern).unwrap();
        assert_eq!(
            pattern_of.has_candidates(),
            candidate.is_some(),
            "{pattern}"
        );
        if let Some(candidate) = candidate {
            let place = pattern_of.find_candidate(b"a 5-order-5", 1, 11);
            assert_eq!(place, Some(candidate), "{pattern}");
        }
    }
}

/// Small expressions, some with literals in several parts.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        "[abc]{1,3}",
        Just(".".to_owned()),
        Just("[ab]".to_owned()),
        Just(r"\d".to_owned()),
        Just("^".to_owned()),
        Just("$".to_owned()),
        Just(r"\b".to_owned()),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|all| all.concat()),
            prop::collection::vec(inner.clone(), 1..4)
                .prop_map(|all| format!("(?:{})", all.join("|"))),
            (inner, "[*+?]|\\{1,2\\}").prop_map(|(one, times)| format!("(?:{one}){times}")),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    /// A candidate lies before the end of every match.
    #[test]
    fn no_match_is_without_candidate(
        pattern in expression(),
        folded in any::<bool>(),
        text in prop::collection::vec(prop::sample::select(b"aabbcABC01 \n\xff".to_vec()), 0..12),
    ) {
        let pattern = if folded { format!("(?i){pattern}") } else { pattern };
        let pattern = BytePattern::expression(&pattern).unwrap();
        if pattern.has_candidates() && pattern.is_match(&mut pattern.cache(), &text) {
            prop_assert!(pattern.find_candidate(&text, 0, text.len()).is_some());
        }
    }

    /// A chunk is left with the records that match one by one.
    #[test]
    fn a_chunk_keeps_what_matches(
        fields in prop::collection::vec(
            (prop::option::of("[abc]{0,4}"), prop::option::of("[abc]{0,6}")), 0..40
        ),
        needle in "[abc]{0,3}",
        regex in any::<bool>(),
        names in prop::sample::subsequence(vec!["value", "key"], 1..=2),
        is_inverted in any::<bool>(),
    ) {
        let (mut bytes, mut slots) = (Vec::new(), Vec::new());
        let mut put = |field: &Option<String>| {
            // A field is preceded by its length.
            bytes.push(b'a');
            let start = u32::try_from(bytes.len()).unwrap();
            bytes.extend_from_slice(field.as_deref().unwrap_or_default().as_bytes());
            (start, field.as_ref().map_or(-1, |text| i32::try_from(text.len()).unwrap()))
        };
        for (offset, (key, value)) in fields.iter().enumerate() {
            let ((key_start, key_len), (value_start, value_len)) = (put(key), put(value));
            slots.push(RecordSlot {
                offset: i64::try_from(offset).unwrap(),
                key_start, key_len, value_start, value_len,
                ..RecordSlot::default()
            });
        }
        let mut chunk = Chunk::default();
        let mut header = [0u8; 61];
        header[8..12].copy_from_slice(&49i32.to_be_bytes());
        header[16] = 2;
        let header = BatchHeader::parse(&header).unwrap().unwrap();
        chunk.accepts_region(&Region::heap(bytes));
        chunk.extend(&slots, &header, 0, (0, i64::MAX));
        let (literal, expression) = if regex { (None, Some(needle.as_str())) } else { (Some(needle.as_bytes()), None) };
        let search = RecordSearch::parse(literal, expression, &names).unwrap().unwrap();
        let dropped = Searcher::new(Arc::new(search.inverted(is_inverted))).retain(&mut chunk);
        let has = |field: &Option<String>| field.as_ref().is_some_and(|text| text.contains(&needle));
        let expected: Vec<_> = fields.iter().enumerate().filter(|(_, (key, value))| {
            let is_found = names.contains(&"key") && has(key) || names.contains(&"value") && has(value);
            is_found != is_inverted
        }).map(|(offset, _)| i64::try_from(offset).unwrap()).collect();
        let left: Vec<_> = chunk.slots().iter().map(|slot| slot.offset).collect();
        prop_assert_eq!(dropped, fields.len().abs_diff(expected.len()));
        prop_assert_eq!(left, expected);
    }
}
