//! Files that others change while they are under plan, and what reading them costs.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::sync::Arc;

use super::*;
use crate::error::Error;
use crate::format::checkpoint::{LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::io::disk::Disk;
use crate::io::overlay::content::{Content, Origins};
use crate::io::storage::Folder;

const REQUEST: LoadRequest = LoadRequest {
    clean: false,
    recovery_point: 0,
    log_start_offset: 0,
    now_ms: 0,
    producer_id_expiration_ms: i64::MAX,
};

fn kind<T>(result: Result<T>) -> Option<ErrorKind> {
    match result {
        Err(Error::Io { source, .. }) => Some(source.kind()),
        _ => None,
    }
}

/// A file that cannot be read tells nothing of what is in it: salvage may not put it aside for that.
#[test]
fn a_file_that_cannot_be_read_is_not_salvaged_away() {
    let texts = [LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA];
    for name in [texts[0], texts[1], "00000000000000000000.txnindex"] {
        let (folder, config) = (tempfile::tempdir().unwrap(), LogConfig::default());
        let path = folder.path().join(name);
        fs::write(&path, [b'0'; 34]).unwrap();
        let mut loader = Loader::new(Folder::at(folder.path()), &config, REQUEST).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(kind(loader.salvage()), Some(ErrorKind::NotFound), "{name}");
        assert!(loader.notes.is_empty(), "{name}: {:?}", loader.notes);
        assert!(loader.folder.actions().is_empty(), "{name}");
    }
}

/// No zeros stand in for what is not there any more.
#[test]
fn a_file_cut_meanwhile_is_not_padded() {
    const LENGTH: usize = 3 << 20;
    let (folder, to) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("a");
    fs::write(&path, vec![7; LENGTH]).unwrap();
    let whole = plan(
        folder.path(),
        &LogConfig::default(),
        REQUEST,
        OnLoss::AsKafka,
    )
    .unwrap();
    let parted = plan(
        folder.path(),
        &LogConfig::default(),
        REQUEST,
        OnLoss::AsKafka,
    )
    .unwrap();
    let parts = Content::parts(&Arc::from("a"), vec![(0, 100), (LENGTH as u64 - 100, 100)]);
    parted.folder.delete("a");
    parted.folder.write("b", parts.clone()).unwrap();
    whole.write_to(&Disk::default(), to.path()).unwrap();
    assert_eq!(fs::read(to.path().join("a")).unwrap(), vec![7; LENGTH]);
    parted.write_to(&Disk::default(), to.path()).unwrap();
    assert_eq!(fs::read(to.path().join("b")).unwrap(), [7; 200]);

    let file = File::options().write(true).open(&path).unwrap();
    file.set_len(LENGTH as u64 / 2).unwrap();
    let origins = Origins::new(Folder::at(folder.path()));
    for cut in [
        whole.write_to(&Disk::default(), to.path()),
        parted.write_to(&Disk::default(), to.path()),
        parts.read(&origins, 0, 200).map(drop),
        Content::base("a", LENGTH as u64)
            .read(&origins, 0, LENGTH)
            .map(drop),
    ] {
        assert_eq!(kind(cut), Some(ErrorKind::UnexpectedEof));
    }
    assert_eq!(parts.read(&origins, 10, 20).unwrap(), [7; 20]);
}

/// Calls by which this thread has read, where the system counts them.
fn reads() -> u64 {
    let text = fs::read_to_string("/proc/thread-self/io").unwrap_or_default();
    let count = text.lines().find_map(|line| line.strip_prefix("syscr: "));
    count.map_or(0, |count| count.parse().unwrap())
}

#[test]
fn a_part_is_read_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
    fs::write(folder.path().join("a"), &bytes).unwrap();
    let parts = [(8, 40_000), (100_000, 1), (50_000, 200_000)];
    let content = Content::parts(&Arc::from("a"), parts.to_vec());
    let expected = parts.map(|(from, length)| {
        let part = bytes.iter().skip(from.try_into().unwrap());
        let part = part.take(length.try_into().unwrap());
        part.copied().collect::<Vec<u8>>()
    });
    let expected = expected.concat();
    let origins = Origins::new(Folder::at(folder.path()));
    let before = reads();
    for (at, wanted) in [(0, expected.len()), (39_999, 3), (40_000, 2), (240_000, 9)] {
        let end = (at + wanted).min(expected.len());
        let read = content.read(&origins, at as u64, wanted).unwrap();
        assert!(read == expected[at..end], "{wanted} from {at}");
    }
    assert!(reads() - before < 100, "{} reads", reads() - before);
}
