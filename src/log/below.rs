//! Suggestions for a directory that is not a log dir: one above a log dir, as when an image or a chart puts the log dir
//! one or two levels down, or Redpanda's data.

use crate::io::storage::Folder;

/// Depth of the search.
const LEVELS: usize = 4;
/// Number of folders that are searched.
const MOST_FOLDERS: usize = 500;
/// Number of log dirs that are named.
const MOST_NAMES: usize = 3;

/// A sentence that continues about the directory after a semicolon; empty if nothing is known of it.
pub(super) fn hint(start: &Folder, is_log_dir: impl Fn(&Folder) -> bool) -> String {
    let mut found = Vec::new();
    let mut level = vec![start.clone()];
    let mut seen = 0usize;
    for _ in 0..=LEVELS {
        let mut next = Vec::new();
        for folder in level {
            seen = seen.saturating_add(1);
            if seen > MOST_FOLDERS {
                break;
            }
            let (folders, is_redpanda) = look_at(&folder);
            if is_redpanda {
                return format!(
                    "; {} is Redpanda's, whose files have another format",
                    folder.path().display()
                );
            }
            if folder != *start && is_log_dir(&folder) {
                found.push(folder);
            } else {
                next.extend(folders);
            }
        }
        level = next;
    }
    named(&found)
}

fn named(found: &[Folder]) -> String {
    let names = found.iter().take(MOST_NAMES);
    let names: Vec<_> = names
        .map(|folder| folder.path().display().to_string())
        .collect();
    match found.len() {
        0 => String::new(),
        1 => format!("; {} is one", names.concat()),
        n if n <= MOST_NAMES => format!("; {} are", names.join(" and ")),
        n => format!(
            "; {} and {} more below it are",
            names.join(", "),
            n.saturating_sub(MOST_NAMES)
        ),
    }
}

/// The folders in a folder, without links, by name; and whether it holds segments of Redpanda's (`0-1-v1.log`: base offset,
/// term, format).
fn look_at(folder: &Folder) -> (Vec<Folder>, bool) {
    let mut folders = Vec::new();
    for entry in folder.entries().into_iter().flatten().flatten() {
        let Some(name) = entry.name() else { continue };
        if is_redpandas(name) {
            return (Vec::new(), true);
        }
        if !entry.is_link() && entry.is_folder() {
            folders.push(folder.folder(name));
        }
    }
    folders.sort_by(|a, b| a.path().cmp(b.path()));
    (folders, false)
}

fn is_redpandas(file_name: &str) -> bool {
    let Some(stem) = file_name.strip_suffix(".log") else {
        return false;
    };
    let parts: Vec<_> = stem.split('-').collect();
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    matches!(parts.as_slice(), [base, term, version]
        if is_number(base) && is_number(term) && version.strip_prefix('v').is_some_and(is_number))
}
