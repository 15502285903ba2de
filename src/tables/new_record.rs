//! Builds a record of an internal topic from its messages as JSON: the inverse of [`topic`](super::topic), whose table
//! shows the layout of key and value.

use super::encode::put_message;
use super::messages::Table;
use super::topic::{FRAME_VERSION, KEY_VERSION, Topic};
use crate::error::{Error, Result};
use crate::format::varint::put_uvarint;

/// A key or a value; `None` for null.
type EncodedPart = Option<Vec<u8>>;
/// Key and value.
pub(crate) type KeyAndValue = (EncodedPart, EncodedPart);

/// Key and value of a record of the kind with Kafka's name (`OffsetCommit`, `TOPIC_RECORD`). Topics with keys take a
/// value of `None` for a tombstone; topics without keys take no key.
///
/// # Errors
/// `InvalidArgument` for a kind or version that the topic does not have, a key or value too many or too few, and JSON
/// that does not say the message; `Internal` where the table of messages is broken.
pub(crate) fn encode(
    topic: Topic,
    kind: &str,
    version: i16,
    key: Option<&str>,
    value: Option<&str>,
) -> Result<KeyAndValue> {
    let found = Table::get()?.named(topic.family(), kind);
    let (api_key, kind) = found.ok_or_else(|| {
        let topic = topic.name();
        Error::InvalidArgument(format!(
            "{topic}: expected a known kind of record, found {kind:?}"
        ))
    })?;
    let wrong = |expected: &str| {
        Err(Error::InvalidArgument(format!(
            "{}: expected {expected}",
            kind.name
        )))
    };
    match (&kind.key, key, value) {
        (Some(message), Some(key), value) => {
            let mut new_key = api_key.to_be_bytes().to_vec();
            put_message(message, KEY_VERSION, key, &mut new_key)?;
            let new_value = match value {
                Some(value) => {
                    let mut to = version.to_be_bytes().to_vec();
                    put_message(&kind.value, version, value, &mut to)?;
                    Some(to)
                }
                None => None,
            };
            Ok((Some(new_key), new_value))
        }
        (None, None, Some(value)) => {
            let mut to = Vec::new();
            for number in [
                FRAME_VERSION,
                api_key.unsigned_abs().into(),
                version.unsigned_abs().into(),
            ] {
                put_uvarint(number, &mut to);
            }
            put_message(&kind.value, version, value, &mut to)?;
            Ok((None, Some(to)))
        }
        (Some(_), None, _) => wrong("a key, found none"),
        (None, Some(_), _) => wrong("no key, found one"),
        (None, None, None) => wrong("a value, found none"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn with_a_key_and_without() {
        let key = r#"{"group":"g","topic":"t","partition":2}"#;
        let value = r#"{"offset":5,"leaderEpoch":-1,"metadata":"","commitTimestamp":0}"#;
        let coded = |key, value| encode(Topic::ConsumerOffsets, "OffsetCommit", 3, key, value);
        let (new_key, new_value) = coded(Some(key), Some(value)).unwrap();
        assert_eq!(
            new_key,
            Some(vec![0, 1, 0, 1, b'g', 0, 1, b't', 0, 0, 0, 2])
        );
        let mut expected = vec![0, 3, 0, 0, 0, 0, 0, 0, 0, 5, 0xff, 0xff, 0xff, 0xff, 0, 0];
        expected.extend([0; 8]);
        assert_eq!(new_value, Some(expected));
        assert_eq!(coded(Some(key), None).unwrap().1, None);
        let framed = encode(
            Topic::ClusterMetadata,
            "FEATURE_LEVEL_RECORD",
            0,
            None,
            Some(r#"{"name":"f","featureLevel":7}"#),
        );
        assert_eq!(
            framed.unwrap(),
            (None, Some(vec![1, 12, 0, 2, b'f', 0, 7, 0]))
        );
        let text = coded(None, Some(value)).unwrap_err().to_string();
        assert_eq!(text, "OffsetCommit: expected a key, found none");
        let record = |kind, key, value| {
            let made = encode(Topic::ClusterMetadata, kind, 0, key, value);
            made.unwrap_err().to_string()
        };
        assert_eq!(
            record("NO_OP_RECORD", Some("{}"), Some("{}")),
            "NO_OP_RECORD: expected no key, found one"
        );
        assert_eq!(
            record("NO_OP_RECORD", None, None),
            "NO_OP_RECORD: expected a value, found none"
        );
        assert_eq!(
            record("OffsetCommit", None, None),
            "__cluster_metadata: expected a known kind of record, found \"OffsetCommit\""
        );
    }
}
