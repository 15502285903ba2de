//! Plain English: doc comments and docstrings begin with what they describe, a noun or a verb in the third person.

use std::path::Path;

use crate::common::{files, root};

/// Words that begin a clause without a subject where they begin a sentence.
const OPENINGS: [&str; 12] = [
    "What", "Whatever", "Whether", "Where", "Wherever", "How", "Who", "Whoever", "Whose", "Which",
    "Why", "When",
];
/// Words that may precede one of them: "Of which", "Up to where".
const BEFORE: [&str; 13] = [
    "Of", "From", "By", "At", "In", "To", "With", "On", "For", "Since", "Until", "Under", "Up to",
];
/// Names that may begin a sentence as they are; those of types stand in backticks.
const NAMES: [&str; 7] = [
    "CreateTime",
    "DeleteRecords",
    "DuckDB",
    "KafkaMicroBatchStream.delayBatch",
    "LogAppendTime",
    "MurmurHash2",
    "PySpark's",
];
/// Phrases that read like a translation.
const PHRASES: [&str; 9] = [
    "goes on",
    "go on with",
    "whoever",
    "in the making",
    "of no matter",
    "is told",
    "are told",
    "as it stands",
    "what is wrong with",
];

fn is_forbidden(sentence: &str) -> bool {
    let before = BEFORE.iter().find_map(|first| {
        let rest = sentence.strip_prefix(first)?.strip_prefix(' ')?;
        let word = rest.split(' ').next()?;
        Some(OPENINGS.iter().any(|each| each.to_lowercase() == word))
    });
    let word = sentence.split([' ', ',', ':']).next().unwrap_or_default();
    before == Some(true) || OPENINGS.contains(&word) || (is_type(word) && !NAMES.contains(&word))
}

/// Returns whether a word is written like the name of a type, which a renaming may have left in a sentence.
fn is_type(word: &str) -> bool {
    let is_hump = |pair: (char, char)| pair.0.is_lowercase() && pair.1.is_uppercase();
    let starts = word.chars().next().is_some_and(char::is_uppercase);
    starts && word.chars().zip(word.chars().skip(1)).any(is_hump)
}

/// First lines of doc comments, or of docstrings.
fn first_lines(text: &str, is_python: bool) -> Vec<&str> {
    let mut in_block = None;
    let mut found = Vec::new();
    for line in text.lines().map(str::trim_start) {
        if is_python {
            let line = line.strip_prefix('r').unwrap_or(line);
            found.extend(line.strip_prefix("\"\"\""));
            continue;
        }
        let marker = ["///", "//!"].into_iter().find(|m| line.starts_with(m));
        let docs = marker.map(|marker| line.trim_start_matches(marker).trim_start());
        found.extend(docs.filter(|_| marker != in_block));
        in_block = marker;
    }
    found
}

/// Lines of prose: comments, and in Python all lines, as docstrings have no marker.
fn prose(text: &str, is_python: bool) -> impl Iterator<Item = &str> {
    let lines = text.lines().map(str::trim_start);
    lines.filter(move |line| is_python || line.starts_with("//"))
}

/// Path, text, and whether it is Python.
fn sources() -> Vec<(String, String, bool)> {
    let mut found = Vec::new();
    for folder in ["src", "tests", "benches", "python"] {
        for suffix in [".rs", ".py", ".pyi"] {
            for file in files(&root().join(folder), suffix) {
                let is_built = file.components().any(|part| part.as_os_str() == "target");
                if file.ends_with("rust/prose.rs") || is_built {
                    continue;
                }
                let text = std::fs::read_to_string(&file).unwrap();
                let path = file.strip_prefix(root()).unwrap_or(Path::new(""));
                found.push((path.display().to_string(), text, suffix != ".rs"));
            }
        }
    }
    assert!(found.len() > 500, "{} files", found.len());
    found
}

#[test]
fn docs_begin_with_a_noun_or_a_verb() {
    let faults: Vec<String> = sources()
        .iter()
        .flat_map(|(path, text, is_python)| {
            let lines = first_lines(text, *is_python);
            let lines = lines.into_iter().filter(|line| is_forbidden(line));
            lines.map(move |line| format!("{path}: {line}"))
        })
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_phrase_is_translated() {
    let mut faults = Vec::new();
    for (path, text, is_python) in sources() {
        for line in prose(&text, is_python) {
            let lower = line.to_lowercase();
            faults.extend(
                PHRASES
                    .iter()
                    .filter(|phrase| lower.contains(**phrase))
                    .map(|phrase| format!("{path}: \"{phrase}\": {line}")),
            );
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn openings_are_seen() {
    for sentence in [
        "Whether it is open.",
        "What a scan returns.",
        "How many.",
        "Of which file.",
        "Up to where it is written.",
        "TextBuilder in the order of rows.",
    ] {
        assert!(is_forbidden(sentence), "{sentence}");
    }
    for sentence in [
        "Whole batches.",
        "Returns whether it is open.",
        "Of a file.",
        "LogAppendTime: every record has the batch's.",
        "`TextBuilder` of rows.",
    ] {
        assert!(!is_forbidden(sentence), "{sentence}");
    }
    let rust = "//! A head.\n//! More.\n\n/// First.\n/// Second.\nfn f() {}\n    /// Third.\n";
    assert_eq!(first_lines(rust, false), ["A head.", "First.", "Third."]);
    let python = "\"\"\"A head.\n\nMore.\n\"\"\"\n    r\"\"\"Second.\"\"\"\n";
    assert_eq!(first_lines(python, true), ["A head.", "", "Second.\"\"\""]);
}
