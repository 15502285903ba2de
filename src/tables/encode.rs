//! Encodes messages, the inverse of [`decode`](super::decode): from the JSON of [`json`](super::json), by the same
//! table, as Kafka's generated classes write them (`MessageDataGenerator`, `JsonConverterGenerator`).
//!
//! A field that is not tagged must be given, and one that its version lacks must not be. Tagged fields with their
//! default value are left out, and the others follow in the order of their tags.

use std::fmt::Display;

use base64::Engine as _;
use serde_json::Value;

use super::json::BASE64;
use super::messages::{FieldLayout, MessageField, MessageSchema, Type};
use super::node::Node;
use crate::error::{Error, Result};
use crate::format::uuid::Uuid;
use crate::format::varint::put_uvarint;

/// The longest string (`Short.MAX_VALUE`).
const MAX_STRING: usize = 0x7fff;
/// Characters of a value that an error quotes.
const QUOTED: usize = 60;

/// Appends a message in this version.
///
/// # Errors
/// `InvalidArgument` that names the message and the field where the JSON does not say such a message, or the version is
/// unknown. Something may have been appended.
pub(crate) fn put_message(
    message: &'static MessageSchema,
    version: i16,
    json: &str,
    to: &mut Vec<u8>,
) -> Result<()> {
    if !message.valid.has(version) {
        return Err(Error::InvalidArgument(format!(
            "{}: expected a known version, found {version}",
            message.name
        )));
    }
    let writer = Writer {
        version,
        is_flexible: message.flexible.has(version),
    };
    serde_json::from_str(json)
        .map_err(|_| fault("an object", json))
        .and_then(|given| writer.structure(&message.layout, &given, to))
        .map_err(|fault| fault.of(message, version))
}

/// Fault, and the field that has it.
struct EncodeFault {
    field: String,
    expected: String,
    found: String,
}

type EncodeResult = std::result::Result<(), EncodeFault>;

fn fault(expected: impl Into<String>, found: impl Display) -> EncodeFault {
    let mut found = found.to_string();
    if let Some((end, _)) = found.char_indices().nth(QUOTED) {
        found.truncate(end);
        found.push_str("...");
    }
    EncodeFault {
        field: String::new(),
        expected: expected.into(),
        found,
    }
}

impl EncodeFault {
    /// The same, seen from around it.
    fn within(mut self, outer: &str) -> Self {
        self.field = match self.field.as_str() {
            "" => outer.to_owned(),
            inner if inner.starts_with('[') => format!("{outer}{inner}"),
            inner => format!("{outer}.{inner}"),
        };
        self
    }

    fn of(self, message: &MessageSchema, version: i16) -> Error {
        let field = match self.field.as_str() {
            "" => String::new(),
            field => format!(": {field}"),
        };
        Error::InvalidArgument(format!(
            "{} of version {version}{field}: expected {}, found {}",
            message.name, self.expected, self.found
        ))
    }
}

#[derive(Clone, Copy)]
struct Writer {
    version: i16,
    is_flexible: bool,
}

impl Writer {
    fn structure(
        self,
        layout: &'static FieldLayout,
        json: &Value,
        to: &mut Vec<u8>,
    ) -> EncodeResult {
        let given = json.as_object().ok_or_else(|| fault("an object", json))?;
        let has = |field: &&MessageField| field.versions.has(self.version);
        if let Some(unknown) = given
            .keys()
            .find(|name| !layout.fields.iter().filter(has).any(|f| f.name == **name))
        {
            return Err(fault("no such field in this version", unknown).within(unknown));
        }
        let mut tagged = Vec::new();
        for field in layout.fields.iter().filter(has) {
            let value = given.get(&field.name);
            match (field.tag_in(self.version), value) {
                (Some(tag), Some(value)) if !is_default(field, value) => {
                    tagged.push((tag, field, value));
                }
                (Some(_), _) => {}
                (None, Some(value)) => self.named(field, value, to)?,
                (None, None) => return Err(fault("a value", "none").within(&field.name)),
            }
        }
        if !self.is_flexible {
            return Ok(());
        }
        tagged.sort_by_key(|&(tag, ..)| tag);
        put_uvarint(size(tagged.len())?, to);
        for (tag, field, value) in tagged {
            let mut bytes = Vec::new();
            self.named(field, value, &mut bytes)?;
            put_uvarint(tag, to);
            put_uvarint(size(bytes.len())?, to);
            to.extend(bytes);
        }
        Ok(())
    }

    fn named(self, field: &'static MessageField, json: &Value, to: &mut Vec<u8>) -> EncodeResult {
        self.field(field, json, to)
            .map_err(|fault| fault.within(&field.name))
    }

    fn field(self, field: &'static MessageField, json: &Value, to: &mut Vec<u8>) -> EncodeResult {
        if json.is_null() {
            return self.null(field, to);
        }
        if field.is_array {
            let given = json.as_array().ok_or_else(|| fault("an array", json))?;
            self.put_length(given.len(), to)?;
            for (n, element) in given.iter().enumerate() {
                self.value(field, element, to)
                    .map_err(|fault| fault.within(&format!("[{n}]")))?;
            }
            return Ok(());
        }
        if field.kind == Type::Struct && field.nullable.has(self.version) {
            // One byte, as a varint or not.
            to.push(1);
        }
        self.value(field, json, to)
    }

    fn null(self, field: &MessageField, to: &mut Vec<u8>) -> EncodeResult {
        if !field.nullable.has(self.version) {
            return Err(fault("a value that is not null", "null"));
        }
        let is_tagged = field.tag_in(self.version).is_some();
        match (field.is_array, field.kind) {
            (false, Type::Struct) if is_tagged => put_uvarint(0, to),
            (false, Type::Struct) => to.extend((-1i8).to_be_bytes()),
            _ if self.is_flexible => put_uvarint(0, to),
            (false, Type::String) => to.extend((-1i16).to_be_bytes()),
            _ => to.extend((-1i32).to_be_bytes()),
        }
        Ok(())
    }

    /// A value that is not null, or an element of an array.
    fn value(self, field: &'static MessageField, json: &Value, to: &mut Vec<u8>) -> EncodeResult {
        match field.kind {
            Type::Struct => return self.structure(&field.layout, json, to),
            Type::String => {
                let text = json.as_str().ok_or_else(|| fault("a string", json))?;
                if text.len() > MAX_STRING {
                    let found = format!("{} bytes", text.len());
                    return Err(fault(format!("at most {MAX_STRING} bytes"), found));
                }
                match i16::try_from(text.len()) {
                    Ok(len) if !self.is_flexible => to.extend(len.to_be_bytes()),
                    _ => self.put_length(text.len(), to)?,
                }
                to.extend(text.as_bytes());
            }
            Type::Bytes => {
                let bytes = json.as_str().and_then(|text| BASE64.decode(text).ok());
                let bytes = bytes.ok_or_else(|| fault("a string of base64", json))?;
                self.put_length(bytes.len(), to)?;
                to.extend(bytes);
            }
            Type::Uuid => {
                let id = uuid(json).ok_or_else(|| fault("22 characters of base64url", json))?;
                to.extend(id.0.to_be_bytes());
            }
            Type::Bool => {
                let value = json.as_bool().ok_or_else(|| fault("true or false", json))?;
                to.push(value.into());
            }
            Type::Float64 => {
                let value = float(json).ok_or_else(|| fault("a number", json))?;
                to.extend(value.to_be_bytes());
            }
            Type::Int8 => to.extend(int::<i8>("int8", json)?.to_be_bytes()),
            Type::Int16 => to.extend(int::<i16>("int16", json)?.to_be_bytes()),
            Type::Uint16 => to.extend(int::<u16>("uint16", json)?.to_be_bytes()),
            Type::Int32 => to.extend(int::<i32>("int32", json)?.to_be_bytes()),
            Type::Int64 => to.extend(int::<i64>("int64", json)?.to_be_bytes()),
        }
        Ok(())
    }

    /// The length of bytes or an array.
    fn put_length(self, len: usize, to: &mut Vec<u8>) -> EncodeResult {
        let len = size(len)?;
        if self.is_flexible {
            put_uvarint(len.saturating_add(1), to);
        } else {
            to.extend(len.to_be_bytes());
        }
        Ok(())
    }
}

/// Returns whether JSON says what a field holds that is not given.
fn is_default(field: &'static MessageField, json: &Value) -> bool {
    match field.default {
        Node::Null => json.is_null(),
        Node::Bool(default) => json.as_bool() == Some(default),
        Node::Int(default) => json.as_i64() == Some(default),
        Node::Float(default) => float(json).is_some_and(|v| v.to_bits() == default.to_bits()),
        Node::Uuid(default) => uuid(json).is_some_and(|id| id.0.to_be_bytes() == *default),
        Node::Array { .. } => json.as_array().is_some_and(Vec::is_empty),
        Node::Text(_) | Node::Bytes(_) => json.as_str().is_some_and(str::is_empty),
        // A structure, whose fields hold their defaults; null is another value.
        _ => json.as_object().is_some_and(|given| {
            given.iter().all(|(name, value)| {
                let own = field.layout.fields.iter().find(|own| own.name == *name);
                own.is_some_and(|own| is_default(own, value))
            })
        }),
    }
}

/// A length or a count.
fn size(len: usize) -> std::result::Result<u32, EncodeFault> {
    let len = i32::try_from(len).map_err(|_| fault("at most 2^31 - 1", len))?;
    Ok(len.unsigned_abs())
}

fn int<T: TryFrom<i64>>(name: &str, json: &Value) -> std::result::Result<T, EncodeFault> {
    let value = json.as_i64().and_then(|value| T::try_from(value).ok());
    value.ok_or_else(|| fault(name, json))
}

/// A number, or the text that stands in for one that JSON cannot say.
fn float(json: &Value) -> Option<f64> {
    match json.as_str() {
        Some("NaN") => Some(f64::NAN),
        Some("Infinity") => Some(f64::INFINITY),
        Some("-Infinity") => Some(f64::NEG_INFINITY),
        _ => json.as_f64(),
    }
}

fn uuid(json: &Value) -> Option<Uuid> {
    json.as_str()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables::messages::{Family, Table};

    fn encoded(name: (Family, i16), version: i16, json: &str) -> Result<Vec<u8>> {
        let message = &Table::get().unwrap().kind(name.0, name.1).unwrap().value;
        let mut to = Vec::new();
        put_message(message, version, json, &mut to)?;
        Ok(to)
    }

    const PARTITION: (Family, i16) = (Family::Metadata, 3);
    const MEMBER: (Family, i16) = (Family::Group, 5);
    const GROUP: (Family, i16) = (Family::Group, 2);

    /// Tags in order, those with their default left out; bytes by KIP-482.
    #[test]
    fn tagged_fields() {
        let id = "AAAAAAAAAAAAAAAAAAAAAg";
        let json = format!(
            r#"{{"partitionId":7,"topicId":"{id}","replicas":[1],"isr":[1],"removingReplicas":[],
            "addingReplicas":[2],"leader":1,"leaderEpoch":3,"partitionEpoch":4,"directories":["{id}"],
            "leaderRecoveryState":1,"lastKnownElr":null,"eligibleLeaderReplicas":[]}}"#
        );
        let mut raw = vec![0, 0, 0, 7];
        let id = [&[0; 15][..], &[2]].concat();
        raw.extend(&id);
        raw.extend([2, 0, 0, 0, 1, 2, 0, 0, 0, 1, 1, 2, 0, 0, 0, 2]);
        raw.extend([0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 4]);
        raw.push(2);
        raw.extend(&id);
        // leaderRecoveryState, and the list that is empty where none is the default.
        raw.extend([2, 0, 1, 1, 1, 1, 1]);
        assert_eq!(encoded(PARTITION, 2, &json).unwrap(), raw);
    }

    /// The lengths of plain and of flexible encoding, and nulls.
    #[test]
    fn both_encodings() {
        let json = r#"{"protocolType":"","generation":-1,"protocol":null,"leader":"x","currentStateTimestamp":5,
            "members":[{"memberId":"m","groupInstanceId":null,"clientId":"","clientHost":"\u20ac","rebalanceTimeout":1,
            "sessionTimeout":2,"subscription":"AQI=","assignment":""}]}"#;
        let plain = encoded(GROUP, 3, json).unwrap();
        let begin = [0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0, 1, b'x'];
        assert_eq!(plain.get(..11), Some(&begin[..]));
        assert!(plain.ends_with(&[0, 0, 0, 2, 1, 2, 0, 0, 0, 0]));
        let flexible = encoded(GROUP, 4, json).unwrap();
        let begin = [1, 0xff, 0xff, 0xff, 0xff, 0, 2, b'x'];
        assert_eq!(flexible.get(..8), Some(&begin[..]));
        assert!(flexible.ends_with(&[3, 1, 2, 1, 0, 0]));
    }

    /// A tagged structure that may be null: a byte more, which says that it is there.
    #[test]
    fn a_structure_that_may_be_null() {
        let json = |classic: &str| {
            format!(
                r#"{{"instanceId":null,"rackId":null,"clientId":"","clientHost":"","subscribedTopicNames":[],
                "subscribedTopicRegex":null,"rebalanceTimeoutMs":0,"serverAssignor":null{classic}}}"#
            )
        };
        // Not given, it is one whose fields hold their defaults; null is another value.
        let without = [0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(encoded(MEMBER, 0, &json("")).unwrap(), without);
        let null = encoded(MEMBER, 0, &json(r#","classicMemberMetadata":null"#)).unwrap();
        assert_eq!(null.get(11..), Some(&[1, 0, 1, 0][..]));
        let classic = r#","classicMemberMetadata":{"sessionTimeoutMs":9,"supportedProtocols":[]}"#;
        let with = encoded(MEMBER, 0, &json(classic)).unwrap();
        assert_eq!(with.get(11..), Some(&[1, 0, 7, 1, 0, 0, 0, 9, 1, 0][..]));
    }

    #[test]
    fn what_is_no_such_message() {
        let group = |with: &str| {
            let fields = r#""protocolType":"","generation":0,"protocol":null,"leader":null,"currentStateTimestamp":0"#;
            format!("{{{fields},{with}}}")
        };
        let member = |with: &str| {
            let fields = r#""memberId":"","groupInstanceId":null,"clientId":"","clientHost":"","rebalanceTimeout":1"#;
            group(&format!(r#""members":[{{{fields},{with}}}]"#))
        };
        for (json, error) in [
            ("[]".to_owned(), ": expected an object, found []"),
            (
                group(r#""members":1"#),
                ": members: expected an array, found 1",
            ),
            (
                group(r#""members":null"#),
                ": members: expected a value that is not null, found null",
            ),
            (
                group(r#""members":[2]"#),
                ": members[0]: expected an object, found 2",
            ),
            (
                member(r#""sessionTimeout":2147483648"#),
                ": members[0].sessionTimeout: expected int32, found 2147483648",
            ),
            (
                member(r#""sessionTimeout":0,"subscription":"***""#),
                ": members[0].subscription: expected a string of base64, found \"***\"",
            ),
            (
                member(r#""sessionTimeout":0,"subscription":"AAAA""#),
                ": members[0].assignment: expected a value, found none",
            ),
            (
                group(r#""members":[],"epoch":1"#),
                ": epoch: expected no such field in this version, found epoch",
            ),
        ] {
            let found = encoded(GROUP, 3, &json).unwrap_err().to_string();
            assert_eq!(found, format!("GroupMetadataValue of version 3{error}"));
        }
        let found = encoded(GROUP, 9, "{}").unwrap_err().to_string();
        assert_eq!(
            found,
            "GroupMetadataValue: expected a known version, found 9"
        );
        let long = format!(r#"{{"name":"{}","topicId":"x"}}"#, "é".repeat(20_000));
        let found = encoded((Family::Metadata, 2), 0, &long)
            .unwrap_err()
            .to_string();
        assert!(
            found.ends_with("name: expected at most 32767 bytes, found 40000 bytes"),
            "{found}"
        );
        let found = encoded((Family::Metadata, 2), 0, r#"{"name":"","topicId":"x"}"#);
        let found = found.unwrap_err().to_string();
        assert!(
            found.ends_with("topicId: expected 22 characters of base64url, found \"x\""),
            "{found}"
        );
    }
}
