//! One file to be dumped, by the names `java.io.File` would give it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::io::folder::open_file;
use crate::io::objects::mount::is_mounted;
use crate::io::storage::ReadFile;
use crate::segment::source::{Access, SegmentSource};
use crate::types::Offset;

/// A file named on the command line.
#[derive(Debug)]
pub(super) struct DumpTarget {
    /// As it was named, without doubled or trailing slashes (`File.toString`).
    pub(super) shown: String,
    /// The last part (`File.getName`).
    pub(super) name: String,
    /// From the root (`File.getAbsolutePath`).
    pub(super) absolute: String,
    /// To open it by.
    pub(super) path: PathBuf,
}

impl DumpTarget {
    pub(super) fn new(path: &Path) -> Self {
        let text = path.to_string_lossy();
        if is_mounted(path) {
            let name = text.rsplit('/').next().unwrap_or_default().to_owned();
            return Self {
                shown: text.to_string(),
                name,
                absolute: text.into_owned(),
                path: path.to_path_buf(),
            };
        }
        let mut shown = String::with_capacity(text.len());
        for part in text.split('/').filter(|part| !part.is_empty()) {
            if !shown.is_empty() || text.starts_with('/') {
                shown.push('/');
            }
            shown.push_str(part);
        }
        if shown.is_empty() && text.starts_with('/') {
            shown.push('/');
        }
        let name = shown.rsplit('/').next().unwrap_or_default().to_owned();
        let absolute = match std::env::current_dir() {
            Ok(folder) if !shown.starts_with('/') => {
                format!("{}/{shown}", folder.display())
            }
            _ => shown.clone(),
        };
        Self {
            shown,
            name,
            absolute,
            path: path.to_path_buf(),
        }
    }

    /// The same file, told of by another name.
    pub(super) fn shown_as(self, shown: &Path) -> Self {
        let Self {
            shown, absolute, ..
        } = Self::new(shown);
        Self {
            shown,
            absolute,
            ..self
        }
    }

    /// The last suffix, dot included, if there is a dot.
    pub(super) fn suffix(&self) -> Option<&str> {
        self.name.get(self.name.rfind('.')?..)
    }

    /// The number before the first dot.
    ///
    /// # Errors
    /// `InvalidArgument` where it is none.
    pub(super) fn base_offset(&self) -> Result<Offset> {
        let stem = self.name.split('.').next().unwrap_or_default();
        stem.parse().map_err(|_| {
            Error::InvalidArgument(format!(
                "{}: file name: expected a base offset before the first dot, found {stem:?}",
                self.shown
            ))
        })
    }

    /// The file beside it with the same base offset and this suffix.
    pub(super) fn sibling(&self, suffix: &str) -> PathBuf {
        let stem = self.name.split('.').next().unwrap_or_default();
        self.path.with_file_name(format!("{stem}{suffix}"))
    }

    /// Opens the file beside it with this suffix, without which an index cannot be read.
    ///
    /// # Errors
    /// `CorruptIndex` where there is none: the index was renamed or copied alone; `Io`.
    pub(super) fn open_beside(&self, suffix: &str, access: Access) -> Result<SegmentSource> {
        let path = self.sibling(suffix);
        match open(&path, access) {
            Err(Error::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                let expected = format!("{} beside the index", path.display());
                Err(Error::corrupt_index("file name", 0, expected, "no such file").at(&self.path))
            }
            opened => opened,
        }
    }
}

/// An open file, as long as it was then.
#[derive(Debug)]
pub(super) struct OpenFile {
    file: Arc<dyn ReadFile>,
    pub(super) size: u64,
}

/// Opens a file to read it as it is now.
///
/// # Errors
/// As [`OpenFile::open`] and [`OpenFile::read`].
pub(super) fn open(path: &Path, access: Access) -> Result<SegmentSource> {
    OpenFile::open(path)?.read(access)
}

impl OpenFile {
    /// Opens it.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let (file, size) = open_file(path)?;
        Ok(Self { file, size })
    }

    /// A reader of its own, which reads by copy: the file may belong to a running broker.
    ///
    /// # Errors
    /// `CorruptRecord` for a file longer than Kafka's positions reach.
    pub(super) fn read(&self, access: Access) -> Result<SegmentSource> {
        let file = match self.file.disk_file() {
            Some(_) => Arc::clone(&self.file),
            // An open object reads ahead for one reader.
            None => open_file(self.file.path())?.0,
        };
        SegmentSource::over(file, self.size, access)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_as_java_io_file_gives_them() {
        let target = DumpTarget::new(Path::new("//a//t-0/00000000000000000042.log/"));
        assert_eq!(target.shown, "/a/t-0/00000000000000000042.log");
        assert_eq!(target.absolute, target.shown);
        assert_eq!(target.name, "00000000000000000042.log");
        assert_eq!(target.suffix(), Some(".log"));
        assert_eq!(target.base_offset().unwrap(), 42);
        assert!(
            target
                .sibling(".index")
                .ends_with("t-0/00000000000000000042.index")
        );
        let bare = DumpTarget::new(Path::new("x.5.index"));
        assert!(bare.absolute.ends_with("/x.5.index") && bare.absolute.starts_with('/'));
        assert_eq!(bare.suffix(), Some(".index"));
        assert!(bare.base_offset().is_err());
        assert_eq!(
            DumpTarget::new(Path::new("leader-epoch-checkpoint")).suffix(),
            None
        );
        assert_eq!(DumpTarget::new(Path::new("")).shown, "");
    }
}
