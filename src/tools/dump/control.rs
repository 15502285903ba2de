//! Content of a control record, as the tool prints it: transaction markers, and KRaft's messages as JSON.
//!
//! | type | value |
//! |---|---|
//! | 0 ABORT, 1 COMMIT | i16 version, i32 coordinator epoch |
//! | 2 to 6 | a message of the table of [`crate::tables::messages`], whose first field is its version |
//!
//! The tool reads the layout of version 0 whatever version a record states, and so do we.
//! Sources: `ControlRecordType`, `EndTransactionMarker`, `ControlRecordUtils`, KIP-595, KIP-630, KIP-853.

use crate::error::{Error, Result};
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::format::cursor::get_i16;
use crate::format::put::Put;
use crate::tables::decode::Tree;
use crate::tables::json::{Style, put_message};
use crate::tables::messages::Table;

/// Position of the type in a control record's key.
const TYPE_AT: usize = 2;
/// The version whose layout is read.
const READ_VERSION: i16 = 0;
const VALUE: &str = "control record value";

/// Appends what the tool says of a control record. Nothing is appended where it fails.
///
/// # Errors
/// `InvalidRecord` where key or value are not as their type asks for; its position says nothing.
pub(super) fn put_control(
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    to: &mut Vec<u8>,
) -> Result<()> {
    let kept = to.len();
    let put = put_typed(key.unwrap_or_default(), value, to);
    if put.is_err() {
        to.truncate(kept);
    }
    put
}

fn put_typed(key: &[u8], value: Option<&[u8]>, to: &mut Vec<u8>) -> Result<()> {
    let value = || value.ok_or_else(|| Error::invalid(VALUE, 0, "a value", "null"));
    let (title, message) = match ControlType::parse(key)? {
        kind @ (ControlType::Abort | ControlType::Commit) => {
            let marker = EndTransactionMarker::parse(value()?)?;
            " endTxnMarker: ".put(to);
            kind.name().put(to);
            " coordinatorEpoch: ".put(to);
            marker.coordinator_epoch.put(to);
            return Ok(());
        }
        ControlType::Unknown => {
            " controlType: UNKNOWN(".put(to);
            get_i16(key, TYPE_AT).unwrap_or_default().put(to);
            ")".put(to);
            return Ok(());
        }
        ControlType::LeaderChange => (" LeaderChange: ", "LeaderChangeMessage"),
        ControlType::SnapshotHeader => (" SnapshotHeader ", "SnapshotHeaderRecord"),
        ControlType::SnapshotFooter => (" SnapshotFooter ", "SnapshotFooterRecord"),
        ControlType::KraftVersion => (" KRaftVersion ", "KRaftVersionRecord"),
        ControlType::KraftVoters => (" KRaftVoters ", "VotersRecord"),
    };
    let value = value()?;
    let mut tree = Tree::default();
    let read = tree.read(Table::get()?.data(message)?, READ_VERSION, value);
    let (root, _) = read.map_err(|fault| {
        let found = format!("{} bytes, read up to {}", value.len(), fault.at);
        Error::invalid(VALUE, 0, fault.expected, found)
    })?;
    let fields = tree.fields(root);
    let stated = fields.get("version").narrow().unwrap_or_default();
    title.put(to);
    put_message(fields, stated, Style::default(), to);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control(key: &[u8], value: &[u8]) -> Result<String> {
        let mut to = Vec::new();
        put_control(Some(key), Some(value), &mut to)?;
        Ok(String::from_utf8(to).unwrap())
    }

    /// The marker of format.md's golden vector.
    #[test]
    fn a_transaction_marker() {
        assert_eq!(
            control(&[0, 0, 0, 1], &[0, 0, 0, 0, 1, 0x5b]).unwrap(),
            " endTxnMarker: COMMIT coordinatorEpoch: 347"
        );
        assert_eq!(
            control(&[0, 0, 0, 9], &[]).unwrap(),
            " controlType: UNKNOWN(9)"
        );
    }

    #[test]
    fn voters_with_a_directory() {
        let mut value = vec![0, 0, 2, 0, 0, 0, 1];
        value.extend((0u8..16).map(|n| n.wrapping_mul(17)));
        value.extend([
            2, 2, b'C', 3, b'"', b'\n', 0x23, 0x84, 0, 0, 0, 0, 1, 0, 0, 0,
        ]);
        assert_eq!(
            control(&[0, 0, 0, 6], &value).unwrap(),
            " KRaftVoters {\"version\":0,\"voters\":[{\"voterId\":1,\"voterDirectoryId\":\"ABEiM0RVZneImaq7zN3u_w\",\
             \"endpoints\":[{\"name\":\"C\",\"host\":\"\\\"\\n\",\"port\":9092}],\
             \"kRaftVersionFeature\":{\"minSupportedVersion\":0,\"maxSupportedVersion\":1}}]}"
        );
    }

    #[test]
    fn a_cut_anywhere_is_an_error() {
        let mut whole = vec![0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0];
        assert_eq!(
            control(&[0, 0, 0, 2], &whole).unwrap(),
            " LeaderChange: {\"version\":0,\"leaderId\":1,\"voters\":[{\"voterId\":1}],\"grantingVoters\":[{\"voterId\":1}]}"
        );
        while whole.pop().is_some() {
            let mut to = b"kept".to_vec();
            assert!(put_control(Some(&[0, 0, 0, 2]), Some(&whole), &mut to).is_err());
            assert_eq!(to, b"kept");
        }
        assert!(control(&[0, 0, 0], &[]).is_err());
        assert!(put_control(Some(&[0, 0, 0, 2]), None, &mut Vec::new()).is_err());
    }
}
