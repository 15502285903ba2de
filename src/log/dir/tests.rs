use std::fs;

use super::*;

fn folder(names: &[&str]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in names {
        let path = folder.path().join(name);
        if name.ends_with('/') {
            fs::create_dir_all(path).unwrap();
        } else {
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
    }
    folder
}

#[test]
fn lists_partitions_and_passes_over_the_rest() {
    let uuid = "0123456789abcdef0123456789abcdef";
    let folder = folder(&[
        "b-1/",
        "b-0/",
        "a.x-10/",
        &format!("b-0.{uuid}-delete/"),
        "remote-log-index-cache/",
        "lost+found/",
        "c-0",
        "meta.properties",
    ]);
    let dir = LogDir::list(folder.path()).unwrap();
    let found: Vec<_> = dir
        .folders()
        .iter()
        .map(|f| (f.name.topic_partition.to_string(), f.name.state.name()))
        .collect();
    let expected = [
        ("a.x-10", "live"),
        ("b-0", "live"),
        ("b-0", "delete"),
        ("b-1", "live"),
    ];
    assert_eq!(found, expected.map(|(a, b)| (a.to_owned(), b)));
    assert_eq!(dir.meta_properties().unwrap(), Some(BTreeMap::new()));
    assert!(!dir.is_clean());
    assert_eq!(dir.checkpoint(RECOVERY_POINT).unwrap(), None);
}

#[test]
fn a_name_alone_makes_no_partition() {
    let root = folder(&[
        "etc/dbus-1/system.conf",
        "etc/t-0/",
        "backup/t-0/00000000000000000000.log",
        "backup/t-1/leader-epoch-checkpoint",
        "backup/dbus-1/system.conf",
        "logs/meta.properties",
        "logs/t-0/",
    ]);
    let names = |name: &str| {
        let dir = LogDir::list(&root.path().join(name)).unwrap();
        let names = dir.folders().iter();
        let names: Vec<_> = names.map(|f| f.name.topic_partition.to_string()).collect();
        (names.join(" "), dir.ensure_log_dir().is_ok())
    };
    assert_eq!(names("etc"), (String::new(), false));
    assert_eq!(names("backup"), ("t-0 t-1".to_owned(), true));
    assert_eq!(names("logs"), ("t-0".to_owned(), true));
    for (name, is_partition) in [
        ("etc/dbus-1", false),
        ("etc/t-0", false),
        ("backup/t-1", true),
        ("backup/dbus-1", false),
        ("logs/t-0", true),
    ] {
        let kind = PathKind::of(&root.path().join(name)).unwrap();
        assert_eq!(
            matches!(kind, PathKind::Partition(_)),
            is_partition,
            "{name}"
        );
    }
}

#[test]
fn log_dirs_may_be_named_like_partitions() {
    let root = folder(&[
        "data-0/t-0/00000000000000000000.log",
        "data-1/replication-offset-checkpoint",
        "t-1/00000000000000000000.log",
        "t-2/partition.metadata",
        "mine/00000000000000000000.log",
        "empty/",
    ]);
    let kind = |name: &str| PathKind::of(&root.path().join(name));
    assert_eq!(kind("data-0").unwrap(), PathKind::LogDir);
    assert_eq!(kind("data-1").unwrap(), PathKind::LogDir);
    for (name, topic, partition) in [("t-1", "t", 1), ("t-2", "t", 2), ("mine", "mine", -1)] {
        let PathKind::Partition(found) = kind(name).unwrap() else {
            panic!("{name}");
        };
        assert_eq!(found.topic_partition, TopicPartition::new(topic, partition));
    }
    assert_eq!(kind("empty").unwrap(), PathKind::LogDir);
    assert_eq!(
        kind("t-1/00000000000000000000.log").unwrap(),
        PathKind::File
    );
    assert!(matches!(kind("gone"), Err(Error::Io { .. })));
}

#[test]
fn a_partition_folder_is_no_log_dir() {
    let root = folder(&[
        "t-1/00000000000000000000.log",
        "t-2/",
        "mine/partition.metadata",
        "data-0/00000000000000000000.log",
        "data-0/t-0/partition.metadata",
        "data-1/leader-epoch-checkpoint",
        "data-1/meta.properties",
    ]);
    let open = |name: &str| LogDir::list(&root.path().join(name));
    for name in ["t-1", "mine"] {
        let error = open(name).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
    }
    for (name, folders) in [("t-2", 0), ("data-0", 1), ("data-1", 0)] {
        assert_eq!(open(name).unwrap().folders().len(), folders, "{name}");
    }
}

#[test]
fn a_folder_of_others_is_no_log_dir() {
    let root = folder(&[
        "home/notes.txt",
        "above/data/t-0/",
        "mixed/t-0/",
        "mixed/dbus-1/system.conf",
        "empty/",
        "disk/lost+found/",
        "new/.lock",
        "begun/t-0/",
        "begun/meta.properties.tmp",
        "kept/notes.txt",
        "kept/meta.properties",
        "logs/notes.txt",
        "logs/t-0/partition.metadata",
    ]);
    let open = |name: &str| LogDir::list(&root.path().join(name)).unwrap();
    for name in ["home", "above", "mixed"] {
        let error = open(name).ensure_log_dir().unwrap_err();
        assert!(error.to_string().contains("not a log dir"), "{error}");
    }
    for name in ["empty", "disk", "new", "begun", "kept", "logs"] {
        open(name).ensure_log_dir().unwrap();
    }
}

#[test]
fn broken_checkpoints_are_none_unless_asked_for() {
    let folder = folder(&["t-0/"]);
    fs::write(folder.path().join(LOG_START), "0\n5\nt 0 1\n").unwrap();
    fs::write(folder.path().join(REPLICATION), "0\n1\nt 0 7\n").unwrap();
    let dir = LogDir::list(folder.path()).unwrap();
    assert!(dir.state().log_starts.is_empty());
    assert_eq!(
        dir.state().high_watermarks.unwrap()[&TopicPartition::new("t", 0)],
        7
    );
    let error = dir.checkpoint(LOG_START).unwrap_err().to_string();
    assert!(error.contains(LOG_START), "{error}");
}
