//! The fields of a column that are wanted, as a tree.

use arrow_schema::{DataType, FieldRef};

use std::collections::BTreeMap;

/// Fields of a decoded side that are wanted, each as the names that lead to it; all without any.
pub(crate) type Projection = Vec<Vec<String>>;

/// All of a column, or some of its fields, each again whole or in part.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum FieldTree {
    #[default]
    All,
    Some(BTreeMap<String, FieldTree>),
}

impl FieldTree {
    /// The tree of some paths, each the names that lead from the column to a field. No paths, or an empty one, stand for
    /// all.
    pub(crate) fn of(paths: &[Vec<String>]) -> Self {
        let mut tree = Self::Some(BTreeMap::new());
        for path in paths {
            tree.add(path);
        }
        if paths.is_empty() { Self::All } else { tree }
    }

    fn add(&mut self, path: &[String]) {
        match (self, path.split_first()) {
            (Self::All, _) => {}
            (tree, None) => *tree = Self::All,
            (Self::Some(fields), Some((name, rest))) => {
                let field = fields.entry(name.clone());
                field
                    .or_insert_with(|| Self::Some(BTreeMap::new()))
                    .add(rest);
            }
        }
    }

    /// The wanted part of a field; none if it is not wanted.
    pub(crate) fn field(&self, name: &str) -> Option<&Self> {
        match self {
            Self::All => Some(&Self::All),
            Self::Some(fields) => fields.get(name),
        }
    }
}

/// The names of fields that a path of words with dots between them leads to: a name may have dots itself, as that of a
/// union's branch, so that several may be meant. `there` becomes the fields among which a word was looked for last.
pub(super) fn names_in<'t>(
    of: &'t DataType,
    path: &[String],
    there: &mut &'t [FieldRef],
) -> Vec<Vec<String>> {
    // The items of lists and maps are wanted as a whole.
    if path.is_empty() || matches!(of, DataType::List(_) | DataType::Map(..)) {
        return vec![Vec::new()];
    }
    let fields: &[FieldRef] = match of {
        DataType::Struct(fields) => fields,
        _ => &[],
    };
    *there = fields;
    let mut found = Vec::new();
    for words in 1..=path.len() {
        let (name, rest) = path.split_at_checked(words).unwrap_or_default();
        let name = name.join(".");
        let Some(field) = fields.iter().find(|field| *field.name() == name) else {
            continue;
        };
        for mut names in names_in(field.data_type(), rest, there) {
            names.insert(0, name.clone());
            found.push(names);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::FieldTree;

    fn tree(paths: &[&[&str]]) -> FieldTree {
        let owned = paths
            .iter()
            .map(|path| path.iter().map(|&name| name.to_owned()).collect());
        FieldTree::of(&owned.collect::<Vec<_>>())
    }

    #[test]
    fn paths_become_a_tree() {
        let some = tree(&[&["a", "b"], &["a", "c"], &["d"]]);
        let a = some.field("a").unwrap();
        assert_eq!(a.field("b"), Some(&FieldTree::All));
        assert_eq!(a.field("c"), Some(&FieldTree::All));
        assert_eq!(a.field("x"), None);
        assert_eq!(some.field("d").unwrap().field("x"), Some(&FieldTree::All));
        assert_eq!(some.field("b"), None);
        assert_eq!(tree(&[]), FieldTree::All);
        assert_eq!(tree(&[&["a"], &[]]), FieldTree::All);
        assert_eq!(tree(&[&["a", "b"], &["a"]]), tree(&[&["a"]]));
        assert_eq!(tree(&[&["a"], &["a", "b"]]), tree(&[&["a"]]));
    }
}
