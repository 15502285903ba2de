//! The schema that a payload names, and what it is the schema of.
//!
//! | where | bytes |
//! |---|---|
//! | last header `__value_schema_id` or `__key_schema_id` | `00` and an id (u32), or `01` and a GUID; then Protobuf's message indexes. The payload is bare |
//! | payload | the same, before the value; where there is no such header, or its value is null |
//! | nowhere | a schema was given for the topic |
//!
//! Source: Confluent's `SchemaId`, `DualSchemaIdDeserializer`, `MessageIndexes`.

use std::fmt;

use super::fault::{Cause, Undecoded};
use super::guid::Guid;
use super::schemas::{SchemaIndex, Schemas, Side};
use crate::format::record::HeaderIter;
use crate::format::varint::get_varint;

/// Most message indexes: messages are not nested deeper.
const MAX_INDEXES: i32 = 64;

/// The schema of a payload, as it is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SchemaName {
    Id(i64),
    Guid(Guid),
    /// That which was given for the topic.
    Topic,
}

impl fmt::Display for SchemaName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id {id}"),
            Self::Guid(guid) => write!(f, "GUID {guid}"),
            Self::Topic => f.write_str("the topic"),
        }
    }
}

impl SchemaName {
    /// Finds the schema.
    pub(crate) fn find(self, schemas: &Schemas, topic: &str, side: Side) -> Option<SchemaIndex> {
        match self {
            Self::Id(id) => schemas.by_id(id, topic, side).map(|(index, _)| index),
            Self::Guid(guid) => schemas.by_guid(guid, topic, side).map(|(index, _)| index),
            Self::Topic => schemas.given_for(topic, side),
        }
    }

    /// The id, if that is its name.
    pub(crate) const fn id(self) -> Option<i64> {
        match self {
            Self::Id(id) => Some(id),
            Self::Guid(_) | Self::Topic => None,
        }
    }

    /// The GUID, if that is its name.
    pub(crate) const fn guid(self) -> Option<Guid> {
        match self {
            Self::Guid(guid) => Some(guid),
            Self::Id(_) | Self::Topic => None,
        }
    }
}

/// A payload with its schema's name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Framed<'a> {
    pub(crate) schema: SchemaName,
    /// What follows the name in the payload.
    pub(crate) body: &'a [u8],
    /// What follows it in the header, if it is there.
    in_header: Option<&'a [u8]>,
}

impl<'a> Framed<'a> {
    /// The path to a Protobuf message, and the message.
    ///
    /// # Errors
    /// `BadMessageIndex` for one that is cut off or too long.
    pub(crate) fn message(&self) -> Result<(Vec<i32>, &'a [u8]), Undecoded> {
        if self.schema == SchemaName::Topic {
            return Ok((Vec::new(), self.body));
        }
        let bytes = self.in_header.unwrap_or(self.body);
        let bad =
            |at: usize| Undecoded::at(Cause::BadMessageIndex, at, "no list of message indexes");
        let mut at = 0usize;
        let mut next = || {
            let begin = at;
            get_varint(bytes, &mut at).ok_or_else(|| bad(begin))
        };
        let count = next()?;
        if !(0..=MAX_INDEXES).contains(&count) {
            return Err(bad(0));
        }
        let mut path = Vec::new();
        for _ in 0..count {
            path.push(next()?);
        }
        let rest = bytes.get(at..).unwrap_or_default();
        Ok((
            path,
            if self.in_header.is_some() {
                self.body
            } else {
                rest
            },
        ))
    }
}

/// Finds the name of a payload's schema; `is_given` says that one was given for the topic.
///
/// # Errors
/// `NotFramed`, `BadHeader`
#[inline]
pub(crate) fn unframe<'a>(
    is_given: bool,
    side: Side,
    payload: &'a [u8],
    headers: HeaderIter<'a>,
) -> Result<Framed<'a>, Undecoded> {
    if is_given {
        return Ok(Framed {
            schema: SchemaName::Topic,
            body: payload,
            in_header: None,
        });
    }
    let wanted: &[u8] = match side {
        Side::Key => b"__key_schema_id",
        Side::Value => b"__value_schema_id",
    };
    let named = headers.filter(|header| header.key == wanted).last();
    if let Some(header) = named.and_then(|header| header.value) {
        let (schema, rest) = name_in(header).ok_or_else(|| {
            Undecoded::new(
                Cause::BadHeader,
                format_args!(
                    "a schema header of {} bytes that is no id and no GUID",
                    header.len()
                ),
            )
        })?;
        return Ok(Framed {
            schema,
            body: payload,
            in_header: Some(rest),
        });
    }
    let (schema, body) = name_in(payload).ok_or_else(|| {
        let text = "expected 00 and an id, or 01 and a GUID";
        Undecoded::at(Cause::NotFramed, 0, text)
    })?;
    Ok(Framed {
        schema,
        body,
        in_header: None,
    })
}

#[inline]
fn name_in(bytes: &[u8]) -> Option<(SchemaName, &[u8])> {
    let (&magic, rest) = bytes.split_first()?;
    match magic {
        0 => {
            let (id, rest) = rest.split_first_chunk::<4>()?;
            Some((SchemaName::Id(i32::from_be_bytes(*id).into()), rest))
        }
        1 => {
            let (guid, rest) = rest.split_first_chunk::<16>()?;
            Some((SchemaName::Guid(Guid(*guid)), rest))
        }
        _ => None,
    }
}
