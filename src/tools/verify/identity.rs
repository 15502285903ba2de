//! Identity of a directory: `meta.properties`, `partition.metadata`, `quorum-state`, `.kafka_cleanshutdown`.
//!
//! | file | rules |
//! |---|---|
//! | `meta.properties` | version 0 or 1; 0 has `broker.id`, 1 has `cluster.id` and `node.id`; `directory.id` is an id and not reserved (`MetaPropertiesEnsemble`) |
//! | `partition.metadata` | two lines, a topic id other than zero (`PartitionMetadataFile`) |
//! | `quorum-state` | a JSON object of data version 0 or 1 (`FileQuorumStateStore`) |
//! | `.kafka_cleanshutdown` | empty, or a JSON object (`CleanShutdownFileHandler`) |

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::finding::{
    CLEAN_SHUTDOWN_CONTENT, Code, Finding, Findings, IDENTITY_UNREADABLE, QUORUM_STATE_UNREADABLE,
};
use crate::error::{Error, Result};
use crate::format::checkpoint::{PARTITION_METADATA, parse_partition_metadata};
use crate::format::properties::parse_properties;
use crate::format::uuid::Uuid;
use crate::log::dir::{CLEAN_SHUTDOWN, META_PROPERTIES, read_parsed};

/// Voters and votes of a KRaft node.
pub(super) const QUORUM_STATE: &str = "quorum-state";

/// Reads a file, if there is one; its faults are findings.
fn read<T>(
    path: &Path,
    code: &'static Code,
    findings: &mut Findings,
    parse: impl FnOnce(&[u8]) -> Result<T>,
) -> Option<T> {
    match read_parsed(path, parse) {
        Ok(found) => found,
        Err(error) => {
            findings.add(Finding::of_error(code, path, &error));
            None
        }
    }
}

/// Reads `meta.properties`, if it is sound.
pub(super) fn meta(log_dir: &Path, findings: &mut Findings) -> Option<BTreeMap<String, String>> {
    let path = log_dir.join(META_PROPERTIES);
    read(&path, IDENTITY_UNREADABLE, findings, |text| {
        let properties = parse_properties(text)?;
        check_meta(&properties)?;
        Ok(properties)
    })
}

fn check_meta(properties: &BTreeMap<String, String>) -> Result<()> {
    let fault = |what, expected: &str, found: Option<&String>| {
        let found = found.map_or("none", String::as_str);
        Error::corrupt_index(what, 0, expected, format_args!("{found:?}"))
    };
    let get = |key: &str| properties.get(key);
    let number = |key| match get(key) {
        Some(text) if text.trim().parse::<i32>().is_ok() => Ok(()),
        found => Err(fault(key, "a number", found)),
    };
    // Brokers up to 2.7 refuse a file without a version. Later ones take it for version 0, and those of KRaft end for
    // want of the node's id (`KafkaRaftServer.initializeLogDirs`).
    match get("version").map_or("", |version| version.trim()) {
        "0" => number("broker.id")?,
        "1" => {
            number("node.id")?;
            if get("cluster.id").is_none_or(String::is_empty) {
                return Err(fault("cluster.id", "a cluster's id", get("cluster.id")));
            }
        }
        _ => return Err(fault("version", "0 or 1", get("version"))),
    }
    match get("directory.id") {
        Some(id) => match id.parse::<Uuid>() {
            Err(_) => Err(fault("directory.id", "22 characters", Some(id))),
            Ok(known) if known.is_reserved() => {
                let expected = "an id that Kafka gives no meaning of its own";
                Err(fault("directory.id", expected, Some(id)))
            }
            Ok(_) => Ok(()),
        },
        None => Ok(()),
    }
}

/// The topic id of a partition folder, if there is a sound one.
pub(super) fn topic_id(folder: &Path, findings: &mut Findings) -> Option<String> {
    let path = folder.join(PARTITION_METADATA);
    read(
        &path,
        IDENTITY_UNREADABLE,
        findings,
        parse_partition_metadata,
    )
}

fn object(data: &[u8]) -> Result<BTreeMap<String, Value>> {
    serde_json::from_slice(data)
        .map_err(|_| Error::corrupt_index("text", 0, "a JSON object", "other text"))
}

/// Checks `quorum-state`.
pub(super) fn quorum_state(path: &Path, findings: &mut Findings) {
    read(path, QUORUM_STATE_UNREADABLE, findings, |data| {
        let members = object(data)?;
        let number = |name| members.get(name).and_then(Value::as_i64);
        let number = |name| number(name).and_then(|number| i32::try_from(number).ok());
        let fault = |what, expected| {
            let found = members
                .get(what)
                .map_or("none".to_owned(), Value::to_string);
            Err(Error::corrupt_index(what, 0, expected, found))
        };
        if !matches!(number("data_version"), Some(0 | 1)) {
            return fault("data_version", "0 or 1");
        }
        for what in ["leaderId", "leaderEpoch", "votedId"] {
            if number(what).is_none() {
                return fault(what, "a number");
            }
        }
        Ok(())
    });
}

/// Checks the clean-shutdown marker.
pub(super) fn clean_shutdown(log_dir: &Path, findings: &mut Findings) {
    let path = log_dir.join(CLEAN_SHUTDOWN);
    read(&path, CLEAN_SHUTDOWN_CONTENT, findings, |data| {
        if data.is_empty() {
            return Ok(());
        }
        object(data).map(drop)
    });
}
