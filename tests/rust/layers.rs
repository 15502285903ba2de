//! The walls: imports point down only, siblings do not import each other, no files in a circle, the bindings import the
//! API alone, pyo3 and pyspark stay where they belong.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::{files, root};

/// Lowest first; modules of one line are siblings.
const LAYERS: [&[&str]; 17] = [
    &["types"],
    &["error"],
    &["format"],
    &["io", "compress"],
    &["chunks", "index", "records"],
    &["segment"],
    &["producers"],
    &["log"],
    &["load", "scan"],
    &["write"],
    &["values"],
    &["arrow"],
    &["tables"],
    &["tools"],
    &["api"],
    &["internal"],
    &["python"],
];

/// Modules that the bindings may import besides their own.
const OPEN_TO_PYTHON: [&str; 3] = ["api", "error", "types"];

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

/// Puts the paths of a use tree behind `base` (`b::{c, d::E}` is two), and returns what follows the tree.
fn expand<'a>(base: &[String], text: &'a str, found: &mut Vec<Vec<String>>) -> &'a str {
    let text = text.trim_start();
    if let Some(mut items) = text.strip_prefix('{') {
        loop {
            // A star remains after an item, or `as` and another name.
            let rest = expand(base, items, found).trim_start_matches(|c| !",}".contains(c));
            match rest.strip_prefix(',') {
                Some(next) => items = next,
                None => return rest.strip_prefix('}').unwrap_or_default(),
            }
        }
    }
    let end = text.find(|c: char| !(c.is_alphanumeric() || c == '_'));
    let (name, rest) = text.split_at(end.unwrap_or(text.len()));
    let mut path = base.to_vec();
    path.extend((!name.is_empty()).then(|| name.to_owned()));
    if let Some(deeper) = rest.strip_prefix("::").filter(|_| !name.is_empty()) {
        return expand(&path, deeper, found);
    }
    found.push(path);
    rest
}

/// The modules named right after every `crate::` of `code`, those of a group too.
fn imports(code: &str) -> Vec<String> {
    let mut found = Vec::new();
    for (at, root) in code.match_indices("crate::") {
        expand(&[], code.split_at(at + root.len()).1, &mut found);
    }
    let first = found.into_iter().filter_map(|path| path.into_iter().next());
    let mut modules: Vec<String> = first.collect();
    modules.dedup();
    modules
}

/// Finds the faults of `src/<path>`.
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
                Some(_) if module == own => {}
                Some(_) if own == "python" && !OPEN_TO_PYTHON.contains(&&*module) => {
                    faults.push(format!("{path}: python imports {module}, not api"));
                }
                Some(its) if its < mine => {}
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
    for module in LAYERS.concat() {
        let folder = root().join("src").join(module);
        let is_there = folder.is_dir() || folder.with_extension("rs").is_file();
        assert!(is_there, "{module} is a layer of nothing");
    }
}

#[test]
fn pyspark_is_imported_late() {
    check("python", ".py", eager_pyspark);
}

/// The files that may hold `unsafe`: the lint `unsafe_code` denies it where no attribute expects it.
const HOMES_OF_UNSAFE: [&str; 8] = [
    "arrow/payload.rs",
    "arrow/views.rs",
    "compress/gzip/whole.rs",
    "compress/lz4/block.rs",
    "io/index_file/view.rs",
    "io/mapping.rs",
    "io/unaligned.rs",
    "python/capsule.rs",
];

#[test]
fn unsafe_has_few_homes() {
    let folder = root().join("src");
    let mut homes = Vec::new();
    for file in files(&folder, ".rs") {
        if std::fs::read_to_string(&file)
            .unwrap()
            .contains("unsafe_code")
        {
            homes.push(file.strip_prefix(&folder).unwrap().to_owned());
        }
    }
    homes.sort();
    assert_eq!(homes, HOMES_OF_UNSAFE.map(std::path::PathBuf::from));
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
        (
            "python/mod.rs",
            "use pyo3::prelude::*;\nuse crate::{api::scan, error::Error, python::log, types};",
        ),
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
        ("python/log.rs", "use crate::{api::scan, log::dir};"),
        ("python/mod.rs", "fn f() { crate::tools::dump::dump() }"),
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

/// A file's path as that of a module below `crate`.
fn module_of(path: &str) -> Vec<String> {
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_owned).collect()
}

/// Names in the code of `module`, by `crate::`, `self::` and `super::`, without its inline tests.
fn named(module: &[String], text: &str) -> Vec<Vec<String>> {
    let code = code(text);
    let code = code.split("#[cfg(test)]\nmod tests {").next().unwrap();
    let mut found = Vec::new();
    for (root, up) in [("crate::", module.len()), ("self::", 0), ("super::", 1)] {
        for (at, _) in code.match_indices(root) {
            let (before, tree) = code.split_at(at);
            let mut tree = tree.split_at(root.len()).1;
            if before.ends_with("super::")
                || before.ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                continue;
            }
            let mut base = module[..module.len() - up.min(module.len())].to_vec();
            while let Some(further) = tree.strip_prefix("super::") {
                base.pop();
                tree = further;
            }
            expand(&base, tree, &mut found);
        }
    }
    found
}

/// Files that name each other in a circle, and those between two circles: one line for each, with whom it names there.
fn circles(sources: &BTreeMap<Vec<String>, String>) -> Vec<String> {
    let mut edges: BTreeMap<&[String], BTreeSet<&[String]>> = BTreeMap::new();
    for (module, text) in sources {
        let others = named(module, text).into_iter().filter_map(|path| {
            let mut lengths = (1..=path.len()).rev();
            let (file, _) = lengths.find_map(|n| sources.get_key_value(&path[..n]))?;
            // What lies in a module may use what the module itself has, and it gives on what lies in it.
            (!module.starts_with(file)).then_some(file.as_slice())
        });
        edges.insert(module, others.collect());
    }
    // Who names none of those left is in no circle, nor is whom none of them names.
    loop {
        let left: BTreeSet<_> = edges.keys().copied().collect();
        let targets: BTreeSet<_> = edges.values().flatten().copied().collect();
        edges.retain(|file, others| {
            others.retain(|other| left.contains(other));
            !others.is_empty() && targets.contains(file)
        });
        if edges.len() == left.len() {
            break;
        }
    }
    let line = |(file, others): (&&[String], &BTreeSet<&[String]>)| {
        let others: Vec<_> = others.iter().map(|other| other.join("::")).collect();
        format!("{} -> {}", file.join("::"), others.join(", "))
    };
    edges.iter().map(line).collect()
}

#[test]
fn files_import_one_way() {
    let folder = root().join("src");
    let sources: BTreeMap<_, _> = files(&folder, ".rs")
        .into_iter()
        .map(|file| {
            let path = file.strip_prefix(&folder).unwrap().to_string_lossy();
            let module = module_of(&path.replace('\\', "/"));
            (module, std::fs::read_to_string(&file).unwrap())
        })
        .filter(|(module, _)| !module.iter().any(|name| name == "tests"))
        .collect();
    assert!(sources.len() > 100, "{} files", sources.len());
    assert_eq!(circles(&sources), [""; 0]);
}

#[test]
fn a_circle_is_seen() {
    let seen = |files: &[(&str, &str)]| {
        let sources = files.iter();
        circles(
            &sources
                .map(|(path, text)| (module_of(path), (*text).to_owned()))
                .collect(),
        )
    };
    let mut files = [
        ("log/mod.rs", "pub mod a;\npub use self::a::A;"),
        (
            "log/a.rs",
            "use super::B;\nuse crate::log::b::{self, C, c::*};\nuse super::d::D;",
        ),
        ("log/b.rs", "// super::a\nuse crate::io::a::A;"),
        ("io/a.rs", ""),
        ("log/d.rs", ""),
    ];
    let open = [
        "use super::{b::{B as C, c::*}, E};",
        "use crate::io::a::f;\n#[cfg(test)]\nmod tests {\n    use crate::log::a::A;\n}",
    ];
    for text in open {
        files[4].1 = text;
        assert_eq!(seen(&files), [""; 0], "{text}");
    }
    let closed = [
        "use super::{b::{B as C, c::*}, a};",
        "use crate::log::{E, a::{self, A}};",
        "fn f() -> super::super::log::a::A {}",
        "fn f() { super::a::A::<u8>::new() }",
    ];
    for text in closed {
        files[4].1 = text;
        assert_eq!(
            seen(&files),
            ["log::a -> log::d", "log::d -> log::a"],
            "{text}"
        );
    }
}
