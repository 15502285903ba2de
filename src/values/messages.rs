//! The message of a Protobuf column. A schema has several, and every payload names its own.
//!
//! The column holds the first message of the reader schema, as where nothing is known of the records. Only where the first
//! records all name one other message does the column hold that. A record of a message that the column does not hold is a
//! fault, which names both and `decode_as="json"`: that serves all.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::decoding::{DecodeAs, Decoding};
use super::fault::Undecoded;
use super::framing::Framer;
use super::protobuf::schema::ProtoSchema;
use super::schemas::{SchemaIndex, SchemaKind, Side};
use crate::format::record::HeaderIter;

/// The choice of a topic's message, while records are looked at.
#[derive(Debug)]
pub(crate) struct MessageChoice<'d> {
    decoding: &'d Decoding,
    framer: Framer,
    reader: ProtoSchema,
    /// Writer schemas that occur.
    writers: HashMap<SchemaIndex, Option<ProtoSchema>>,
    /// Messages of the reader schema that the records name.
    named: BTreeSet<String>,
}

impl<'d> MessageChoice<'d> {
    /// The choice for one side of a topic; `None` if there is nothing to choose.
    pub(crate) fn of(decoding: &'d Decoding, side: Side, topic: &str) -> Option<Self> {
        let reader = decoding.reader(side, topic)?.schema;
        let is_protobuf = decoding.schemas.get(reader)?.kind == SchemaKind::Protobuf;
        // A text that cannot be compiled is an error of `Decoding::checked`.
        let usable = || compiled(decoding, reader).ok();
        let reader = (is_protobuf && decoding.decode_as == DecodeAs::Struct).then(usable)??;
        reader.has_several().then(|| Self {
            decoding,
            framer: Framer::new(Arc::clone(&decoding.schemas), topic, side, 1 << 20),
            reader,
            writers: HashMap::new(),
            named: BTreeSet::new(),
        })
    }

    /// Looks at a payload. Its faults are found again when it is decoded.
    pub(crate) fn look(&mut self, payload: &[u8], headers: HeaderIter<'_>) {
        let Ok(frame) = self.framer.frame(payload, headers) else {
            return;
        };
        let writer = self.writers.entry(frame.schema);
        let writer = writer.or_insert_with(|| compiled(self.decoding, frame.schema).ok());
        let path = self.framer.message();
        if let Some(name) = writer.as_ref().and_then(|writer| writer.named(path))
            && self.reader.has(name)
            && !self.named.contains(name)
        {
            self.named.insert(name.to_owned());
        }
    }

    /// Returns whether more records change nothing.
    pub(crate) fn is_settled(&self) -> bool {
        let first = self.reader.named(&[]);
        first.is_none_or(|first| self.named.contains(first))
    }

    /// The message, if it is not the first one.
    pub(crate) fn chosen(self) -> Option<String> {
        let is_first = self.is_settled();
        let mut named = self.named.into_iter();
        match (named.next(), named.next()) {
            (Some(only), None) if !is_first => Some(only),
            _ => None,
        }
    }
}

fn compiled(decoding: &Decoding, schema: SchemaIndex) -> Result<ProtoSchema, Undecoded> {
    ProtoSchema::try_new(&decoding.schemas.text(schema)?)
}
