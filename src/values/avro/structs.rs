//! Avro values in the type of a reader schema.

use arrow_schema::DataType;

use super::super::builder::Builder;
use super::super::decoder::{Body, Decoder, ProgramId, SchemaText};
use super::super::fault::{Cause, Undecoded};
use super::super::field_tree::FieldTree;
use super::column::data_type;
use super::cursor::{AvroCursor, value_bytes};
use super::parse::parse;
use super::resolve::{AvroAliases, Resolver};
use super::schema::{AvroKind, AvroSchema};
use super::skip::skip;
use super::step::{SchemaPair, Step};

/// Decodes into the column of a reader schema.
#[derive(Debug)]
pub(crate) struct AvroStructs {
    reader: AvroSchema,
    /// The reader schema's texts: a writer with the same needs no aliases.
    texts: Vec<String>,
    wanted: FieldTree,
    data_type: DataType,
    aliases: AvroAliases,
    programs: Vec<AvroProgram>,
}

/// A writer schema against the reader schema.
#[derive(Debug)]
struct AvroProgram {
    writer: AvroSchema,
    step: Step,
}

fn texts(schema: &SchemaText<'_>) -> Vec<String> {
    let references = schema.references.iter().map(|(_, text)| *text);
    references.chain([schema.text]).map(str::to_owned).collect()
}

impl AvroStructs {
    /// A decoder into the type of `reader`, or into those of its fields that are wanted.
    ///
    /// # Errors
    /// `BadSchema` for a text that cannot be used, and for a recursive schema.
    pub(crate) fn try_new(reader: &SchemaText<'_>, wanted: FieldTree) -> Result<Self, Undecoded> {
        let schema = parse(reader)?;
        Ok(Self {
            data_type: data_type(&schema, &wanted)?,
            aliases: AvroAliases::of(&schema),
            texts: texts(reader),
            reader: schema,
            wanted,
            programs: Vec::new(),
        })
    }
}

impl Decoder for AvroStructs {
    fn data_type(&self) -> DataType {
        self.data_type.clone()
    }

    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        let schema = parse(writer)?;
        let none = AvroAliases::default();
        let aliases = if texts(writer) == self.texts {
            &none
        } else {
            &self.aliases
        };
        let step = Resolver::new(&schema, &self.reader, aliases).root(&self.wanted)?;
        if let Some(conflict) = step.certain_conflict() {
            return Err(Undecoded::new(Cause::Incompatible, conflict));
        }
        self.programs.push(AvroProgram {
            writer: schema,
            step,
        });
        Ok(self.programs.len().saturating_sub(1))
    }

    fn decode(
        &self,
        program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let Some(AvroProgram { writer, step }) = self.programs.get(program) else {
            return Err(Undecoded::new(Cause::BadSchema, "no such program"));
        };
        let schemas = SchemaPair {
            writer,
            reader: &self.reader,
        };
        let bytes = value_bytes(body, writer)?;
        let mut input = AvroCursor::new(bytes);
        let done = step.run(&schemas, &mut input, column);
        match done.and_then(|()| input.end()) {
            // Damage comes before what the reader cannot read.
            Err(fault) if fault.cause() == Cause::Incompatible => {
                sound(writer, bytes)?;
                Err(fault)
            }
            done => done,
        }
    }
}

/// Demands that the bytes are a value of the schema.
fn sound(writer: &AvroSchema, bytes: &[u8]) -> Result<(), Undecoded> {
    let mut input = AvroCursor::new(bytes);
    if !matches!(writer.get(writer.root).kind, AvroKind::Bytes) {
        skip(writer, writer.root, &mut input, 0)?;
        input.end()?;
    }
    Ok(())
}
