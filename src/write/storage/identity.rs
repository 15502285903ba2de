//! The ids in `meta.properties`, checked and written.

use std::collections::BTreeMap;
use std::path::Path;

use super::dir::DirHandle;
use crate::error::{Error, Result};
use crate::format::properties::{parse_properties, write_properties};
use crate::format::uuid::Uuid;
use crate::io::atomic;
use crate::log::dir::{META_PROPERTIES, read_parsed};

/// Identity of a log dir, from `meta.properties` (KIP-858).
#[cfg_attr(
    not(feature = "internal"),
    expect(clippy::struct_field_names, reason = "the names of the properties")
)]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// `cluster.id`.
    pub cluster_id: Option<String>,
    /// `node.id`.
    pub node_id: Option<i32>,
    /// `directory.id`, of the first log dir that has none; made where it is not given.
    pub directory_id: Option<Uuid>,
}

impl Identity {
    /// The ids to be written, if any.
    pub(super) fn ids(&self) -> Result<Option<(&str, i32)>> {
        match (&self.cluster_id, self.node_id) {
            (Some(cluster_id), Some(node_id)) if node_id < 0 || cluster_id.is_empty() => {
                Err(Error::InvalidArgument(format!(
                    "cluster id {cluster_id:?} and node id {node_id}: neither may be empty or below 0"
                )))
            }
            (Some(cluster_id), Some(node_id)) => Ok(Some((cluster_id, node_id))),
            (None, None) if self.directory_id.is_none() => Ok(None),
            _ => Err(Error::InvalidArgument(
                "the ids of a log dir: cluster id and node id go together".to_owned(),
            )),
        }
    }
}

const VERSION: &str = "version";
pub(super) const CLUSTER_ID: &str = "cluster.id";
const NODE_ID: &str = "node.id";
/// Name of `node.id` in version 0.
const BROKER_ID: &str = "broker.id";
pub(super) const DIRECTORY_ID: &str = "directory.id";

/// Checks the ids of all log dirs against those given, then writes them where there are none.
pub(super) fn identify(dirs: &[DirHandle], identity: &Identity) -> Result<()> {
    let mut unmarked = Vec::new();
    for dir in dirs {
        let path = dir.path.join(META_PROPERTIES);
        match read_parsed(&path, parse_properties)? {
            Some(found) => check_identity(&path, &found, identity)?,
            None => unmarked.push((dir, path)),
        }
    }
    let Some((cluster_id, node_id)) = identity.ids()? else {
        return Ok(());
    };
    let mut given = identity.directory_id;
    for (dir, path) in unmarked {
        let directory_id = match given.take() {
            Some(id) => id,
            None => random_id()?,
        };
        let properties = BTreeMap::from([
            (VERSION.to_owned(), "1".to_owned()),
            (CLUSTER_ID.to_owned(), cluster_id.to_owned()),
            (NODE_ID.to_owned(), node_id.to_string()),
            (DIRECTORY_ID.to_owned(), directory_id.to_string()),
        ]);
        atomic::replace(&dir.disk, &path, &write_properties(&properties))?;
    }
    Ok(())
}

fn check_identity(
    path: &Path,
    found: &BTreeMap<String, String>,
    identity: &Identity,
) -> Result<()> {
    let node = if found.contains_key(NODE_ID) {
        NODE_ID
    } else {
        BROKER_ID
    };
    let node_id = identity.node_id.map(|id| id.to_string());
    let directory_id = identity.directory_id.map(|id| id.to_string());
    for (key, given) in [
        (CLUSTER_ID, &identity.cluster_id),
        (node, &node_id),
        (DIRECTORY_ID, &directory_id),
    ] {
        if let (Some(there), Some(given)) = (found.get(key), given)
            && there != given
        {
            return Err(Error::InvalidArgument(format!(
                "{}: {key} is {there}, not {given}",
                path.display()
            )));
        }
    }
    Ok(())
}

/// An id as Kafka makes them.
///
/// # Errors
/// `Io` where the operating system has no random numbers.
pub(super) fn random_id() -> Result<Uuid> {
    loop {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|error| Error::io("random numbers")(std::io::Error::other(error)))?;
        if let Some(id) = Uuid::of_random(bytes) {
            return Ok(id);
        }
    }
}
