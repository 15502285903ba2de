//! Names: a type's name stands for one type.

use std::collections::BTreeMap;

use crate::common::{files, root};

/// The name of the type that a line at the top of a module defines.
fn defined(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("pub ").or_else(|| {
        let (_, rest) = line.strip_prefix("pub(")?.split_once(") ")?;
        Some(rest)
    });
    let rest = rest.unwrap_or(line);
    let kinds = ["struct ", "enum ", "trait ", "union ", "type "];
    let name = kinds.iter().find_map(|kind| rest.strip_prefix(kind))?;
    let end = name.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    Some(name.split_at(end.unwrap_or(name.len())).0)
}

#[test]
fn a_name_stands_for_one_type() {
    let mut places: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for path in files(&root().join("src"), "rs") {
        let short = path.strip_prefix(root()).unwrap().display().to_string();
        if short.contains("tests") {
            continue;
        }
        let text = std::fs::read_to_string(&path).unwrap();
        for name in text.lines().filter_map(defined) {
            places
                .entry(name.to_owned())
                .or_default()
                .push(short.clone());
        }
    }
    assert!(places.len() > 500, "{}", places.len());
    places.retain(|_, at| at.len() > 1);
    assert!(places.is_empty(), "{places:#?}");
}
