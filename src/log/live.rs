//! Questions to a log whose files a broker exchanges meanwhile.
//!
//! A [`PartitionLog`] knows the files that were there when it was opened. A cleaner may have put one segment in place of
//! several since, retention may have removed some: then a question to the old ones fails for no fault of the data, and
//! is put to the folder as it is now.

use crate::error::Result;
use crate::log::partition::PartitionLog;
use crate::types::Offset;

/// How often the folder may have changed again before its error is believed.
const RELISTINGS: usize = 8;

impl PartitionLog {
    /// The answer of this log, or where that is an error and the closed segments are others by now, of the folder as it
    /// is.
    ///
    /// # Errors
    /// The question's own, once the folder is as it was when it was asked; `Io` where the folder is gone.
    pub fn ask<T>(&self, question: impl Fn(&Self) -> Result<T>) -> Result<T> {
        let mut answer = question(self);
        let mut asked = self.closed();
        for _ in 0..RELISTINGS {
            if !matches!(&answer, Err(error) if error.is_of_the_files()) {
                break;
            }
            let now = Self::open(self.path())?;
            let closed = now.closed();
            if closed == asked {
                break;
            }
            answer = question(&now);
            asked = closed;
        }
        answer
    }

    /// What tells one listing of the segments from another; the active one always grows.
    fn closed(&self) -> Vec<(Offset, u64)> {
        let segments = self
            .segments()
            .iter()
            .map(|s| (s.base_offset, if s.is_active { 0 } else { s.size }));
        segments.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::cell::Cell;

    fn folder() -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("t-0");
        std::fs::create_dir(&folder).unwrap();
        for base in [0, 5, 9] {
            std::fs::write(folder.join(format!("{base:020}.log")), b"").unwrap();
        }
        dir
    }

    #[test]
    fn a_changed_folder_is_asked_again_and_an_unchanged_one_is_believed() {
        let dir = folder();
        let log = PartitionLog::open(&dir.path().join("t-0")).unwrap();
        let asked = Cell::new(0);
        let bases = |log: &PartitionLog| -> Result<Vec<Offset>> {
            asked.set(asked.get() + 1);
            for segment in log.segments() {
                let path = log.path().join(&segment.file_name);
                std::fs::metadata(&path).map_err(Error::io(&path))?;
            }
            Ok(log.segments().iter().map(|s| s.base_offset).collect())
        };
        std::fs::remove_file(log.path().join(format!("{:020}.log", 5))).unwrap();
        assert_eq!(log.ask(bases).unwrap(), [0, 9]);
        assert_eq!(asked.replace(0), 2);
        let fails = |_: &PartitionLog| -> Result<()> {
            asked.set(asked.get() + 1);
            Err(Error::corrupt("crc", 0, 1, 2))
        };
        assert!(matches!(
            PartitionLog::open(log.path()).unwrap().ask(fails),
            Err(Error::CorruptRecord(_))
        ));
        assert_eq!(asked.get(), 1);
    }
}
