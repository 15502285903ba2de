//! The rule for the place of a result: never where a broker, or a reader of logs, looks for logs.
//!
//! | the output lies in | a partition by its right name | anything else |
//! |---|---|---|
//! | the log dir of a source | refused | refused |
//! | a partition folder | refused | refused |
//! | another log dir, directly | allowed if new | refused |
//! | another log dir, deeper | refused | refused |
//! | elsewhere | allowed | allowed |
//!
//! Links and `..` are resolved first, as far as the path exists. A log dir that is opened for writing
//! ([`check_log_dir`]) may be one already, but does not lie in another one.

use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use super::dir::{LogDir, holds_partition_files, is_of_log_dir, is_of_partition};
use crate::error::{Error, Result};
use crate::format::file_name::FolderName;
use crate::io::storage::Folder;

/// The note in an output that is not finished: a broker ignores it, and the next run with the same source starts over.
pub(crate) const UNFINISHED: &str = ".kafkalog-unfinished";

/// Role of a directory for a broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OutputKind {
    LogDir,
    Partition,
    Other,
}

impl OutputKind {
    /// A directory that cannot be listed, or does not exist, is neither.
    fn of(path: &Path) -> Self {
        if path.join(UNFINISHED).exists() {
            return Self::Other;
        }
        let (mut is_partition, mut partitions) = (false, 0usize);
        for entry in fs::read_dir(path).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let Some(name) = name.to_str() else { continue };
            if is_of_log_dir(name) {
                return Self::LogDir;
            }
            is_partition |= is_of_partition(name);
            if FolderName::parse(name).is_some()
                && entry.path().is_dir()
                && holds_partition_files(&*Folder::at(entry.path()))
            {
                partitions = partitions.saturating_add(1);
            }
        }
        match (is_partition, partitions) {
            (true, _) => Self::Partition,
            // One alone may be a copy beside anything else.
            (false, 0 | 1) => Self::Other,
            (false, _) => Self::LogDir,
        }
    }
}

/// The path without links and dots. Of components that do not exist, `..` removes the one before it.
///
/// # Errors
/// `Io` where a directory on the way cannot be examined.
pub(crate) fn resolve(path: &Path) -> io::Result<PathBuf> {
    let mut real = PathBuf::new();
    for component in std::path::absolute(path)?.components() {
        match component {
            Component::ParentDir => {
                real.pop();
            }
            _ => real.push(component),
        }
        match real.canonicalize() {
            Ok(there) => real = there,
            Err(e) if e.kind() == io::ErrorKind::NotFound => {}
            Err(e) => return Err(e),
        }
    }
    Ok(real)
}

/// The directory in which a broker would find this source: the log dir around a partition folder or a file in one; the
/// folder itself where there is none.
fn log_dir_of(source: &Path) -> Result<PathBuf> {
    let real = source.canonicalize().map_err(Error::io(source))?;
    let folder = if real.is_dir() {
        real.as_path()
    } else {
        real.parent().unwrap_or(&real)
    };
    let above = folder.parent().filter(|above| {
        OutputKind::of(folder) == OutputKind::Partition
            && OutputKind::of(above) == OutputKind::LogDir
    });
    Ok(above.unwrap_or(folder).to_path_buf())
}

fn refused(out: &Path, where_it_lies: &str, dir: &Path) -> Error {
    Error::InvalidArgument(format!(
        "{}: the output would lie in {where_it_lies} {}, where a broker looks for logs; choose a path outside of it",
        out.display(),
        dir.display()
    ))
}

/// Refuses an output among logs. `partition` is the folder name that the output must have to lie in another log dir.
///
/// # Errors
/// `InvalidArgument` for an output that is refused; `Io` where a source does not exist or a directory cannot be looked
/// at.
pub(crate) fn check_output<S: AsRef<Path>>(
    out: &Path,
    sources: impl IntoIterator<Item = S>,
    partition: Option<&str>,
) -> Result<()> {
    let real = resolve(out).map_err(Error::io(out))?;
    for source in sources {
        let log_dir = log_dir_of(source.as_ref())?;
        if real.starts_with(&log_dir) {
            return Err(refused(out, "the source's folder", &log_dir));
        }
    }
    let is_named_right =
        partition.is_some_and(|name| real.file_name().is_some_and(|last| last == name));
    for dir in real.ancestors() {
        match OutputKind::of(dir) {
            OutputKind::Other => {}
            OutputKind::LogDir if is_named_right && real.parent() == Some(dir) => {}
            OutputKind::LogDir => return Err(refused(out, "the log dir", dir)),
            OutputKind::Partition => return Err(refused(out, "the partition folder", dir)),
        }
    }
    Ok(())
}

/// Refuses a log dir to be written that lies in another log dir, or in a partition folder: a broker that finds a folder
/// with such a name in its log dir does not start (`LogManager.loadLogs`). So is a partition folder itself.
///
/// # Errors
/// `InvalidArgument`; `Io` where a directory on the way cannot be examined.
pub(crate) fn check_log_dir(log_dir: &Path) -> Result<()> {
    if log_dir.is_dir() {
        LogDir::check(log_dir)?;
    }
    let real = resolve(log_dir).map_err(Error::io(log_dir))?;
    for dir in real.ancestors().skip(1) {
        match OutputKind::of(dir) {
            OutputKind::Other => {}
            OutputKind::LogDir => return Err(refused(log_dir, "the log dir", dir)),
            OutputKind::Partition => return Err(refused(log_dir, "the partition folder", dir)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::dir::META_PROPERTIES;
    use super::*;

    /// A log dir `L`, another `M`, a folder with a copied partition, and a plain folder.
    fn dirs() -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for partition in ["L/t-0", "L/t-1", "M/u-0", "M/u-1", "copy/t-0"] {
            let folder = root.path().join(partition);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!("{:020}.log", 0)), b"").unwrap();
        }
        fs::write(root.path().join("L").join(META_PROPERTIES), b"").unwrap();
        fs::create_dir(root.path().join("plain")).unwrap();
        // The name of a partition, and nothing of one in it.
        fs::create_dir(root.path().join("plain/pytest-0")).unwrap();
        root
    }

    fn is_refused(root: &Path, out: &str, source: &str, partition: Option<&str>) -> bool {
        match check_output(&root.join(out), [root.join(source)], partition) {
            Ok(()) => false,
            Err(Error::InvalidArgument(text)) => {
                assert!(text.contains("where a broker looks"), "{text}");
                true
            }
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn nothing_is_written_among_logs() {
        let dirs = dirs();
        let root = dirs.path();
        for source in ["L", "L/t-0", "L/t-0/00000000000000000000.log"] {
            for out in [
                "L",
                "L/x",
                "L/x.parquet",
                "L/t-2",
                "L/t-0",
                "L/t-0/z.parquet",
                "L/absent/deeper/x",
                "plain/../L/x",
                "absent/../L/x",
                "M/x",
                "M/u-0/x",
                "M/absent/t-0",
            ] {
                assert!(is_refused(root, out, source, None), "{source} to {out}");
            }
            for out in [
                "plain/x",
                "plain/pytest-0/x",
                "new",
                "new/deeper",
                "x.parquet",
            ] {
                assert!(!is_refused(root, out, source, None), "{source} to {out}");
            }
        }
    }

    #[test]
    fn another_log_dir_takes_a_partition_by_its_name() {
        let dirs = dirs();
        let root = dirs.path();
        assert!(!is_refused(root, "M/t-0", "L/t-0", Some("t-0")));
        assert!(is_refused(root, "M/t-0", "L/t-0", None));
        assert!(is_refused(root, "M/t-1", "L/t-0", Some("t-0")));
        assert!(is_refused(root, "M/u-0", "L/t-0", Some("u-0")), "exists");
        assert!(is_refused(root, "L/t-9", "L/t-0", Some("t-9")));
        assert!(is_refused(root, "M/deeper/t-0", "L/t-0", Some("t-0")));
        assert!(is_refused(root, "copy/t-0/x", "copy/t-0", None));
        assert!(!is_refused(root, "copy/x", "copy/t-0", None));
    }

    #[cfg(unix)]
    #[test]
    fn links_do_not_hide_a_log_dir() {
        use std::os::unix::fs::symlink;
        let dirs = dirs();
        let root = dirs.path();
        symlink(root.join("L"), root.join("link")).unwrap();
        symlink(root.join("L/t-0"), root.join("plain/partition")).unwrap();
        symlink(root.join("plain"), root.join("harmless")).unwrap();
        for out in [
            "link/x",
            "link/new/x",
            "plain/partition/x",
            "plain/partition/../x",
        ] {
            assert!(is_refused(root, out, "M", None), "{out}");
        }
        assert!(is_refused(root, "L/x", "link/t-0", None));
        assert!(!is_refused(root, "harmless/x", "L", None));
    }

    #[test]
    fn log_dirs_are_not_nested() {
        let dirs = dirs();
        let root = dirs.path();
        fs::create_dir(root.join("home")).unwrap();
        fs::write(root.join("home/notes.txt"), b"").unwrap();
        for path in ["L/x", "L/x/y", "L/t-0/x", "plain/../L/x", "L/t-0"] {
            let error = check_log_dir(&root.join(path)).unwrap_err();
            assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        }
        for path in [
            "L", "M", "plain", "plain/x", "home", "home/x", "absent", "copy",
        ] {
            check_log_dir(&root.join(path)).unwrap();
        }
    }

    #[test]
    fn a_source_that_does_not_exist_is_an_error() {
        let dirs = dirs();
        let absent = dirs.path().join("absent");
        assert!(matches!(
            check_output(&dirs.path().join("x"), [absent], None),
            Err(Error::Io { .. })
        ));
    }
}
