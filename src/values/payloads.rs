//! The keys or values of a batch, decoded: from framing to column.
//!
//! Each schema that occurs is looked up and compiled once. A payload that cannot be decoded leaves no trace in the column:
//! what was appended of it is removed.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::builder::Builder;
use super::decoder::{Body, Decoder, ProgramId};
use super::decoding::{DecodeAs, Decoding};
use super::fault::{Cause, Undecoded};
use super::formats;
use super::prefix::{Framed, SchemaName, unframe};
use super::schemas::{SchemaIndex, SchemaKind, Side};
use crate::error::Result;
use crate::format::record::HeaderIter;

/// Result of a payload.
type Decoded<T = ()> = std::result::Result<T, Undecoded>;

/// A schema that occurs in a topic.
#[derive(Debug)]
struct Writer {
    schema: Option<SchemaIndex>,
    id: Option<i32>,
    guid: Option<String>,
    /// Payloads name a message of the schema.
    has_messages: bool,
    /// The decoder and its program, or why there is none.
    program: Decoded<(usize, ProgramId)>,
}

/// What is known of a topic.
#[derive(Debug, Default)]
struct TopicWriters {
    /// A schema was given for the topic.
    is_given: bool,
    writers: HashMap<SchemaName, usize>,
    /// The schema of the payload before.
    last: Option<(SchemaName, usize)>,
}

/// Decoded keys, or decoded values, of the rows of a batch.
#[derive(Debug)]
pub(crate) struct Payloads {
    decoding: Arc<Decoding>,
    side: Side,
    /// By reader schema; in the form of JSON, by format.
    decoders: Vec<(OpenFor, Box<dyn Decoder>)>,
    writers: Vec<Writer>,
    topics: HashMap<Arc<str>, TopicWriters>,
    topic: Arc<str>,
    current: TopicWriters,
    /// The schema of the payload that was decoded last, whether it could be or not.
    writer: Option<usize>,
    values: Builder,
    ids: Builder,
    guids: Builder,
    errors: Builder,
    wanted: Wanted,
}

/// What a decoder is open for.
#[derive(Debug, PartialEq, Eq)]
enum OpenFor {
    Reader(SchemaIndex),
    Format(SchemaKind),
}

/// Columns that are built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Wanted {
    /// Decode at all: for the value, its error, or to leave rows out.
    pub(crate) values: bool,
    pub(crate) ids: bool,
    pub(crate) guids: bool,
    pub(crate) errors: bool,
}

/// Column of decoded payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DecodedPart {
    Value,
    SchemaId,
    SchemaGuid,
    Error,
}

impl Payloads {
    /// Without rows.
    ///
    /// # Errors
    /// Those of [`Decoding::data_type`].
    pub(crate) fn try_new(decoding: &Arc<Decoding>, side: Side, wanted: Wanted) -> Result<Self> {
        let data_type = decoding.data_type(side)?.unwrap_or(DataType::Null);
        Ok(Self {
            decoding: Arc::clone(decoding),
            side,
            decoders: Vec::new(),
            writers: Vec::new(),
            topics: HashMap::new(),
            topic: Arc::from(""),
            current: TopicWriters::default(),
            writer: None,
            values: Builder::try_new(&data_type)?,
            ids: Builder::try_new(&DataType::Int32)?,
            guids: Builder::try_new(&DataType::Utf8)?,
            errors: Builder::try_new(&DataType::Utf8)?,
            wanted,
        })
    }

    /// Bytes of the rows so far.
    pub(crate) fn bytes(&self) -> usize {
        let others = self.guids.bytes().saturating_add(self.errors.bytes());
        self.values.bytes().saturating_add(others)
    }

    /// Appends a row without a payload.
    pub(crate) fn push_null(&mut self) {
        self.writer = None;
        self.values.push_null();
        self.end(None);
    }

    /// Appends a payload as a row.
    ///
    /// # Errors
    /// The reason why there is no value; then nothing is appended.
    #[inline]
    pub(crate) fn push(
        &mut self,
        topic: &Arc<str>,
        payload: &[u8],
        headers: HeaderIter<'_>,
    ) -> Decoded {
        self.writer = None;
        let framed = self.unframe(topic, payload, headers);
        if let Ok(framed) = &framed {
            self.writer = Some(self.writer_of(framed.schema));
        }
        if self.wanted.values {
            self.decode(&framed?, payload)?;
        } else {
            self.values.push_null();
        }
        self.end(None);
        Ok(())
    }

    /// Appends a row for the payload that [`Payloads::push`] refused last.
    pub(crate) fn push_undecoded(&mut self, why: &Undecoded) {
        self.values.push_null();
        self.end(Some(why));
    }

    /// Drops all rows but the first `rows`.
    pub(crate) fn truncate(&mut self, rows: usize) {
        for column in [
            &mut self.values,
            &mut self.ids,
            &mut self.guids,
            &mut self.errors,
        ] {
            column.truncate(rows);
        }
    }

    /// Returns a column of the rows so far; it begins anew.
    ///
    /// # Errors
    /// Those of [`Builder::finish`].
    pub(crate) fn finish(&mut self, part: DecodedPart) -> Result<ArrayRef> {
        match part {
            DecodedPart::Value => &mut self.values,
            DecodedPart::SchemaId => &mut self.ids,
            DecodedPart::SchemaGuid => &mut self.guids,
            DecodedPart::Error => &mut self.errors,
        }
        .finish()
    }

    /// The schema of the payload that [`Payloads::push`] took or refused last, in words.
    pub(crate) fn schema_text(&self) -> Option<String> {
        let writer = self.writers.get(self.writer?)?;
        Some(match (writer.schema, writer.id, &writer.guid) {
            (Some(schema), ..) => self.decoding.named(schema),
            (None, Some(id), _) => format!("id {id}"),
            (None, None, guid) => format!("GUID {}", guid.as_deref().unwrap_or_default()),
        })
    }

    /// The schema of a payload, in words, if no payload of it can be decoded.
    pub(crate) fn unreadable(
        &mut self,
        topic: &Arc<str>,
        payload: &[u8],
        headers: HeaderIter<'_>,
    ) -> Option<String> {
        let name = self.unframe(topic, payload, headers).ok()?.schema;
        self.writer = Some(self.writer_of(name));
        let writer = self.writers.get(self.writer?)?;
        writer.program.is_err().then(|| self.schema_text())?
    }

    /// Unknown fields of Protobuf messages so far.
    pub(crate) fn unknown_fields(&self) -> u64 {
        let all = self
            .decoders
            .iter()
            .map(|(_, decoder)| decoder.unknown_fields());
        all.fold(0, u64::saturating_add)
    }

    fn end(&mut self, why: Option<&Undecoded>) {
        let writer = self.writer.and_then(|writer| self.writers.get(writer));
        if self.wanted.ids {
            match (&mut self.ids, writer.and_then(|writer| writer.id)) {
                (Builder::Int32(ids), Some(id)) => ids.push(id),
                (ids, _) => ids.push_null(),
            }
        }
        if self.wanted.guids {
            push_text(
                &mut self.guids,
                writer.and_then(|writer| writer.guid.as_deref()),
            );
        }
        if self.wanted.errors {
            push_text(&mut self.errors, why.map(ToString::to_string).as_deref());
        }
    }

    /// Finds the schema of a payload, and what it decodes.
    #[inline]
    fn unframe<'a>(
        &mut self,
        topic: &Arc<str>,
        payload: &'a [u8],
        headers: HeaderIter<'a>,
    ) -> Decoded<Framed<'a>> {
        if !Arc::ptr_eq(topic, &self.topic) && *topic != self.topic {
            let last = std::mem::take(&mut self.current);
            let last_topic = std::mem::replace(&mut self.topic, Arc::clone(topic));
            self.topics.insert(last_topic, last);
            self.current = self.topics.remove(topic).unwrap_or_else(|| {
                let given = self.decoding.schemas.given_for(topic, self.side);
                TopicWriters {
                    is_given: given.is_some(),
                    ..TopicWriters::default()
                }
            });
        }
        unframe(self.current.is_given, self.side, payload, headers)
    }

    /// The schema of this name in the current topic.
    #[inline]
    fn writer_of(&mut self, name: SchemaName) -> usize {
        match self.current.last {
            Some((last, writer)) if last == name => writer,
            _ => self.look_up(name),
        }
    }

    fn look_up(&mut self, name: SchemaName) -> usize {
        let found = match self.current.writers.entry(name) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(_) => {
                let writer = self.resolve(name);
                let index = self.writers.len();
                self.writers.push(writer);
                self.current.writers.insert(name, index);
                index
            }
        };
        self.current.last = Some((name, found));
        found
    }

    #[cold]
    fn resolve(&mut self, name: SchemaName) -> Writer {
        let decoding = Arc::clone(&self.decoding);
        let schema = name.find(&decoding.schemas, &self.topic, self.side);
        let known = schema.and_then(|schema| decoding.schemas.get(schema));
        let id = known.and_then(|known| known.id).or_else(|| name.id());
        let guid = known.and_then(|known| known.guid).or_else(|| name.guid());
        Writer {
            schema,
            id: id.and_then(|id| i32::try_from(id).ok()),
            guid: guid.map(|guid| guid.to_string()),
            has_messages: known.is_some_and(|known| known.kind == SchemaKind::Protobuf),
            program: match schema {
                Some(schema) => self.compile(schema),
                None => Err(Undecoded::new(
                    Cause::UnknownId,
                    format_args!(
                        "no schema has {name}; kafkalog schemas lists those that there are"
                    ),
                )),
            },
        }
    }

    fn compile(&mut self, schema: SchemaIndex) -> Decoded<(usize, ProgramId)> {
        let decoding = Arc::clone(&self.decoding);
        let text = decoding.schemas.text(schema)?;
        let kind = decoding.schemas.get(schema).map(|schema| &schema.kind);
        let kind = kind.unwrap_or(&SchemaKind::Avro);
        let wanted = match decoding.decode_as {
            DecodeAs::Json => OpenFor::Format(kind.clone()),
            DecodeAs::Struct => {
                let reader = decoding.reader(self.side, &self.topic).ok_or_else(|| {
                    Undecoded::new(Cause::BadSchema, "the topic has no reader schema")
                })?;
                let its = decoding.schemas.get(reader).map(|schema| &schema.kind);
                if its.is_some_and(|its| its != kind) {
                    let its = its.map_or("", SchemaKind::name);
                    return Err(Undecoded::new(
                        Cause::OtherSchemaType,
                        format_args!(
                            "{} is of type {}, and the reader schema, {}, of type {its}",
                            decoding.named(schema),
                            kind.name(),
                            decoding.named(reader)
                        ),
                    ));
                }
                OpenFor::Reader(reader)
            }
        };
        let open = self.decoders.iter().position(|(open, _)| *open == wanted);
        let decoder = if let Some(open) = open {
            open
        } else {
            let decoder = match &wanted {
                OpenFor::Format(kind) => formats::json(kind)?,
                OpenFor::Reader(reader) => decoding.open(self.side, *reader)?,
            };
            self.decoders.push((wanted, decoder));
            self.decoders.len().saturating_sub(1)
        };
        let (_, open) = (self.decoders.get_mut(decoder))
            .ok_or_else(|| Undecoded::new(Cause::BadSchema, "no decoder"))?;
        Ok((decoder, open.compile(&text)?))
    }

    #[inline]
    fn decode(&mut self, framed: &Framed<'_>, payload: &[u8]) -> Decoded {
        let none = || Undecoded::new(Cause::BadSchema, "no decoder");
        let writer = self.writer.and_then(|writer| self.writers.get(writer));
        let writer = writer.ok_or_else(none)?;
        let (decoder, program) = writer.program.as_ref().map_err(Undecoded::clone)?;
        let (_, decoder) = self.decoders.get(*decoder).ok_or_else(none)?;
        let rows = self.values.len();
        let (message, bytes) = if writer.has_messages {
            framed.message()?
        } else {
            (Vec::new(), framed.body)
        };
        let body = Body {
            bytes,
            message: &message,
        };
        decoder
            .decode(*program, body, &mut self.values)
            .map_err(|why| {
                self.values.truncate(rows);
                why.after(payload.len().saturating_sub(bytes.len()))
            })
    }
}

/// Appends a text; what does not fit the offsets any more is null.
fn push_text(column: &mut Builder, text: Option<&str>) {
    let pushed = match (&mut *column, text) {
        (Builder::Bytes(texts), Some(text)) => texts.push(text.as_bytes()).is_ok(),
        _ => false,
    };
    if !pushed {
        column.push_null();
    }
}
