//! Decides whether a segment is closed, and so may be mapped.

use std::path::Path;

use crate::format::file_name::{FileKind, FileName, FileState, is_metadata_snapshot};
use crate::types::Offset;

/// Returns whether no writer appends to a `.log` file any more, as its folder shows: a live one has the next segment
/// beside it, whose file Kafka makes when it rolls (`LocalLog.roll`); a deleted or swapped one was closed before it got
/// that name; a snapshot of the metadata log gets its name when it is whole (`FileRawSnapshotWriter.freeze`).
///
/// A plan's word is not enough for a map: plans come from other processes too, and may be old.
pub(crate) fn is_closed(folder: &Path, file_name: &str, next: Option<Offset>) -> bool {
    match FileName::parse(file_name) {
        Some(name) => match (name.kind, name.state) {
            (FileKind::Log, FileState::Live) => next.is_some_and(|next| {
                let next_name = FileName::new(next, FileKind::Log).to_string();
                next > name.offset && folder.join(next_name).exists()
            }),
            (FileKind::Log, FileState::Deleted | FileState::Swap) => true,
            _ => false,
        },
        None => is_metadata_snapshot(file_name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file is mapped only where its folder bears out that it is closed, whatever a plan says.
    #[test]
    fn a_live_log_is_closed_once_the_next_one_exists() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = [0, 7].map(|base| format!("{base:020}.log"));
        let closed = |name: &str, next| is_closed(folder.path(), name, next);
        std::fs::write(folder.path().join(&first), b"").unwrap();
        assert!(!closed(&first, None) && !closed(&first, Some(7)));
        std::fs::write(folder.path().join(&second), b"").unwrap();
        assert!(closed(&first, Some(7)) && !closed(&first, Some(8)));
        assert!(!closed(&second, Some(0)) && !closed(&second, Some(7)) && !closed(&second, None));
        for (suffix, expected) in [(".deleted", true), (".swap", true), (".cleaned", false)] {
            assert_eq!(closed(&format!("{first}{suffix}"), None), expected);
        }
        assert!(closed("00000000000000000012-0000000003.checkpoint", None));
        assert!(!closed(
            "00000000000000000012-0000000003.checkpoint.part",
            None
        ));
        assert!(!closed("00000000000000000000.index", None) && !closed("a", Some(7)));
    }
}
