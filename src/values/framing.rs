//! Framings: the bytes and headers that say under which schema a payload was written.
//!
//! | framing | where | bytes | then |
//! |---|---|---|---|
//! | Confluent | payload | `00`, id (u32) | message indexes of Protobuf; the value |
//! | Confluent, by content | payload | `01`, GUID | likewise; only if a schema has the GUID |
//! | Confluent, in headers | the last `__value_schema_id` or `__key_schema_id` | `00`, id or `01`, GUID; message indexes | the payload is the value |
//! | Apicurio | payload | `00`, id (u32 or u64) | name of the message of Protobuf; the value |
//! | Apicurio, in headers | `apicurio.value.contentId`, `globalId` | id (u64) | name of the message; the value |
//! | AWS Glue | payload | `03`, `00` or `05` (zlib), UUID | the value |
//! | none | | | the payload is the value |
//!
//! Those of Apicurio and Glue count only where the user gives schemas by their ids: no registry's topic has them. `none`
//! is for topics for which the user gives a schema.
//!
//! A header that is there decides, unless its value is null (`DualSchemaIdDeserializer`).

use std::borrow::Cow;
use std::fmt;
use std::io::Read;
use std::sync::Arc;

use flate2::read::ZlibDecoder;

use super::fault::{Cause, Undecoded};
use super::guid::Guid;
use super::schemas::{FoundBy, SchemaIndex, SchemaKind, Schemas, Side};
use crate::format::record::Header;
use crate::format::varint::{get_uvarint, get_varint};

const BY_ID: u8 = 0;
const BY_GUID: u8 = 1;
const OF_GLUE: u8 = 3;
const GLUE_PLAIN: u8 = 0;
const GLUE_ZLIB: u8 = 5;
/// Most message indexes: nesting, which no descriptor has as deep.
const MOST_INDEXES: i32 = 100;
/// Schemas that are remembered by the last bits of their ids.
const SLOTS: usize = 64;

/// Id of a schema in a payload or a header.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum WireId {
    /// A number: Confluent's, or Apicurio's.
    Id(i64),
    /// An id by content, or the UUID of AWS Glue.
    Guid(Guid),
    /// None: the user has named the schema.
    Unframed,
}

impl fmt::Display for WireId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => write!(f, "id {id}"),
            Self::Guid(guid) => write!(f, "GUID {guid}"),
            Self::Unframed => f.write_str("no id"),
        }
    }
}

/// A payload without its framing. Its message is [`Framer::message`], until the next payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    /// As it was written.
    pub(crate) id: WireId,
    pub(crate) schema: SchemaIndex,
    pub(crate) by: FoundBy,
    /// The value; unpacked, if Glue has compressed it.
    pub(crate) body: Cow<'a, [u8]>,
    /// Bytes of the payload before the value.
    pub(crate) start: usize,
    /// A value that is Avro `bytes` as a whole has no length: Confluent's serializers write none.
    pub(crate) bare_bytes: bool,
}

/// A payload without a schema, and the id that it has all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unframed {
    pub(crate) id: Option<WireId>,
    pub(crate) reason: Undecoded,
}

impl From<Undecoded> for Unframed {
    fn from(reason: Undecoded) -> Self {
        Self { id: None, reason }
    }
}

/// The serializer whose framing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Maker {
    Confluent,
    Apicurio,
    Glue,
    Nobody,
}

/// A schema that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FoundSchema {
    schema: SchemaIndex,
    by: FoundBy,
    has_messages: bool,
}

/// Reads the framings of one side of a topic.
#[derive(Debug)]
pub(crate) struct Framer {
    schemas: Arc<Schemas>,
    topic: String,
    side: Side,
    /// Of all payloads: there is no framing.
    given: Option<FoundSchema>,
    /// Schemas are given by the ids of Apicurio or Glue.
    has_given_ids: bool,
    header: String,
    apicurio: String,
    slots: Box<[Option<(WireId, FoundSchema)>]>,
    message: Vec<i32>,
    /// Most bytes of an unpacked value.
    limit: usize,
}

impl Framer {
    /// Creates a reader of the payloads of this side of `topic`; those that Glue has compressed may have up to `limit`
    /// bytes.
    pub(crate) fn new(schemas: Arc<Schemas>, topic: &str, side: Side, limit: usize) -> Self {
        let mut framer = Self {
            has_given_ids: schemas.has_given_ids(),
            topic: topic.to_owned(),
            side,
            given: None,
            header: format!("__{}_schema_id", side.name()),
            apicurio: format!("apicurio.{}.", side.name()),
            slots: vec![None; SLOTS].into(),
            message: Vec::new(),
            limit,
            schemas,
        };
        let given = framer.schemas.given_for(topic, side);
        framer.given = given.map(|schema| framer.resolved(schema, FoundBy::Given));
        framer
    }

    /// Path of the last payload's Protobuf message in its file; empty for the first message.
    pub(crate) fn message(&self) -> &[i32] {
        &self.message
    }

    fn resolved(&self, schema: SchemaIndex, by: FoundBy) -> FoundSchema {
        let row = self.schemas.get(schema);
        FoundSchema {
            schema,
            by,
            has_messages: row.is_some_and(|row| row.kind == SchemaKind::Protobuf),
        }
    }

    #[inline]
    fn find(&mut self, id: WireId) -> Option<FoundSchema> {
        let slot = match id {
            WireId::Id(id) => id.rem_euclid(64),
            WireId::Guid(Guid([.., last])) => i64::from(last % 64),
            WireId::Unframed => return self.given,
        };
        let slot = usize::try_from(slot).unwrap_or_default();
        match self.slots.get(slot) {
            Some(Some((known, found))) if *known == id => Some(*found),
            _ => self.look_up(id, slot),
        }
    }

    #[cold]
    fn look_up(&mut self, id: WireId, slot: usize) -> Option<FoundSchema> {
        let (schema, by) = match id {
            WireId::Id(id) => self.schemas.by_id(id, &self.topic, self.side)?,
            WireId::Guid(guid) => self.schemas.by_guid(guid, &self.topic, self.side)?,
            WireId::Unframed => return self.given,
        };
        let found = self.resolved(schema, by);
        if let Some(place) = self.slots.get_mut(slot) {
            *place = Some((id, found));
        }
        Some(found)
    }

    /// The schema and the value of a payload without headers, of Confluent's framing and a schema without messages that was
    /// found before: what [`Framer::frame`] says, for less.
    #[inline]
    pub(crate) fn plain<'a>(&self, payload: &'a [u8]) -> Option<(SchemaIndex, &'a [u8])> {
        let [BY_ID, a, b, c, d, body @ ..] = payload else {
            return None;
        };
        let id = of_u32([*a, *b, *c, *d]);
        let slot = usize::from(d % 64);
        let (known, found) = self.slots.get(slot).copied().flatten()?;
        let is_plain = self.given.is_none() && !found.has_messages;
        (known == id && is_plain).then_some((found.schema, body))
    }

    /// Reads the framing of a payload that is not null.
    ///
    /// # Errors
    /// `NotFramed`, `UnknownId`, `BadHeader`, `BadMessageIndex`; of a compressed payload `Malformed` and `TooLarge`.
    #[inline]
    pub(crate) fn frame<'a>(
        &mut self,
        payload: &'a [u8],
        headers: impl Iterator<Item = Header<'a>>,
    ) -> Result<Frame<'a>, Unframed> {
        self.message.clear();
        if let Some(given) = self.given {
            return self.body(WireId::Unframed, given, Maker::Nobody, payload, 0);
        }
        let (mut confluent, mut apicurio) = (None, None);
        for Header { key, value } in headers {
            if key == self.header.as_bytes() {
                confluent = Some(value);
            } else if self.has_given_ids
                && let Some(name) = key.strip_prefix(self.apicurio.as_bytes())
            {
                match name {
                    b"contentId" | b"globalId" if apicurio.is_none() => apicurio = value,
                    b"encoding" if value == Some(b"JSON") => {
                        let text = "values in Avro's JSON encoding are not decoded";
                        return Err(Undecoded::new(Cause::BadHeader, text).into());
                    }
                    _ => {}
                }
            }
        }
        if let Some(Some(header)) = confluent {
            return self.by_header(header, payload);
        }
        if let Some(id) = apicurio {
            let Some(id) = number(id) else {
                return Err(bad_header(&self.apicurio, "the 8 bytes of an id", id).into());
            };
            return self.body_of(WireId::Id(id), Maker::Apicurio, payload, 0);
        }
        self.by_payload(payload)
    }

    fn by_header<'a>(&mut self, header: &[u8], payload: &'a [u8]) -> Result<Frame<'a>, Unframed> {
        let named = match *header {
            [BY_ID, a, b, c, d, ref rest @ ..] => Some((of_u32([a, b, c, d]), rest)),
            [BY_GUID, ref rest @ ..] => guid(rest),
            _ => None,
        };
        let Some((id, indexes)) = named else {
            let expected = "00 and 4 bytes of an id, or 01 and 16 bytes of a GUID";
            return Err(bad_header(&self.header, expected, header).into());
        };
        let found = self.known(id)?;
        if found.has_messages && !indexes.is_empty() {
            let read = read_indexes(indexes, &mut self.message);
            read.ok_or_else(|| bad_indexes(id, 0))?;
        }
        Ok(Frame {
            id,
            schema: found.schema,
            by: found.by,
            body: Cow::Borrowed(payload),
            start: 0,
            bare_bytes: true,
        })
    }

    #[inline]
    fn by_payload<'a>(&mut self, payload: &'a [u8]) -> Result<Frame<'a>, Unframed> {
        match *payload {
            [BY_ID, a, b, c, d, ..] => {
                let id = of_u32([a, b, c, d]);
                if let Some(found) = self.find(id) {
                    let maker = if found.by == FoundBy::Given && is_named(found, payload) {
                        Maker::Apicurio
                    } else {
                        Maker::Confluent
                    };
                    return self.body(id, found, maker, payload, 5);
                }
                let long = payload.get(1..9).and_then(number).map(WireId::Id);
                let long = long.filter(|_| self.has_given_ids);
                match long.and_then(|id| Some((id, self.find(id)?))) {
                    Some((id, found)) if found.by == FoundBy::Given => {
                        self.body(id, found, Maker::Apicurio, payload, 9)
                    }
                    _ => Err(self.unknown(id)),
                }
            }
            [BY_GUID, ref rest @ ..] => {
                let id = guid(rest).map(|(id, _)| id);
                match id.and_then(|id| Some((id, self.find(id)?))) {
                    Some((id, found)) => self.body(id, found, Maker::Confluent, payload, 17),
                    None => Err(not_framed(payload).into()),
                }
            }
            [OF_GLUE, GLUE_PLAIN | GLUE_ZLIB, ref rest @ ..] if self.has_given_ids => {
                match guid(rest) {
                    Some((id, _)) => self.body_of(id, Maker::Glue, payload, 18),
                    None => Err(not_framed(payload).into()),
                }
            }
            _ => Err(not_framed(payload).into()),
        }
    }

    fn known(&mut self, id: WireId) -> Result<FoundSchema, Unframed> {
        self.find(id).ok_or_else(|| self.unknown(id))
    }

    #[cold]
    fn unknown(&self, id: WireId) -> Unframed {
        let what = format_args!(
            "no schema has {id}; {} schemas are known",
            self.schemas.rows().len()
        );
        Unframed {
            id: Some(id),
            reason: Undecoded::new(Cause::UnknownId, what),
        }
    }

    fn body_of<'a>(
        &mut self,
        id: WireId,
        maker: Maker,
        payload: &'a [u8],
        start: usize,
    ) -> Result<Frame<'a>, Unframed> {
        let found = self.known(id)?;
        self.body(id, found, maker, payload, start)
    }

    /// The value at `start`, after what Protobuf has before it.
    #[inline]
    fn body<'a>(
        &mut self,
        id: WireId,
        found: FoundSchema,
        maker: Maker,
        payload: &'a [u8],
        mut start: usize,
    ) -> Result<Frame<'a>, Unframed> {
        let failed = |reason| Unframed {
            id: Some(id),
            reason,
        };
        let rest = payload.get(start..).unwrap_or_default();
        let mut body = Cow::Borrowed(rest);
        match maker {
            Maker::Confluent if found.has_messages => {
                let read = read_indexes(rest, &mut self.message);
                let len = read.ok_or_else(|| bad_indexes(id, start))?;
                start = start.saturating_add(len);
                body = Cow::Borrowed(rest.get(len..).unwrap_or_default());
            }
            Maker::Apicurio if found.has_messages => {
                let Some((name, len)) = message_name(rest) else {
                    let text = "expected the name of a message, as Apicurio's serializers write it";
                    return Err(failed(Undecoded::at(Cause::BadMessageIndex, start, text)));
                };
                let row = self.schemas.get(found.schema);
                let index = row.and_then(|row| message_index(&row.text, name));
                let Some(index) = index else {
                    let text = format_args!("the schema has no message {name:?}");
                    return Err(failed(Undecoded::at(Cause::BadMessageIndex, start, text)));
                };
                self.message.extend((index != 0).then_some(index));
                start = start.saturating_add(len);
                body = Cow::Borrowed(rest.get(len..).unwrap_or_default());
            }
            Maker::Glue if payload.get(1) == Some(&GLUE_ZLIB) => {
                body = Cow::Owned(unpacked(rest, self.limit).map_err(failed)?);
            }
            _ => {}
        }
        Ok(Frame {
            id,
            schema: found.schema,
            by: found.by,
            body,
            start,
            bare_bytes: maker == Maker::Confluent,
        })
    }
}

/// Returns whether the value of a Protobuf schema begins with the name of its message, as Apicurio writes it.
fn is_named(found: FoundSchema, payload: &[u8]) -> bool {
    found.has_messages
        && payload
            .get(5..)
            .is_some_and(|rest| message_name(rest).is_some())
}

fn of_u32(id: [u8; 4]) -> WireId {
    WireId::Id(u32::from_be_bytes(id).into())
}

fn number(bytes: &[u8]) -> Option<i64> {
    Some(i64::from_be_bytes(bytes.try_into().ok()?))
}

/// A GUID, and what follows it.
fn guid(bytes: &[u8]) -> Option<(WireId, &[u8])> {
    let (guid, rest) = bytes.split_first_chunk()?;
    Some((WireId::Guid(Guid(*guid)), rest))
}

/// Reads a count and indexes into `to`, which stays empty for the first message; returns their length.
#[inline]
fn read_indexes(bytes: &[u8], to: &mut Vec<i32>) -> Option<usize> {
    let mut at = 0;
    let count = get_varint(bytes, &mut at)?;
    if !(0..=MOST_INDEXES).contains(&count) {
        return None;
    }
    for _ in 0..count {
        to.push(get_varint(bytes, &mut at)?);
    }
    if *to == [0] {
        to.clear();
    }
    Some(at)
}

/// Reads Apicurio's `Ref`, a message with the name of a message, after its length; returns also the bytes of both.
fn message_name(bytes: &[u8]) -> Option<(&str, usize)> {
    const NAME: u8 = 0x0a;
    let mut at = 0;
    let len = usize::try_from(get_uvarint(bytes, &mut at)?).ok()?;
    let end = at.checked_add(len)?;
    let bytes = bytes.get(at..end)?;
    let rest = bytes.strip_prefix(&[NAME])?;
    at = 0;
    let len = usize::try_from(get_uvarint(rest, &mut at)?).ok()?;
    let name = rest.get(at..).filter(|name| name.len() == len && len > 0)?;
    Some((std::str::from_utf8(name).ok()?, end))
}

/// The place of a message among those at the top of a `.proto` text.
fn message_index(text: &str, name: &str) -> Option<i32> {
    let (mut depth, mut index, mut is_message) = (0usize, 0, false);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let after = |n: usize| rest.get(n..).unwrap_or_default();
        let past = |end: &str| rest.split_once(end).map_or("", |(_, rest)| rest);
        if rest.starts_with("//") {
            rest = past("\n");
        } else if rest.starts_with("/*") {
            rest = past("*/");
        } else if first == '"' || first == '\'' {
            let mut is_escaped = false;
            let end = after(1).find(|each| {
                let is_end = each == first && !is_escaped;
                is_escaped = each == '\\' && !is_escaped;
                is_end
            });
            rest = end.map_or("", |end| after(end.saturating_add(2)));
        } else if first.is_alphanumeric() || first == '_' {
            let end = rest.find(|each: char| !(each.is_alphanumeric() || each == '_'));
            let (word, next) = rest.split_at_checked(end.unwrap_or(rest.len()))?;
            rest = next;
            if depth == 0 && is_message {
                if word == name {
                    return Some(index);
                }
                index = i32::saturating_add(index, 1);
                is_message = false;
            } else {
                is_message = depth == 0 && word == "message";
            }
        } else {
            match first {
                '{' => depth = depth.saturating_add(1),
                '}' => depth = depth.saturating_sub(1),
                _ => {}
            }
            is_message &= first.is_whitespace();
            rest = after(first.len_utf8());
        }
    }
    None
}

#[cold]
fn bad_indexes(id: WireId, position: usize) -> Unframed {
    let text =
        format_args!("expected up to {MOST_INDEXES} indexes of a message, after their number");
    Unframed {
        id: Some(id),
        reason: Undecoded::at(Cause::BadMessageIndex, position, text),
    }
}

#[cold]
fn bad_header(name: &str, expected: &str, found: &[u8]) -> Undecoded {
    let text = format_args!("header {name}: expected {expected}, found {}", Hex(found));
    Undecoded::new(Cause::BadHeader, text)
}

#[cold]
fn not_framed(payload: &[u8]) -> Undecoded {
    let expected = match payload.first() {
        Some(&BY_GUID) if payload.len() > 16 => "the GUID of a schema that is known after 01",
        Some(&OF_GLUE) if payload.len() > 17 => {
            "00 and the id of a schema (a payload of AWS Glue needs schemas by their UUIDs)"
        }
        _ => "00 and the id of a schema",
    };
    let text = format_args!("expected {expected}, found {}", Hex(payload));
    Undecoded::at(Cause::NotFramed, 0, text)
}

/// The first bytes of something.
struct Hex<'a>(&'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if self.0.is_empty() {
            return f.write_str("no byte");
        }
        for (n, byte) in self.0.iter().take(SHOWN).enumerate() {
            write!(f, "{}{byte:02x}", if n > 0 { " " } else { "" })?;
        }
        if self.0.len() > SHOWN {
            write!(f, ".. ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

/// The bytes that zlib has packed, up to `limit`.
fn unpacked(bytes: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    let mut found = Vec::new();
    let read = ZlibDecoder::new(bytes).take(most).read_to_end(&mut found);
    read.map_err(|error| {
        Undecoded::at(
            Cause::Malformed,
            18,
            format_args!("expected zlib data: {error}"),
        )
    })?;
    if found.len() > limit {
        let text = format_args!("more than {limit} bytes after decompression");
        return Err(Undecoded::at(Cause::TooLarge, 18, text));
    }
    Ok(found)
}

#[cfg(test)]
mod tests;
