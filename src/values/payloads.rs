//! The keys or values of a batch, decoded: from framing to column.
//!
//! Each schema that occurs is looked up and compiled once. A payload that cannot be decoded leaves no trace in the column:
//! what was appended of it is removed.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::ArrayRef;
use arrow_schema::DataType;

use super::builder::Builder;
use super::decoder::{BLOCK, Body, Decoder, ProgramId};
use super::decoding::{DecodeAs, Decoding, TopicReader};
use super::fault::{Cause, Undecoded};
use super::formats;
use super::framing::{Frame, Framer, Unframed, WireId};
use super::schemas::{SchemaIndex, SchemaKind, Side};
use crate::error::Result;
use crate::format::record::HeaderIter;

/// Most bytes of a payload that its framing has compressed.
const MOST_UNPACKED: usize = 256 << 20;

/// Result of a payload.
type DecodedCell<T = ()> = std::result::Result<T, Undecoded>;

/// A schema that occurs in a topic.
#[derive(Debug)]
struct WriterSchema {
    schema: SchemaIndex,
    id: Option<i32>,
    guid: Option<String>,
    /// The decoder and its program, or why there is none.
    program: DecodedCell<(usize, ProgramId)>,
}

/// The schemas known of a topic.
#[derive(Debug)]
struct TopicWriters {
    framer: Framer,
    /// By schema.
    writers: Vec<Option<usize>>,
}

impl TopicWriters {
    /// As [`Framer::plain`], where the schema has been seen.
    #[inline]
    fn known<'a>(&self, payload: &'a [u8]) -> Option<(usize, &'a [u8])> {
        let (schema, body) = self.framer.plain(payload)?;
        let writer = self.writers.get(schema).copied().flatten()?;
        Some((writer, body))
    }
}

/// Decoder of the keys, or of the values, of the rows of a batch.
#[derive(Debug)]
pub(crate) struct PayloadDecoder {
    decoding: Arc<Decoding>,
    side: Side,
    /// By reader schema; in the form of JSON, by format.
    decoders: Vec<(OpenFor, Box<dyn Decoder>)>,
    writers: Vec<WriterSchema>,
    topics: HashMap<Arc<str>, TopicWriters>,
    topic: Arc<str>,
    current: Option<TopicWriters>,
    /// The schema of the payload that was decoded last, whether it could be or not.
    writer: Option<usize>,
    /// The id of that payload, if no schema has it.
    unknown: Option<WireId>,
    values: Builder,
    ids: Builder,
    guids: Builder,
    errors: Builder,
    wanted: Wanted,
}

/// The use that a decoder is open for.
#[derive(Debug, PartialEq, Eq)]
enum OpenFor {
    Reader(TopicReader),
    Format(SchemaKind),
}

/// Columns that are built.
#[expect(clippy::struct_excessive_bools, reason = "one for each column")]
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

impl PayloadDecoder {
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
            current: None,
            writer: None,
            unknown: None,
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
        (self.writer, self.unknown) = (None, None);
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
    ) -> DecodedCell {
        let framed = self.unframe(topic, payload, headers);
        if self.wanted.values {
            self.decode(&framed?)?;
        } else {
            self.values.push_null();
        }
        self.end(None);
        Ok(())
    }

    /// Appends payloads as rows, decoded side by side; at most [`BLOCK`]. Returns whether all were decoded: nothing is
    /// appended otherwise, and the caller goes payload by payload.
    pub(crate) fn push_block<'a>(
        &mut self,
        topic: &Arc<str>,
        payloads: impl Iterator<Item = Option<(&'a [u8], HeaderIter<'a>)>>,
    ) -> bool {
        let rows = self.values.len();
        let done = self.try_push_block(topic, payloads);
        if !done {
            self.truncate(rows);
        }
        done
    }

    #[inline]
    fn try_push_block<'a>(
        &mut self,
        topic: &Arc<str>,
        payloads: impl Iterator<Item = Option<(&'a [u8], HeaderIter<'a>)>>,
    ) -> bool {
        let none = Body {
            bytes: &[],
            message: &[],
            bare_bytes: false,
        };
        let (mut block, mut writers) = ([(0, none); BLOCK], [0; BLOCK]);
        let (mut count, mut of_all) = (0_usize, None);
        if !self.is_at(topic) {
            self.enter(topic);
        }
        for payload in payloads {
            let Some((payload, headers)) = payload else {
                return false;
            };
            let known = match &self.current {
                Some(current) if headers.is_empty() => current.known(payload),
                _ => None,
            };
            let (writer, bytes, bare_bytes) = match known {
                Some((writer, bytes)) => (writer, bytes, true),
                None => match (self.unframe(topic, payload, headers), self.writer) {
                    (
                        Ok(Frame {
                            body: Cow::Borrowed(bytes),
                            bare_bytes,
                            ..
                        }),
                        Some(writer),
                    ) => (writer, bytes, bare_bytes),
                    _ => return false,
                },
            };
            let program = self.writers.get(writer).map(|writer| &writer.program);
            let Some(Ok((decoder, program))) = program else {
                return false;
            };
            let (Some(row), Some(of)) = (block.get_mut(count), writers.get_mut(count)) else {
                return false;
            };
            if *of_all.get_or_insert(*decoder) != *decoder {
                return false;
            }
            let body = Body {
                bytes,
                bare_bytes,
                ..none
            };
            (*row, *of) = ((*program, body), writer);
            count = count.saturating_add(1);
        }
        let decoder = of_all.and_then(|decoder| self.decoders.get(decoder));
        let (Some((_, decoder)), Some(block)) = (decoder, block.get(..count)) else {
            return false;
        };
        if !decoder.has_blocks() || !decoder.decode_block(block, &mut self.values) {
            return false;
        }
        if self.wanted.ids || self.wanted.guids || self.wanted.errors {
            for writer in writers.into_iter().take(count) {
                self.writer = Some(writer);
                self.end(None);
            }
        }
        true
    }

    /// Appends a row for the payload that [`PayloadDecoder::push`] refused last.
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

    /// The schema of the payload that [`PayloadDecoder::push`] took or refused last, in words.
    pub(crate) fn schema_text(&self) -> Option<String> {
        if let Some(id) = self.unknown {
            return Some(id.to_string());
        }
        let writer = self.writers.get(self.writer?)?;
        Some(self.decoding.named(writer.schema))
    }

    /// The schema of a payload, in words, if no payload of it can be decoded.
    pub(crate) fn unreadable(
        &mut self,
        topic: &Arc<str>,
        payload: &[u8],
        headers: HeaderIter<'_>,
    ) -> Option<String> {
        // What this finds is in `writer` or `unknown`.
        let _ = self.unframe(topic, payload, headers);
        let writer = self.writer.and_then(|writer| self.writers.get(writer));
        let is_readable = writer.is_none_or(|writer| writer.program.is_ok());
        (self.unknown.is_some() || !is_readable).then(|| self.schema_text())?
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
            let unknown = match self.unknown {
                Some(WireId::Id(id)) => i32::try_from(id).ok(),
                _ => None,
            };
            match (
                &mut self.ids,
                writer.and_then(|writer| writer.id).or(unknown),
            ) {
                (Builder::Int32(ids), Some(id)) => ids.push(id),
                (ids, _) => ids.push_null(),
            }
        }
        if self.wanted.guids {
            let unknown = match self.unknown {
                Some(WireId::Guid(guid)) => Some(guid.to_string()),
                _ => None,
            };
            let guid = writer.and_then(|writer| writer.guid.as_deref());
            push_text(&mut self.guids, guid.or(unknown.as_deref()));
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
    ) -> DecodedCell<Frame<'a>> {
        (self.writer, self.unknown) = (None, None);
        if !self.is_at(topic) {
            self.enter(topic);
        }
        let Some(current) = &mut self.current else {
            return Err(Undecoded::new(Cause::BadSchema, "no topic"));
        };
        let frame = match current.framer.frame(payload, headers) {
            Ok(frame) => frame,
            Err(Unframed { id, reason }) => {
                if reason.cause() == Cause::UnknownId {
                    self.unknown = id;
                }
                return Err(reason);
            }
        };
        self.writer = match current.writers.get(frame.schema) {
            Some(Some(writer)) => Some(*writer),
            _ => Some(self.resolve(frame.schema)),
        };
        Ok(frame)
    }

    fn is_at(&self, topic: &Arc<str>) -> bool {
        self.current.is_some() && (Arc::ptr_eq(topic, &self.topic) || *topic == self.topic)
    }

    /// Goes to a topic.
    #[cold]
    fn enter(&mut self, topic: &Arc<str>) {
        let last_topic = std::mem::replace(&mut self.topic, Arc::clone(topic));
        if let Some(last) = self.current.take() {
            self.topics.insert(last_topic, last);
        }
        self.current = Some(self.topics.remove(topic).unwrap_or_else(|| {
            let schemas = Arc::clone(&self.decoding.schemas);
            TopicWriters {
                framer: Framer::new(schemas, topic, self.side, MOST_UNPACKED),
                writers: Vec::new(),
            }
        }));
    }

    /// Compiles a schema for the current topic.
    #[cold]
    fn resolve(&mut self, schema: SchemaIndex) -> usize {
        let decoding = Arc::clone(&self.decoding);
        let known = decoding.schemas.get(schema);
        let writer = WriterSchema {
            schema,
            id: known.and_then(|known| i32::try_from(known.id?).ok()),
            guid: known.and_then(|known| Some(known.guid?.to_string())),
            program: self.compile(schema),
        };
        let index = self.writers.len();
        self.writers.push(writer);
        if let Some(current) = &mut self.current {
            let len = current.writers.len().max(schema.saturating_add(1));
            current.writers.resize(len, None);
            if let Some(place) = current.writers.get_mut(schema) {
                *place = Some(index);
            }
        }
        index
    }

    fn compile(&mut self, schema: SchemaIndex) -> DecodedCell<(usize, ProgramId)> {
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
                let its = decoding.schemas.get(reader.schema);
                let its = its.map(|schema| &schema.kind);
                if its.is_some_and(|its| its != kind) {
                    let its = its.map_or("", SchemaKind::name);
                    return Err(Undecoded::new(
                        Cause::OtherSchemaType,
                        format_args!(
                            "{} is of type {}, and the reader schema, {}, of type {its}",
                            decoding.named(schema),
                            kind.name(),
                            decoding.named(reader.schema)
                        ),
                    ));
                }
                OpenFor::Reader(reader.clone())
            }
        };
        let open = self.decoders.iter().position(|(open, _)| *open == wanted);
        let decoder = if let Some(open) = open {
            open
        } else {
            let decoder = match &wanted {
                OpenFor::Format(kind) => formats::json(kind)?,
                OpenFor::Reader(reader) => decoding.open(self.side, reader)?,
            };
            self.decoders.push((wanted, decoder));
            self.decoders.len().saturating_sub(1)
        };
        let (_, open) = (self.decoders.get_mut(decoder))
            .ok_or_else(|| Undecoded::new(Cause::BadSchema, "no decoder"))?;
        Ok((decoder, open.compile(&text)?))
    }

    #[inline]
    fn decode(&mut self, frame: &Frame<'_>) -> DecodedCell {
        let none = || Undecoded::new(Cause::BadSchema, "no decoder");
        let writer = self.writer.and_then(|writer| self.writers.get(writer));
        let writer = writer.ok_or_else(none)?;
        let (decoder, program) = writer.program.as_ref().map_err(Undecoded::clone)?;
        let (_, decoder) = self.decoders.get(*decoder).ok_or_else(none)?;
        let rows = self.values.len();
        let message = self.current.as_ref().map(|topic| topic.framer.message());
        let body = Body {
            bytes: &frame.body,
            message: message.unwrap_or_default(),
            bare_bytes: frame.bare_bytes,
        };
        decoder
            .decode(*program, body, &mut self.values)
            .map_err(|why| {
                self.values.truncate(rows);
                why.after(frame.start)
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
