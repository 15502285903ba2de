//! Files in log dirs after writers that come, go and fail.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::identity::{CLUSTER_ID, DIRECTORY_ID, random_id};
use super::*;
use crate::error::Error;
use crate::format::checkpoint::PARTITION_METADATA;
use crate::io::disk::{DiskStep, Faults, InjectedFailure};
use crate::io::lock::LOCK_FILE;
use crate::log::dir::{
    CLEAN_SHUTDOWN, DirState, LOG_START, META_PROPERTIES, RECOVERY_POINT, REPLICATION,
};

const PROGRESS: PartitionProgress = PartitionProgress {
    recovery_point: 10,
    log_start_offset: None,
    high_watermark: 10,
};

fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

fn open(path: &Path) -> LogDirs {
    LogDirs::open(
        &[path.to_path_buf()],
        &Identity::default(),
        &Disk::default(),
    )
    .unwrap()
}

fn marked(path: &Path) -> bool {
    assert!(!path.join(LOCK_FILE).exists());
    path.join(CLEAN_SHUTDOWN).exists()
}

fn text(path: &Path, name: &str) -> String {
    fs::read_to_string(path.join(name)).unwrap()
}

#[test]
fn a_new_log_dir() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("deep/data");
    let dirs = open(&path);
    let id: Uuid = "0rtfp9DjROqBpwPllfDtAQ".parse().unwrap();
    let partition = dirs.partition(&tp("orders", 0), Some(id)).unwrap();
    assert!(partition.is_clean() && partition.is_held());
    assert_eq!(partition.folder(), path.join("orders-0"));
    assert_eq!(partition.log_dir(), path);
    assert_eq!(partition.topic_id(), Some("0rtfp9DjROqBpwPllfDtAQ"));
    // What is refused afterwards leaves no id.
    assert!(!path.join("orders-0/partition.metadata").exists());
    partition.write_topic_id().unwrap();
    assert!(path.join(LOCK_FILE).exists());
    // A lock on the log dir is one on the partitions in it.
    let locked = dirs.partition(&tp("orders", 0), None).unwrap_err();
    assert!(matches!(locked, Error::LogLocked { .. }), "{locked}");
    let start = PartitionProgress {
        log_start_offset: Some(3),
        ..PROGRESS
    };
    partition.checkpoint(&start).unwrap();
    assert_eq!(text(&path, RECOVERY_POINT), "0\n1\norders 0 10\n");
    assert_eq!(text(&path, REPLICATION), "0\n1\norders 0 10\n");
    assert_eq!(text(&path, LOG_START), "0\n1\norders 0 3\n");
    partition.close(&PROGRESS).unwrap();
    assert_eq!(text(&path, LOG_START), "0\n0\n");
    dirs.close().unwrap();
    assert!(marked(&path));
    assert_eq!(
        text(&path, CLEAN_SHUTDOWN),
        "{\"version\":0,\"brokerEpoch\":-1}"
    );
    let metadata = text(&path, "orders-0/partition.metadata");
    assert_eq!(metadata, "version: 0\ntopic_id: 0rtfp9DjROqBpwPllfDtAQ");
    assert!(!path.join(META_PROPERTIES).exists());
    let state = DirState::read(&path);
    assert_eq!(state.recovery_points[&tp("orders", 0)], 10);
}

#[test]
fn the_marker_speaks_of_all_partitions() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    for folder in ["a-0", "b-0", "b-1.0123456789abcdef0123456789abcdef-delete"] {
        fs::create_dir(path.join(folder)).unwrap();
    }
    // Not clean before, and only one of two recovered since.
    let a = open(path).partition(&tp("a", 0), None).unwrap();
    assert!(!a.is_clean());
    a.close(&PROGRESS).unwrap();
    assert!(!marked(path));
    // Both.
    let dirs = open(path);
    for topic in ["a", "b"] {
        let partition = dirs.partition(&tp(topic, 0), None).unwrap();
        assert!(!partition.is_clean());
        partition.close(&PROGRESS).unwrap();
    }
    // One that was closed in this session is clean, although the log dir was not.
    let a = dirs.partition(&tp("a", 0), None).unwrap();
    assert!(a.is_clean());
    assert_eq!(
        (a.recovery_point(), a.high_watermark()),
        (Some(10), Some(10))
    );
    drop(dirs);
    assert!(path.join(LOCK_FILE).exists() && !path.join(CLEAN_SHUTDOWN).exists());
    a.close(&PROGRESS).unwrap();
    assert!(marked(path));
    // Clean before, and closed again: the others need not be opened.
    let a = open(path).partition(&tp("a", 0), None).unwrap();
    assert!(a.is_clean() && !path.join(CLEAN_SHUTDOWN).exists());
    a.close(&PROGRESS).unwrap();
    assert!(marked(path));
    // Opened and given back untouched.
    open(path)
        .partition(&tp("a", 0), None)
        .unwrap()
        .release()
        .unwrap();
    assert!(marked(path));
    drop(open(path));
    assert!(marked(path));
    // Left in disorder, also where another one is closed after it.
    let dirs = open(path);
    drop(dirs.partition(&tp("a", 0), None).unwrap());
    let again = dirs.partition(&tp("a", 0), None).unwrap();
    assert!(!again.is_clean());
    again.release().unwrap();
    let b = dirs.partition(&tp("b", 0), None).unwrap();
    assert!(b.is_clean());
    b.close(&PROGRESS).unwrap();
    dirs.close().unwrap();
    assert!(!marked(path));
}

#[test]
fn other_lines_of_checkpoints_stay() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path();
    for name in [RECOVERY_POINT, LOG_START, REPLICATION] {
        fs::write(path.join(name), "0\n2\nz 3 7\ngone 0 99\n").unwrap();
    }
    fs::create_dir(path.join("z-3")).unwrap();
    let dirs = open(path);
    let z = dirs.partition(&tp("z", 3), None).unwrap();
    assert_eq!(
        (z.recovery_point(), z.log_start_offset(), z.high_watermark()),
        (Some(7), Some(7), Some(7))
    );
    // A partition that was removed long ago and is created again begins from nothing.
    let gone = dirs.partition(&tp("gone", 0), None).unwrap();
    assert_eq!(
        (gone.recovery_point(), gone.log_start_offset()),
        (None, None)
    );
    gone.close(&PROGRESS).unwrap();
    assert_eq!(text(path, RECOVERY_POINT), "0\n2\ngone 0 10\nz 3 7\n");
    assert_eq!(text(path, LOG_START), "0\n2\nz 3 7\ngone 0 99\n");
    z.close(&PROGRESS).unwrap();
    assert_eq!(text(path, LOG_START), "0\n0\n");
    assert_eq!(text(path, REPLICATION), "0\n2\ngone 0 10\nz 3 10\n");
}

#[test]
fn partitions_go_where_there_are_fewest() {
    let root = tempfile::tempdir().unwrap();
    let paths: Vec<_> = ["x", "y", "z"]
        .iter()
        .map(|n| root.path().join(n))
        .collect();
    let uuid = "0123456789abcdef0123456789abcdef";
    for folder in [
        "x/a-0".to_owned(),
        "x/a-1".to_owned(),
        format!("y/a-2.{uuid}-future"),
        format!("z/a-3.{uuid}-delete"),
        format!("z/a-4.{uuid}-delete"),
        "z/b-0".to_owned(),
    ] {
        fs::create_dir_all(root.path().join(folder)).unwrap();
    }
    let identity = Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: Some(1),
        directory_id: None,
    };
    let dirs = LogDirs::open(&paths, &identity, &Disk::default()).unwrap();
    let place = |topic: &str, partition| {
        let opened = dirs.partition(&tp(topic, partition), None).unwrap();
        let place = opened.log_dir().file_name().unwrap().to_string_lossy();
        place.into_owned()
    };
    assert_eq!(place("a", 1), "x");
    assert_eq!(place("n", 0), "y");
    assert_eq!(place("n", 1), "z");
    // Where all have two, in the order they were given.
    assert_eq!(place("n", 2), "x");
    fs::create_dir(paths[1].join("b-0")).unwrap();
    let twice = dirs.partition(&tp("b", 0), None).unwrap_err();
    assert!(matches!(twice, Error::DuplicatePartition { .. }), "{twice}");
    let ids: BTreeSet<_> = paths
        .iter()
        .map(|path| {
            LogDir::open(path)
                .unwrap()
                .meta_properties()
                .unwrap()
                .unwrap()[DIRECTORY_ID]
                .clone()
        })
        .collect();
    assert_eq!(ids.len(), 3);
}

#[test]
fn identities() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let attempt = |cluster: Option<&str>, node, directory| {
        let identity = Identity {
            cluster_id: cluster.map(str::to_owned),
            node_id: node,
            directory_id: directory,
        };
        LogDirs::open(std::slice::from_ref(&path), &identity, &Disk::default()).map(drop)
    };
    let id = "myr0RHJeckaj45FD5XuN7g".parse().unwrap();
    for bad in [
        attempt(Some("c"), None, None),
        attempt(None, Some(1), None),
        attempt(None, None, Some(id)),
        attempt(Some(""), Some(1), None),
        attempt(Some("c"), Some(-1), None),
    ] {
        assert!(matches!(bad, Err(Error::InvalidArgument(_))));
    }
    attempt(Some("wSEF3x_skGACboDxfWacZQ"), Some(1), Some(id)).unwrap();
    assert_eq!(
        text(&path, META_PROPERTIES),
        "cluster.id=wSEF3x_skGACboDxfWacZQ\ndirectory.id=myr0RHJeckaj45FD5XuN7g\nnode.id=1\nversion=1\n"
    );
    attempt(None, None, None).unwrap();
    attempt(Some("wSEF3x_skGACboDxfWacZQ"), Some(1), None).unwrap();
    for (cluster, node, directory) in [
        ("other", 1, None),
        ("wSEF3x_skGACboDxfWacZQ", 2, None),
        ("wSEF3x_skGACboDxfWacZQ", 1, Some(Uuid(1))),
    ] {
        let error = attempt(Some(cluster), Some(node), directory).unwrap_err();
        assert!(error.to_string().contains(META_PROPERTIES), "{error}");
    }
    // ZooKeeper's version.
    fs::write(path.join(META_PROPERTIES), "version=0\nbroker.id=4\n").unwrap();
    attempt(Some("any"), Some(4), None).unwrap();
    assert!(attempt(Some("any"), Some(5), None).is_err());
    assert!(marked(&path));
}

#[test]
fn refused() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().join("data");
    let dirs = open(&path);
    for (topic, partition) in [("", 0), ("a b", 0), ("..", 0), ("a", -1)] {
        let error = dirs.partition(&tp(topic, partition), None).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    let all = |paths: &[&Path]| {
        let paths: Vec<_> = paths.iter().map(|path| path.to_path_buf()).collect();
        LogDirs::open(&paths, &Identity::default(), &Disk::default())
    };
    assert!(matches!(all(&[]), Err(Error::InvalidArgument(_))));
    let twice = all(&[&path, &path.join(".")]).unwrap_err();
    assert!(twice.to_string().contains("same log dir"), "{twice}");
    let (id, other) = (Uuid(1 << 100), Uuid(2 << 100));
    let t = tp("t", 0);
    assert!(dirs.partition(&t, Some(Uuid::ZERO)).is_err());
    let first = dirs.partition(&t, Some(id)).unwrap();
    first.write_topic_id().unwrap();
    drop(first);
    let error = dirs.partition(&t, Some(other)).unwrap_err();
    assert!(error.to_string().contains(PARTITION_METADATA), "{error}");
    assert_eq!(
        dirs.partition(&t, None).unwrap().topic_id(),
        Some(id.to_string().as_str())
    );
    fs::write(path.join("t-0").join(PARTITION_METADATA), "version: x").unwrap();
    let broken = dirs.partition(&t, None).unwrap_err();
    assert!(matches!(broken, Error::CorruptIndex(_)), "{broken}");
    fs::write(path.join("t-0/00000000000000000000.log"), "").unwrap();
    let inside = all(&[&path.join("t-0")]).unwrap_err();
    assert!(
        inside.to_string().contains("partition's folder"),
        "{inside}"
    );
}

/// Fails every step at a file of this name.
#[derive(Debug)]
struct Failing(&'static str);

impl Faults for Failing {
    fn before(&self, _: DiskStep, path: &Path) -> Result<(), InjectedFailure> {
        match path.file_name() {
            Some(name) if name == self.0 => Err(io::Error::from_raw_os_error(28).into()),
            _ => Ok(()),
        }
    }
}

#[test]
fn a_full_disk_leaves_no_marker() {
    for name in [
        CLEAN_SHUTDOWN,
        REPLICATION,
        "recovery-point-offset-checkpoint.tmp",
    ] {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().to_path_buf();
        let disk = Disk::with_faults(Arc::new(Failing(name)));
        // Where the old marker cannot be removed, nothing is opened.
        if name == CLEAN_SHUTDOWN {
            fs::write(path.join(name), "").unwrap();
            let paths = std::slice::from_ref(&path);
            let error = LogDirs::open(paths, &Identity::default(), &disk).unwrap_err();
            assert!(error.to_string().contains(name), "{error}");
            assert!(marked(&path));
            fs::remove_file(path.join(name)).unwrap();
            continue;
        }
        let paths = std::slice::from_ref(&path);
        let dirs = LogDirs::open(paths, &Identity::default(), &disk).unwrap();
        let partition = dirs.partition(&tp("t", 0), None).unwrap();
        drop(dirs);
        let error = partition.close(&PROGRESS).unwrap_err();
        assert!(error.to_string().contains("checkpoint"), "{error}");
        assert!(!marked(&path), "{name}");
    }
}

/// Lets so many steps through, then none: the process is gone. Of the write it dies in, half gets through.
#[derive(Debug)]
struct Dying(AtomicUsize);

impl Faults for Dying {
    fn before(&self, step: DiskStep, _: &Path) -> Result<(), InjectedFailure> {
        let left = |n: usize| n.checked_sub(1);
        match self
            .0
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, left)
        {
            Ok(_) => Ok(()),
            Err(_) => Err(InjectedFailure {
                written: match step {
                    DiskStep::Write { len } => len / 2,
                    _ => 0,
                },
                error: io::Error::from_raw_os_error(5),
            }),
        }
    }
}

#[test]
fn dying_at_any_step_leaves_what_can_be_opened() {
    let identity = Identity {
        cluster_id: Some("cluster".to_owned()),
        node_id: Some(1),
        directory_id: None,
    };
    let work = |path: &Path, progress: &PartitionProgress, disk: &Disk| {
        let paths = [path.to_path_buf()];
        let dirs = LogDirs::open(&paths, &identity, disk)?;
        let partition = dirs.partition(&tp("t", 0), Some(Uuid(1 << 99)))?;
        drop(dirs);
        partition.checkpoint(progress)?;
        partition.close(progress)
    };
    let further = PartitionProgress {
        recovery_point: 20,
        log_start_offset: Some(5),
        high_watermark: 20,
    };
    for old in [false, true] {
        for steps in 0.. {
            assert!(steps < 100);
            let root = tempfile::tempdir().unwrap();
            let path = root.path().join("data");
            if old {
                work(&path, &PROGRESS, &Disk::default()).unwrap();
            }
            let disk = Disk::with_faults(Arc::new(Dying(AtomicUsize::new(steps))));
            let done = work(&path, &further, &disk).is_ok();
            let state = DirState::read(&path);
            // The marker is the first to go and the last to come.
            assert!(!done || state.clean_shutdown);
            let offset = state.recovery_points.get(&tp("t", 0)).copied();
            match (old, state.clean_shutdown) {
                (true, true) => assert!(steps == 0 || offset == Some(20), "{steps}"),
                (true, false) => assert!(matches!(offset, Some(10 | 20)), "{steps}"),
                (false, true) => assert_eq!(offset, Some(20), "{steps}"),
                (false, false) => assert!(matches!(offset, None | Some(20)), "{steps}"),
            }
            work(&path, &further, &Disk::default()).unwrap();
            assert!(marked(&path));
            let dir = LogDir::open(&path).unwrap();
            assert_eq!(
                dir.meta_properties().unwrap().unwrap()[CLUSTER_ID],
                "cluster"
            );
            for name in [RECOVERY_POINT, LOG_START, REPLICATION] {
                let offsets = dir.checkpoint(name).unwrap().unwrap();
                let expected = if name == LOG_START { 5 } else { 20 };
                assert_eq!(offsets[&tp("t", 0)], expected);
            }
            if done {
                assert!(steps > 10, "{steps}");
                break;
            }
        }
    }
}

#[test]
fn ids_are_made() {
    let ids: BTreeSet<Uuid> = (0..100).map(|_| random_id().unwrap()).collect();
    assert_eq!(ids.len(), 100);
    assert!(ids.iter().all(|id| !id.to_string().starts_with('-')));
}
