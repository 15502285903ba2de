//! The decoding of a scan: sides, reader schemas, form. Plain data that travels in plans with the schemas it needs.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_schema::{DataType, FieldRef};
use serde::{Deserialize, Serialize};

use super::decoder::Decoder;
use super::fault::{Cause, Undecoded};
use super::field_tree::{Projection, names_in};
use super::formats;
use super::schemas::{RegisteredSchema, SchemaIndex, SchemaKind, Schemas, Side};
use crate::error::{Error, Result};
use crate::scan::lost::LostRange;

/// Form of decoded keys and values.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum DecodeAs {
    /// The type of the reader schema.
    #[default]
    Struct,
    /// JSON text, of each record under its own schema.
    Json,
}

/// Action on a key or value that cannot be decoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnUndecoded {
    /// An error ends the read.
    #[default]
    Raise,
    /// Null, and `valueError` says why.
    Null,
    /// The record is not given.
    Skip,
}

/// A reader schema as the user names it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ReaderSchema {
    /// The newest version of the topic's subject that is not deleted.
    #[default]
    Latest,
    /// A version of the topic's subject.
    Version(i32),
    /// A schema's text.
    Text(String),
    /// A schema's text, and the names and texts of what it imports, each after those that it imports itself.
    Importing(String, Vec<(String, String)>),
}

/// The request of the user.
#[derive(Clone, Debug, Default)]
pub(crate) struct DecodeRequest {
    /// Decode keys.
    pub(crate) key: bool,
    /// Decode values.
    pub(crate) value: bool,
    /// The reader schema of all topics without one of their own.
    pub(crate) reader: ReaderSchema,
    /// Those of topics, or of one side of a topic (`<topic>-key`, `<topic>-value`).
    pub(crate) readers: BTreeMap<String, ReaderSchema>,
    pub(crate) decode_as: DecodeAs,
    pub(crate) on_undecoded: OnUndecoded,
}

impl DecodeRequest {
    fn reader(&self, topic: &str, side: Side) -> &ReaderSchema {
        let own = self.readers.get(&side.subject(topic));
        own.or_else(|| self.readers.get(topic))
            .unwrap_or(&self.reader)
    }
}

/// The reader schema of a topic.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct TopicReader {
    pub(super) schema: SchemaIndex,
    /// Full name of the column's Protobuf message; none for the first one of the schema, and for other formats.
    message: Option<String>,
}

/// Decoding of keys or of values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SideDecoding {
    /// By topic; none in the form of JSON.
    readers: BTreeMap<String, TopicReader>,
    projection: Projection,
}

/// The decoding of the keys and values of a scan.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Decoding {
    pub(crate) schemas: Arc<Schemas>,
    key: Option<SideDecoding>,
    value: Option<SideDecoding>,
    pub(crate) decode_as: DecodeAs,
    pub(crate) on_undecoded: OnUndecoded,
    /// Ranges that were skipped as damaged where the schemas were read.
    #[serde(skip)]
    pub(crate) lost: Vec<LostRange>,
}

/// An argument that the schemas do not allow.
fn refused(text: String) -> Error {
    Error::InvalidArgument(text)
}

impl Decoding {
    /// Chooses the reader schemas of `topics`, which [`Decoding::checked`] compiles.
    ///
    /// # Errors
    /// `InvalidArgument` where there are no schemas, or a topic has no reader schema.
    pub(crate) fn plan(
        mut schemas: Schemas,
        topics: &[&str],
        request: &DecodeRequest,
    ) -> Result<Self> {
        if schemas.is_empty() {
            return Err(refused(
                "no schemas were found: there is no topic _schemas in the log dirs that are read; give the log dir that \
                 has it (schemas=\"/path\"), or the schemas themselves: schemas={id: text}, or schemas={topic: path of a \
                 .avsc, .proto, .desc or .json file} for values without framing"
                    .to_owned(),
            ));
        }
        let mut side = |side: Side| -> Result<SideDecoding> {
            let mut readers = BTreeMap::new();
            if request.decode_as == DecodeAs::Struct {
                for topic in topics {
                    let schema = reader_of(&mut schemas, topic, side, request)?;
                    let message = None;
                    readers.insert((*topic).to_owned(), TopicReader { schema, message });
                }
            }
            Ok(SideDecoding {
                readers,
                projection: Projection::new(),
            })
        };
        let key = request.key.then(|| side(Side::Key)).transpose()?;
        let value = request.value.then(|| side(Side::Value)).transpose()?;
        Ok(Self {
            schemas: Arc::new(schemas),
            key,
            value,
            decode_as: request.decode_as,
            on_undecoded: request.on_undecoded,
            lost: Vec::new(),
        })
    }

    /// Returns the same if all reader schemas can be used.
    ///
    /// # Errors
    /// Those of [`Decoding::data_type`].
    pub(crate) fn checked(self) -> Result<Self> {
        self.data_type(Side::Key)?;
        self.data_type(Side::Value)?;
        Ok(self)
    }

    /// Sets the Protobuf message of a topic's column, by its full name.
    pub(crate) fn choose_message(&mut self, side: Side, topic: &str, message: Option<String>) {
        let side = self.side_mut(side);
        if let Some(reader) = side.and_then(|side| side.readers.get_mut(topic)) {
            reader.message = message;
        }
    }

    /// The same, of schemas that were read without these ranges.
    pub(crate) fn without(mut self, lost: Vec<LostRange>) -> Self {
        self.lost = lost;
        self
    }

    /// The decoding of a side, if it is decoded.
    pub(crate) const fn side(&self, side: Side) -> Option<&SideDecoding> {
        match side {
            Side::Key => self.key.as_ref(),
            Side::Value => self.value.as_ref(),
        }
    }

    const fn side_mut(&mut self, side: Side) -> Option<&mut SideDecoding> {
        match side {
            Side::Key => self.key.as_mut(),
            Side::Value => self.value.as_mut(),
        }
    }

    /// Returns the same that decodes only these fields of a side; none are all.
    ///
    /// # Errors
    /// `InvalidArgument` for a field that the type does not have.
    pub(crate) fn projected(mut self, side: Side, paths: &[Vec<String>]) -> Result<Self> {
        if let Some(of) = self.side_mut(side) {
            of.projection = Projection::new();
        }
        let whole = self.data_type(side)?;
        let mut projection = Projection::new();
        for path in paths {
            let mut there: &[FieldRef] = &[];
            let whole = whole.as_ref();
            let known = whole.map_or_else(Vec::new, |whole| names_in(whole, path, &mut there));
            if known.is_empty() {
                let names: Vec<_> = there.iter().map(|field| field.name().as_str()).collect();
                return Err(refused(format!(
                    "{} has no field '{}'; there are: {}",
                    side.name(),
                    path.join("."),
                    names.join(", ")
                )));
            }
            projection.extend(known);
        }
        if let Some(of) = self.side_mut(side) {
            of.projection = projection;
        }
        Ok(self)
    }

    /// Returns the same reader schemas with other schemas of records.
    ///
    /// # Errors
    /// `InvalidArgument` for a reader schema that cannot be used.
    pub(crate) fn refreshed(&self, mut schemas: Schemas) -> Result<Self> {
        let mut new = self.clone();
        let mut moved: BTreeMap<SchemaIndex, SchemaIndex> = BTreeMap::new();
        for of in [&mut new.key, &mut new.value].into_iter().flatten() {
            for reader in of.readers.values_mut() {
                let old = reader.schema;
                reader.schema = match moved.get(&old) {
                    Some(&known) => known,
                    None => match self.unchanged(old, &schemas) {
                        Some(same) => same,
                        None => schemas.add(self.detached(old)?),
                    },
                };
                moved.insert(old, reader.schema);
            }
        }
        new.schemas = Arc::new(schemas);
        Ok(new)
    }

    /// A schema's place among others, if it and what it refers to are the same there.
    fn unchanged(&self, index: SchemaIndex, others: &Schemas) -> Option<SchemaIndex> {
        let known = self.schemas.get(index)?;
        let found = others.rows().iter().position(|other| other == known)?;
        (others.text(found).ok()? == self.schemas.text(index).ok()?).then_some(found)
    }

    /// A schema that carries the texts that it refers to.
    fn detached(&self, index: SchemaIndex) -> Result<RegisteredSchema> {
        let unusable = |why: Undecoded| refused(format!("{}: {why}", self.named(index)));
        let text = self.schemas.text(index).map_err(unusable)?;
        let known = self.schemas.get(index);
        let known = known.ok_or_else(|| Error::internal("a reader schema is missing"))?;
        let imports = text.references.iter();
        Ok(RegisteredSchema {
            version: 0,
            references: Vec::new(),
            imports: imports
                .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
                .collect(),
            ..known.clone()
        })
    }

    /// The type of a side's column; `None` if it is not decoded.
    ///
    /// # Errors
    /// `InvalidArgument` for reader schemas that cannot be used, or that have several types.
    pub(crate) fn data_type(&self, side: Side) -> Result<Option<DataType>> {
        let Some(of) = self.side(side) else {
            return Ok(None);
        };
        if self.decode_as == DecodeAs::Json {
            return Ok(Some(DataType::Utf8));
        }
        let mut first: Option<(&str, &TopicReader, DataType)> = None;
        for (topic, reader) in &of.readers {
            if first.as_ref().is_some_and(|(_, known, _)| *known == reader) {
                continue;
            }
            let decoder = self
                .reader_of(of, reader)
                .map_err(|undecoded| self.unusable(topic, side, reader.schema, &undecoded))?;
            let found = decoder.data_type();
            match &first {
                None => first = Some((topic, reader, found)),
                Some((_, _, known)) if *known == found => {}
                Some((other, known, _)) => {
                    return Err(refused(format!(
                        "topics {other} and {topic} have different reader schemas ({} and {}), and a column has one type: \
                         read one topic at a time, give one reader_schema for both, or use decode_as=\"json\"",
                        self.named(known.schema),
                        self.named(reader.schema)
                    )));
                }
            }
        }
        Ok(Some(first.map_or(DataType::Null, |(_, _, found)| found)))
    }

    /// A new decoder for a reader schema.
    fn reader_of(
        &self,
        of: &SideDecoding,
        reader: &TopicReader,
    ) -> std::result::Result<Box<dyn Decoder>, Undecoded> {
        let text = self.schemas.text(reader.schema)?;
        let kind = self.schemas.get(reader.schema).map(|schema| &schema.kind);
        let message = reader.message.as_deref();
        formats::reader(
            kind.unwrap_or(&SchemaKind::Avro),
            &text,
            message,
            &of.projection,
        )
    }

    /// A new decoder for the reader schema of a topic; `None` if it was not planned.
    pub(super) fn open(
        &self,
        side: Side,
        reader: &TopicReader,
    ) -> std::result::Result<Box<dyn Decoder>, Undecoded> {
        let of = self
            .side(side)
            .ok_or_else(|| Undecoded::new(Cause::BadSchema, "this side is not decoded"))?;
        self.reader_of(of, reader)
    }

    /// The reader schema of a topic.
    pub(super) fn reader(&self, side: Side, topic: &str) -> Option<&TopicReader> {
        self.side(side)?.readers.get(topic)
    }

    /// A schema by its name.
    pub(crate) fn named(&self, schema: SchemaIndex) -> String {
        let schema = self.schemas.get(schema);
        schema.map_or_else(String::new, ToString::to_string)
    }

    fn unusable(&self, topic: &str, side: Side, reader: SchemaIndex, why: &Undecoded) -> Error {
        let (side, schema) = (side.name(), self.named(reader));
        refused(format!(
            "{schema}, the reader schema of {topic}'s {side}s, gives no column: {why}; decode_as=\"json\" gives text \
             under each record's own schema, and reader_schema names another one"
        ))
    }
}

/// Finds the reader schema of a topic.
fn reader_of(
    schemas: &mut Schemas,
    topic: &str,
    side: Side,
    request: &DecodeRequest,
) -> Result<SchemaIndex> {
    let subject = side.subject(topic);
    match request.reader(topic, side) {
        ReaderSchema::Latest => schemas.newest(topic, side).or_else(|| schemas.last_given()).ok_or_else(|| {
            refused(format!(
                "topic {topic} has no reader schema: no version of subject {subject} is there that is not deleted; give \
                 reader_schema=, a version or a schema's text, or use decode_as=\"json\", which serves several record types \
                 in a topic"
            ))
        }),
        ReaderSchema::Version(version) => schemas.version(topic, side, *version).ok_or_else(|| {
            refused(format!(
                "topic {topic} has no version {version} of subject {subject}; kafkalog schemas lists those that there are"
            ))
        }),
        ReaderSchema::Text(text) | ReaderSchema::Importing(text, _) => {
            // A text that fits several formats is of the format that the topic has.
            let known = schemas.newest(topic, side);
            let known = known.and_then(|known| Some(schemas.get(known)?.kind.clone()));
            let guess = SchemaKind::guess(text);
            let kind = match known {
                Some(known) if known != SchemaKind::Protobuf && guess != SchemaKind::Protobuf => known,
                _ => guess,
            };
            let name = format!("reader of {subject}");
            let mut given = RegisteredSchema::given(name, kind, text);
            if let ReaderSchema::Importing(_, imports) = request.reader(topic, side) {
                given.imports.clone_from(imports);
            }
            Ok(schemas.add(given))
        }
    }
}
