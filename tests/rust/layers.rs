//! The walls: imports point down only, siblings do not import each other, pyo3 and pyspark stay where they belong.

use crate::common::{files, root};

/// Lowest first; modules of one line are siblings.
const LAYERS: [&[&str]; 9] = [
    &["types"],
    &["error"],
    &["io", "compress", "format"],
    &["index", "records"],
    &["segment"],
    &["log"],
    &["arrow"],
    &["tables", "care"],
    &["python"],
];

fn rank(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| layer.contains(&module))
}

/// Code without its `//` comments.
fn code(text: &str) -> String {
    let lines = text
        .lines()
        .map(|line| line.find("//").map_or(line, |at| line.split_at(at).0));
    lines.collect::<Vec<_>>().join("\n")
}

/// The modules named right behind every `crate::` of `code`, those of a group too.
fn imports(code: &str) -> Vec<String> {
    let name = |text: &str| -> String {
        text.trim_start()
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect()
    };
    let mut found = Vec::new();
    for (at, _) in code.match_indices("crate::") {
        let rest = code.split_at(at + 7).1;
        let Some(group) = rest.strip_prefix('{') else {
            found.push(name(rest));
            continue;
        };
        let mut depth = 0;
        let mut begins = true;
        for (at, c) in group.char_indices() {
            if begins && !c.is_whitespace() {
                found.push(name(group.split_at(at).1));
                begins = false;
            }
            match c {
                '{' => depth += 1,
                '}' if depth == 0 => break,
                '}' => depth -= 1,
                ',' if depth == 0 => begins = true,
                _ => {}
            }
        }
    }
    found.retain(|name| !name.is_empty());
    found
}

/// What is wrong with `src/<path>`.
fn faults(path: &str, text: &str) -> Vec<String> {
    let code = code(text);
    let own = path.split(['/', '.']).next().unwrap();
    let mut faults = Vec::new();
    if own != "lib" {
        let Some(mine) = rank(own) else {
            return vec![format!("{path}: {own} is in no layer")];
        };
        for module in imports(&code) {
            match rank(&module) {
                Some(its) if its < mine || module == own => {}
                Some(_) => faults.push(format!("{path}: {own} imports {module}")),
                None => faults.push(format!("{path}: crate::{module} is in no layer")),
            }
        }
        // A `super` that climbs out of the module would hide an import.
        let depth = path.trim_end_matches("/mod.rs").split('/').count();
        let climbs = "super::".repeat(depth);
        let outside = code.lines().filter(|line| !line.starts_with(' '));
        if outside.into_iter().any(|line| line.contains(&climbs)) {
            faults.push(format!(
                "{path}: {climbs} leaves {own}; say crate:: instead"
            ));
        }
    }
    if own != "python" && code.contains("pyo3") {
        faults.push(format!("{path}: pyo3 outside src/python"));
    }
    faults
}

/// Imports of pyspark that run when the module is imported.
fn eager_pyspark(path: &str, text: &str) -> Vec<String> {
    let home = ["kafkalog/spark/", "pyspark_kafkalog/"]
        .iter()
        .any(|home| path.starts_with(home));
    let eager =
        |line: &&str| line.starts_with("import pyspark") || line.starts_with("from pyspark");
    let lines = text.lines().filter(eager).filter(|_| !home);
    lines.map(|line| format!("{path}: {line}")).collect()
}

fn check(folder: &str, suffix: &str, fault: fn(&str, &str) -> Vec<String>) {
    let folder = root().join(folder);
    let mut faults = Vec::new();
    let files = files(&folder, suffix);
    assert!(
        files.len() > 10,
        "{} has {} files",
        folder.display(),
        files.len()
    );
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        let path = file
            .strip_prefix(&folder)
            .unwrap()
            .to_string_lossy()
            .replace('\\', "/");
        faults.extend(fault(&path, &text));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn imports_point_down() {
    check("src", ".rs", faults);
}

#[test]
fn pyspark_is_imported_late() {
    check("python", ".py", eager_pyspark);
}

#[test]
fn the_wall_stands() {
    assert_eq!(imports("use crate::a::{b, c};"), ["a"]);
    assert_eq!(
        imports("use crate::{a, b::{c, d}, e};\ncrate::f::g()"),
        ["a", "b", "e", "f"]
    );
    let ok = [
        (
            "records/plain.rs",
            "use crate::format::batch;\nuse crate::records::block;\nuse super::block;",
        ),
        ("format/mod.rs", "//! see [`crate::arrow`]"),
        ("io/mapping.rs", "mod tests {\n    use super::*;\n}"),
        ("format/batch/tests.rs", "use super::super::varint;"),
        ("python/mod.rs", "use pyo3::prelude::*;\nuse crate::arrow;"),
    ];
    for (path, text) in ok {
        assert_eq!(faults(path, text), [""; 0], "{path}");
    }
    let wrong = [
        ("format/batch.rs", "use crate::records::RecordSlot;"),
        ("format/batch.rs", "use crate::io::mapping;"),
        ("index/offset.rs", "fn f() -> crate::records::RecordSlot {}"),
        ("types.rs", "use crate::error::Error;"),
        ("log/dir.rs", "use crate::{error::Error, arrow::{a, b}};"),
        ("format/batch.rs", "use super::super::records;"),
        ("format/mod.rs", "use super::records;"),
        ("arrow/schema.rs", "use pyo3::prelude::*;"),
        ("fancy/mod.rs", ""),
    ];
    for (path, text) in wrong {
        assert_eq!(faults(path, text).len(), 1, "{path}: {text}");
    }
    assert_eq!(eager_pyspark("kafkalog/log.py", "import pyspark").len(), 1);
    assert_eq!(
        eager_pyspark("kafkalog/log.py", "def f():\n    import pyspark").len(),
        0
    );
    assert_eq!(
        eager_pyspark("kafkalog/spark/batch.py", "import pyspark").len(),
        0
    );
}
