//! Selection of the files of a partition folder that make up the log (`LogLoader`).
//!
//! | file | counts |
//! |---|---|
//! | `N.log` | yes, unless a finished swap holds all of it |
//! | `N.log.swap` | where the cleaner or a split was done and only the renaming is missing ([`super::swaps`]) |
//! | any `.swap` at or above a `.cleaned` | no: that swap never finished, the originals are whole |
//! | `.cleaned`, `.deleted` | no |

use std::collections::{BTreeMap, BTreeSet};
use std::thread::sleep;
use std::time::Duration;

use super::swaps::{CountedLog, choose};
use crate::error::{Error, Result};
use crate::format::file_name::{FileKind, FileName, FileState};
use crate::io::storage::{FileStat, Folder, ReadFolder};
use crate::segment::LogSegment;
use crate::types::TimestampMs;

/// Number of times that a folder is listed again while the broker is exchanging segments in it.
const LISTINGS: usize = 5;
/// Number of listings for a caller who opens a file between two listings that must agree.
const MAX_ANSWERS: usize = 50;
/// Pause before the folder is listed again.
const PAUSE: Duration = Duration::from_millis(2);

/// The segment files of a folder by name; only logs have been examined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Listing {
    logs: BTreeMap<FileName, FileStat>,
    others: BTreeSet<FileName>,
}

impl Listing {
    fn read(folder: &dyn ReadFolder) -> Result<Self> {
        let mut found = Self::default();
        for entry in folder.entries()? {
            let entry = entry?;
            let Some(name) = entry.name().and_then(FileName::parse) else {
                continue;
            };
            if name.kind != FileKind::Log {
                found.others.insert(name);
            } else if let Some(stat) = entry.stat()? {
                // `LogLoader` looks at files only, whatever else has such a name.
                found.logs.insert(name, stat);
            }
        }
        Ok(found)
    }

    /// The answer to a question about the folder that was asked between two listings that agree, neither of them in the
    /// middle of an exchange: files opened by it and their neighbours belong together. An error that `is_gone` says to
    /// be of a file that is gone has the folder listed again.
    ///
    /// # Errors
    /// Those of the question; `Io` where the folder cannot be listed.
    pub(crate) fn with_fresh_listing<T>(
        folder: &dyn ReadFolder,
        is_gone: impl Fn(&Error) -> bool,
        question: impl Fn(&Self) -> Result<T>,
    ) -> Result<T> {
        let mut now = Self::read(folder)?;
        for _ in 0..MAX_ANSWERS {
            let answer = question(&now);
            let again = Self::read(folder)?;
            if again.agrees(&now) && !answer.as_ref().is_err_and(&is_gone) {
                return answer;
            }
            sleep(PAUSE);
            now = again;
        }
        question(&now)
    }

    /// The live `.log` files and their lengths, by base offset.
    pub(crate) fn live(&self) -> impl DoubleEndedIterator<Item = (FileName, u64)> {
        let logs = self.logs.iter();
        logs.filter(|(name, _)| name.state == FileState::Live)
            .map(|(&name, stat)| (name, stat.length))
    }

    /// Returns whether nothing was exchanged since an earlier listing, nor is about to be; the last segment may have
    /// grown.
    fn agrees(&self, before: &Self) -> bool {
        let is_settled = !self.logs.keys().any(|name| name.state == FileState::Swap);
        let last = |listing: &Self| listing.live().next_back().map(|(name, _)| name);
        let closed = |name: &FileName| Some(*name) != last(self);
        let mine = self.live().filter(|(name, _)| closed(name));
        let earlier = before.live().filter(|(name, _)| closed(name));
        is_settled && last(self) == last(before) && mine.eq(earlier)
    }

    /// Lists until nothing moves: a listing made while the cleaner renames may miss a file that is there.
    fn stable(folder: &dyn ReadFolder) -> Result<Self> {
        let mut found = Self::read(folder)?;
        for _ in 0..LISTINGS {
            if !found.moves() {
                break;
            }
            let again = Self::read(folder)?;
            let same = again.names().eq(found.names());
            found = again;
            if same {
                break;
            }
        }
        Ok(found)
    }

    /// Returns whether files are being added or removed, or an index stands without its log.
    fn moves(&self) -> bool {
        let log_of = |name: &FileName| FileName::new(name.offset, FileKind::Log);
        let orphan = |name: &FileName| {
            name.kind == FileKind::OffsetIndex && !self.logs.contains_key(&log_of(name))
        };
        self.names().any(|name| name.state != FileState::Live) || self.others.iter().any(orphan)
    }

    fn names(&self) -> impl Iterator<Item = &FileName> {
        self.logs.keys().chain(&self.others)
    }

    fn segment(
        &self,
        folder: &Folder,
        name: FileName,
        size: u64,
        modified_ms: TimestampMs,
    ) -> LogSegment {
        let mut segment = LogSegment::new(folder.clone(), name, size, modified_ms);
        let has = |kind| self.others.contains(&FileName { kind, ..name });
        segment.has_offset_index = has(FileKind::OffsetIndex);
        segment.has_time_index = has(FileKind::TimeIndex);
        segment
    }

    /// Does what the loader does with `.swap` and `.cleaned` files, without touching them, and without giving up a
    /// batch of a live log.
    fn load(&self, folder: &Folder) -> Result<Vec<LogSegment>> {
        let mut logs: Vec<CountedLog> = self.live().collect();
        if self.logs.keys().any(|name| name.state == FileState::Swap) {
            logs = choose(&**folder, &self.finished_swaps(), &logs)?;
        }
        let segment = |(name, size): CountedLog| {
            let modified_ms = self.logs.get(&name)?.modified_ms;
            Some(self.segment(folder, name, size, modified_ms))
        };
        let mut segments: Vec<LogSegment> = logs.into_iter().filter_map(segment).collect();
        link(&mut segments);
        Ok(segments)
    }

    /// Those below all that is half written.
    fn finished_swaps(&self) -> Vec<CountedLog> {
        let cleaned = self.names().filter(|name| name.state == FileState::Cleaned);
        let unfinished = cleaned.map(|name| name.offset).min();
        let is_finished = |name: &FileName| unfinished.is_none_or(|offset| name.offset < offset);
        let swaps = self.logs.iter();
        swaps
            .filter(|(name, _)| name.state == FileState::Swap && is_finished(name))
            .map(|(&name, stat)| (name, stat.length))
            .collect()
    }
}

/// Tells every segment of its neighbour, and the last one that it is the last.
pub(super) fn link(segments: &mut [LogSegment]) {
    let mut next = None;
    for segment in segments.iter_mut().rev() {
        segment.is_active = next.is_none();
        segment.next_base_offset = next;
        next = Some(segment.base_offset);
    }
}

/// The segments of a partition folder, in order.
pub(super) fn segments(folder: &Folder) -> Result<Vec<LogSegment>> {
    Listing::stable(&**folder)?.load(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn names(files: &[&str]) -> Vec<(String, bool)> {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            fs::write(folder.path().join(file), "").unwrap();
        }
        segments(&Folder::at(folder.path()))
            .unwrap()
            .into_iter()
            .map(|s| (s.file_name, s.has_offset_index))
            .collect()
    }

    #[test]
    fn only_live_files_count() {
        let n = |offset: u32, suffix: &str| format!("{offset:020}.{suffix}");
        assert_eq!(
            names(&[
                &n(0, "log"),
                &n(0, "index"),
                &n(7, "log"),
                &n(9, "log.deleted"),
                &n(3, "index"),
                "24.log",
                "x.log"
            ]),
            [(n(0, "log"), true), (n(7, "log"), false)]
        );
        // Empty ones hold nothing of what they would replace.
        assert_eq!(
            names(&[&n(0, "log"), &n(0, "log.swap"), &n(0, "index.swap")]),
            [(n(0, "log"), false)]
        );
        // Half a split: the swap at or above a `.cleaned` never finished.
        assert_eq!(
            names(&[&n(0, "log"), &n(5, "log.swap"), &n(5, "log.cleaned")]),
            [(n(0, "log"), false)]
        );
        assert_eq!(
            names(&[&n(0, "log"), &n(5, "log.swap"), &n(9, "index.cleaned")]),
            [(n(0, "log"), false)]
        );
    }
}
