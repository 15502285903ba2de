//! Protobuf messages as structs.

use std::sync::atomic::{AtomicU64, Ordering};

use arrow_schema::DataType;

use super::columns::{MessageColumns, ProtoColumns};
use super::compile::bad;
use super::message::{MessageDecoding, wrong_column};
use super::schema::ProtoSchema;
use super::wire::Part;
use crate::values::builder::Builder;
use crate::values::decoder::{Body, Decoder, ProgramId, SchemaText};
use crate::values::fault::{Cause, Undecoded};
use crate::values::field_tree::FieldTree;

/// A decoder into a message of a reader schema.
#[derive(Debug)]
pub(crate) struct ProtoStructs {
    reader: ProtoSchema,
    message: usize,
    data_type: DataType,
    row: MessageColumns,
    /// The messages of each writer schema, for which only names matter: fields are known by number.
    writers: Vec<ProtoWriter>,
    unknown: AtomicU64,
}

/// A writer schema.
#[derive(Debug)]
struct ProtoWriter {
    schema: ProtoSchema,
    /// Its first message is that of the column.
    is_first_read: bool,
}

impl ProtoStructs {
    /// A decoder into the message of this full name, else into the first one.
    ///
    /// # Errors
    /// `BadSchema`
    pub(crate) fn try_new(
        reader: &SchemaText<'_>,
        message: Option<&str>,
        wanted: &FieldTree,
    ) -> Result<Self, Undecoded> {
        let schema = ProtoSchema::try_new(reader)?;
        let message = match message.and_then(|name| schema.find(name)) {
            Some(found) => found,
            None => schema.indexed(&[]).map_err(|_| bad("it has no message"))?,
        };
        let (row, data_type) = ProtoColumns::new(&schema).message(message, wanted)?;
        Ok(Self {
            reader: schema,
            message,
            data_type,
            row,
            writers: Vec::new(),
            unknown: AtomicU64::new(0),
        })
    }

    /// Looks whether message indexes mean the message of the column.
    fn is_read(&self, writer: &ProtoWriter, message: &[i32]) -> Result<(), Undecoded> {
        let written = &writer.schema.at(writer.schema.indexed(message)?)?.name;
        let read = &self.reader.at(self.message)?.name;
        if written != read {
            let text = match self.reader.find(written) {
                Some(_) => format!(
                    "the message is {written}, the column holds {read}; decode_as=\"json\" serves several messages"
                ),
                None => format!("the reader schema has no message {written}"),
            };
            return Err(Undecoded::new(Cause::NoSuchMessage, text));
        }
        Ok(())
    }
}

impl Decoder for ProtoStructs {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn unknown_fields(&self) -> u64 {
        self.unknown.load(Ordering::Relaxed)
    }

    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        let schema = ProtoSchema::try_new(writer)?;
        let mut writer = ProtoWriter {
            schema,
            is_first_read: false,
        };
        writer.is_first_read = self.is_read(&writer, &[]).is_ok();
        self.writers.push(writer);
        Ok(self.writers.len().saturating_sub(1))
    }

    fn decode(
        &self,
        program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let writer = self.writers.get(program);
        let writer = writer.ok_or_else(|| bad("a schema was not compiled"))?;
        let is_first = matches!(body.message, [] | [0]);
        if !(is_first && writer.is_first_read) {
            self.is_read(writer, body.message)?;
        }
        let Builder::Struct(column) = column else {
            return Err(wrong_column());
        };
        let part = Part {
            bytes: body.bytes,
            at: 0,
        };
        let unknown = MessageDecoding::run(&self.reader, &self.row, part, column)?;
        if unknown > 0 {
            self.unknown.fetch_add(unknown, Ordering::Relaxed);
        }
        Ok(())
    }
}
