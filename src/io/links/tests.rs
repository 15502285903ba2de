use std::fs;
use std::os::unix::fs::MetadataExt;

use super::super::appender::Appender;
use super::super::folder::DiskFolder;
use super::super::storage::Storage as _;
use super::*;

#[test]
fn only_a_file_with_other_names_is_copied() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("a.log"), folder.path().join("other"));
    fs::write(&path, b"hello").unwrap();
    let disk = Disk::default();
    let file = disk.open_or_create(&path).unwrap();
    assert!(detach(&disk, &file, &path).unwrap().is_none());
    fs::hard_link(&path, &other).unwrap();
    fs::write(folder.path().join("a.log.tmp"), b"left by a crash").unwrap();
    let before = fs::metadata(&path).unwrap();
    let own = detach(&disk, &file, &path).unwrap().unwrap();
    let after = own.metadata().unwrap();
    assert_ne!(after.ino(), before.ino());
    assert_eq!(after.modified().unwrap(), before.modified().unwrap());
    assert_eq!(fs::read(&path).unwrap(), b"hello");
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    assert_eq!(fs::metadata(&other).unwrap().nlink(), 1);
}

#[test]
fn nothing_is_written_through_a_link() {
    let folder = tempfile::tempdir().unwrap();
    let (path, other) = (folder.path().join("a.log"), folder.path().join("other"));
    fs::write(&path, b"hello").unwrap();
    let storage = DiskFolder::at(folder.path());
    let open = || {
        fs::remove_file(&other).ok();
        fs::hard_link(&path, &other).unwrap();
        Appender::open(storage.open_file("a.log").unwrap()).unwrap()
    };
    let mut log = open();
    // Nothing to cut, nothing to copy.
    log.truncate(9).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().nlink(), 2);
    log.truncate(4).unwrap();
    log.append(b"!!"[..].into()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hell!!");
    assert_eq!(fs::read(&other).unwrap(), b"hello");
    open().append(b"?"[..].into()).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"hell!!?");
    assert_eq!(fs::read(&other).unwrap(), b"hell!!");
}
