//! The record of a control batch (`ControlRecordType`, `EndTransactionMarker`).
//!
//! | bytes | key | value of an end of transaction |
//! |---|---|---|
//! | 2 | version, 0 | version, 0 |
//! | 2 / 4 | type | coordinator epoch |
//!
//! Later versions are read by this layout too; bytes after it are theirs.

use std::fmt;

use super::cursor::{get_i16, get_i32};
use crate::error::{Error, Result};

/// Kind of a control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ControlType {
    /// A transaction was aborted.
    Abort,
    /// A transaction was committed.
    Commit,
    /// A new leader of a KRaft quorum.
    LeaderChange,
    /// First record of a KRaft snapshot.
    SnapshotHeader,
    /// Last record of a KRaft snapshot.
    SnapshotFooter,
    /// The KRaft version in use (KIP-853).
    KraftVersion,
    /// The quorum's voters (KIP-853).
    KraftVoters,
    /// One that is not known yet; to be ignored.
    Unknown,
}

impl ControlType {
    /// The kind with this number.
    #[must_use]
    pub const fn from_id(id: i16) -> Self {
        match id {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KraftVersion,
            6 => Self::KraftVoters,
            _ => Self::Unknown,
        }
    }

    /// The number of this kind; -1 for [`ControlType::Unknown`].
    #[must_use]
    pub const fn id(self) -> i16 {
        match self {
            Self::Abort => 0,
            Self::Commit => 1,
            Self::LeaderChange => 2,
            Self::SnapshotHeader => 3,
            Self::SnapshotFooter => 4,
            Self::KraftVersion => 5,
            Self::KraftVoters => 6,
            Self::Unknown => -1,
        }
    }

    /// The key of a control record of this kind, version 0.
    #[must_use]
    pub const fn key(self) -> [u8; 4] {
        let [a, b] = self.id().to_be_bytes();
        [0, 0, a, b]
    }

    /// Reads a control record's key.
    ///
    /// # Errors
    /// `InvalidRecord` for a key below 4 bytes or a version below 0.
    pub fn parse(key: &[u8]) -> Result<Self> {
        let (Some(version), Some(id)) = (get_i16(key, 0), get_i16(key, 2)) else {
            return Err(Error::invalid(
                "control record key",
                0,
                "at least 4 bytes",
                key.len(),
            ));
        };
        check_version("control record key version", version)?;
        Ok(Self::from_id(id))
    }

    /// Kafka's name, as `kafka-dump-log` prints it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "ABORT",
            Self::Commit => "COMMIT",
            Self::LeaderChange => "LEADER_CHANGE",
            Self::SnapshotHeader => "SNAPSHOT_HEADER",
            Self::SnapshotFooter => "SNAPSHOT_FOOTER",
            Self::KraftVersion => "KRAFT_VERSION",
            Self::KraftVoters => "KRAFT_VOTERS",
            Self::Unknown => "UNKNOWN",
        }
    }

    /// Commit or abort.
    #[must_use]
    pub const fn ends_transaction(self) -> bool {
        matches!(self, Self::Abort | Self::Commit)
    }
}

impl fmt::Display for ControlType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The value of a record that ends a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// Version of the layout.
    pub version: i16,
    /// Epoch of the transaction coordinator that wrote it.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// The value of a commit or abort of this coordinator, version 0.
    #[cfg(any(feature = "internal", feature = "python"))]
    #[must_use]
    pub const fn value(coordinator_epoch: i32) -> [u8; 6] {
        let [a, b, c, d] = coordinator_epoch.to_be_bytes();
        [0, 0, a, b, c, d]
    }

    /// Reads the value of a commit or abort.
    ///
    /// # Errors
    /// `InvalidRecord` for a value below 6 bytes or a version below 0.
    pub fn parse(value: &[u8]) -> Result<Self> {
        let (Some(version), Some(coordinator_epoch)) = (get_i16(value, 0), get_i32(value, 2))
        else {
            return Err(Error::invalid(
                "end transaction marker",
                0,
                "at least 6 bytes",
                value.len(),
            ));
        };
        check_version("end transaction marker version", version)?;
        Ok(Self {
            version,
            coordinator_epoch,
        })
    }
}

fn check_version(what: &'static str, version: i16) -> Result<()> {
    if version < 0 {
        Err(Error::invalid(what, 0, "0 or more", version))
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let names: Vec<_> = (-1i16..8)
            .map(|id| {
                ControlType::parse(&[&[0, 0][..], &id.to_be_bytes()].concat())
                    .unwrap()
                    .name()
            })
            .collect();
        assert_eq!(
            names.join(" "),
            "UNKNOWN ABORT COMMIT LEADER_CHANGE SNAPSHOT_HEADER SNAPSHOT_FOOTER KRAFT_VERSION KRAFT_VOTERS UNKNOWN"
        );
        assert_eq!(
            ControlType::parse(&[0, 9, 0, 1, 7]).unwrap(),
            ControlType::Commit
        );
        assert!(
            ControlType::Abort.ends_transaction() && !ControlType::LeaderChange.ends_transaction()
        );
    }

    #[test]
    fn what_is_written_is_read() {
        for kind in (-1i16..7).map(ControlType::from_id) {
            assert_eq!(ControlType::parse(&kind.key()).unwrap(), kind);
        }
        let marker = EndTransactionMarker::parse(&EndTransactionMarker::value(347)).unwrap();
        assert_eq!((marker.version, marker.coordinator_epoch), (0, 347));
    }

    #[test]
    fn refused() {
        for (key, text) in [
            (&[0, 0, 0][..], "at least 4 bytes"),
            (&[0x80, 0, 0, 1], "0 or more"),
        ] {
            let error = ControlType::parse(key).unwrap_err();
            assert!(matches!(error, Error::InvalidRecord(_)) && error.to_string().contains(text));
        }
        for (value, text) in [
            (&[0; 5][..], "at least 6 bytes"),
            (&[0xff, 0xff, 0, 0, 0, 1], "0 or more"),
        ] {
            let error = EndTransactionMarker::parse(value).unwrap_err();
            assert!(matches!(error, Error::InvalidRecord(_)) && error.to_string().contains(text));
        }
    }

    #[test]
    fn markers() {
        let marker = EndTransactionMarker::parse(&[0, 0, 0, 0, 1, 0x5b, 9]).unwrap();
        assert_eq!((marker.version, marker.coordinator_epoch), (0, 347));
    }
}
