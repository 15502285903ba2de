//! What a control record says, as the tool prints it: transaction markers, and KRaft's records as JSON.
//!
//! | type | value, behind its own i16 version |
//! |---|---|
//! | 0 ABORT, 1 COMMIT | i32 coordinator epoch |
//! | 2 LeaderChange | i32 leader; voters and granting voters: arrays of i32 voter |
//! | 3 SnapshotHeader | i64 last contained log timestamp |
//! | 4 SnapshotFooter | |
//! | 5 KRaftVersion | i16 version |
//! | 6 KRaftVoters | array of: i32 voter, uuid directory, array of (name, host, u16 port), i16 min, i16 max version |
//!
//! KRaft's are in the flexible encoding (KIP-482): lengths are unsigned varints of one more, every structure ends with
//! tagged fields. The tool reads the layout of version 0 whatever version a record states, and so do we.
//! Sources: `ControlRecordType`, `EndTransactionMarker`, `ControlRecordUtils`, KIP-595, KIP-630, KIP-853.

use crate::error::{Error, Result};
use crate::format::control::{ControlType, EndTransactionMarker};
use crate::format::cursor::{bytes, get_i16};
use crate::format::put::Put;
use crate::format::text::put_text;
use crate::format::uuid::Uuid;
use crate::format::varint::get_uvarint;

/// Where the type stands in a control record's key.
const TYPE_AT: usize = 2;

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
    let fields = || {
        value
            .map(Fields::new)
            .ok_or_else(|| Error::invalid("control record value", 0, "a value", "null"))
    };
    match ControlType::parse(key)? {
        kind @ (ControlType::Abort | ControlType::Commit) => {
            let marker = EndTransactionMarker::parse(fields()?.data)?;
            " endTxnMarker: ".put(to);
            kind.name().put(to);
            " coordinatorEpoch: ".put(to);
            marker.coordinator_epoch.put(to);
            Ok(())
        }
        ControlType::LeaderChange => leader_change(&mut fields()?, to),
        ControlType::SnapshotHeader => {
            let mut value = fields()?;
            " SnapshotHeader {\"version\":".put(to);
            value.i16()?.put(to);
            ",\"lastContainedLogTimestamp\":".put(to);
            value.i64()?.put(to);
            value.end(to)
        }
        ControlType::SnapshotFooter => {
            let mut value = fields()?;
            " SnapshotFooter {\"version\":".put(to);
            value.i16()?.put(to);
            value.end(to)
        }
        ControlType::KraftVersion => {
            let mut value = fields()?;
            " KRaftVersion {\"version\":".put(to);
            value.i16()?.put(to);
            ",\"kRaftVersion\":".put(to);
            value.i16()?.put(to);
            value.end(to)
        }
        ControlType::KraftVoters => voters(&mut fields()?, to),
        ControlType::Unknown => {
            " controlType: UNKNOWN(".put(to);
            get_i16(key, TYPE_AT).unwrap_or_default().put(to);
            ")".put(to);
            Ok(())
        }
    }
}

fn leader_change(value: &mut Fields<'_>, to: &mut Vec<u8>) -> Result<()> {
    let version = value.i16()?;
    " LeaderChange: {\"version\":".put(to);
    version.put(to);
    ",\"leaderId\":".put(to);
    value.i32()?.put(to);
    for name in ["voters", "grantingVoters"] {
        ",\"".put(to);
        name.put(to);
        "\":".put(to);
        value.array(to, |value, to| {
            "{\"voterId\":".put(to);
            value.i32()?.put(to);
            if version > 0 {
                // Read by the layout of version 0, which has none.
                ",\"voterDirectoryId\":".put(to);
                put_uuid([0; 16], to);
            }
            value.end(to)
        })?;
    }
    value.end(to)
}

fn voters(value: &mut Fields<'_>, to: &mut Vec<u8>) -> Result<()> {
    " KRaftVoters {\"version\":".put(to);
    value.i16()?.put(to);
    ",\"voters\":".put(to);
    value.array(to, |value, to| {
        "{\"voterId\":".put(to);
        value.i32()?.put(to);
        ",\"voterDirectoryId\":".put(to);
        put_uuid(value.take()?, to);
        ",\"endpoints\":".put(to);
        value.array(to, |value, to| {
            "{\"name\":".put(to);
            value.string(to)?;
            ",\"host\":".put(to);
            value.string(to)?;
            ",\"port\":".put(to);
            u16::from_be_bytes(value.take()?).put(to);
            value.end(to)
        })?;
        ",\"kRaftVersionFeature\":{\"minSupportedVersion\":".put(to);
        value.i16()?.put(to);
        ",\"maxSupportedVersion\":".put(to);
        value.i16()?.put(to);
        value.end(to)?;
        value.end(to)
    })?;
    value.end(to)
}

/// Reads one message field by field.
struct Fields<'a> {
    data: &'a [u8],
    at: usize,
}

impl<'a> Fields<'a> {
    const fn new(data: &'a [u8]) -> Self {
        Self { data, at: 0 }
    }

    #[cold]
    fn fault(&self, expected: &str) -> Error {
        let found = format!("{} bytes, read up to {}", self.data.len(), self.at);
        Error::invalid("control record value", 0, expected, found)
    }

    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let taken = *bytes::<N>(self.data, self.at).ok_or_else(|| self.fault("more bytes"))?;
        self.at = self.at.saturating_add(N);
        Ok(taken)
    }

    fn i16(&mut self) -> Result<i16> {
        Ok(i16::from_be_bytes(self.take()?))
    }

    fn i32(&mut self) -> Result<i32> {
        Ok(i32::from_be_bytes(self.take()?))
    }

    fn i64(&mut self) -> Result<i64> {
        Ok(i64::from_be_bytes(self.take()?))
    }

    fn uvarint(&mut self) -> Result<usize> {
        let read = get_uvarint(self.data, &mut self.at);
        read.and_then(|value| usize::try_from(value).ok())
            .ok_or_else(|| self.fault("an unsigned varint"))
    }

    /// A length, which stands as one more; 0 is null, and null is not allowed.
    fn length(&mut self) -> Result<usize> {
        let length = self.uvarint()?;
        let left = self.data.len().saturating_sub(self.at);
        length
            .checked_sub(1)
            .filter(|&length| length <= left)
            .ok_or_else(|| self.fault("a length within what is left"))
    }

    fn slice(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.saturating_add(length);
        let slice = self.data.get(self.at..end);
        let slice = slice.ok_or_else(|| self.fault("more bytes"))?;
        self.at = end;
        Ok(slice)
    }

    fn string(&mut self, to: &mut Vec<u8>) -> Result<()> {
        let length = self.length()?;
        put_json_string(self.slice(length)?, to);
        Ok(())
    }

    fn array(
        &mut self,
        to: &mut Vec<u8>,
        mut element: impl FnMut(&mut Self, &mut Vec<u8>) -> Result<()>,
    ) -> Result<()> {
        to.push(b'[');
        for n in 0..self.length()? {
            if n > 0 {
                to.push(b',');
            }
            element(self, to)?;
        }
        to.push(b']');
        Ok(())
    }

    /// The end of a structure: tagged fields, none of which is known, and the closing brace.
    fn end(&mut self, to: &mut Vec<u8>) -> Result<()> {
        for _ in 0..self.uvarint()? {
            self.uvarint()?;
            let length = self.uvarint()?;
            self.slice(length)?;
        }
        to.push(b'}');
        Ok(())
    }
}

/// A JSON string as Jackson writes it.
fn put_json_string(raw: &[u8], to: &mut Vec<u8>) {
    let mut text = Vec::with_capacity(raw.len());
    put_text(raw, &mut text);
    to.push(b'"');
    for byte in text {
        match byte {
            b'"' => "\\\"".put(to),
            b'\\' => "\\\\".put(to),
            0x08 => "\\b".put(to),
            0x09 => "\\t".put(to),
            0x0a => "\\n".put(to),
            0x0c => "\\f".put(to),
            0x0d => "\\r".put(to),
            0x00..0x20 => format!("\\u{byte:04X}").as_str().put(to),
            _ => to.push(byte),
        }
    }
    to.push(b'"');
}

/// A quoted `org.apache.kafka.common.Uuid`.
fn put_uuid(uuid: [u8; 16], to: &mut Vec<u8>) {
    to.push(b'"');
    let id = Uuid(u128::from_be_bytes(uuid)).to_string();
    to.extend_from_slice(id.as_bytes());
    to.push(b'"');
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
    fn cut_anywhere_it_is_an_error_and_nothing_is_left_behind() {
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
