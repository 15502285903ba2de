//! Avro values in the type of a reader schema.

use arrow_schema::DataType;

use super::super::builder::Builder;
use super::super::decoder::{BLOCK, Body, Decoder, ProgramId, SchemaText};
use super::super::fault::{Cause, Undecoded};
use super::super::field_tree::FieldTree;
use super::block::run_fields;
use super::column::data_type;
use super::cursor::{AvroCursor, value_bytes};
use super::parse::parse;
use super::resolve::{AvroAliases, Resolver};
use super::schema::{AvroKind, AvroSchema};
use super::skip::skip;
use super::step::{SchemaPair, Step, foreign};

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
    /// First steps of its record that are those of the first program, too.
    shared: usize,
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
        let first = self.programs.first().map_or(&step, |first| &first.step);
        let pairs = first.fields().iter().zip(step.fields());
        let shared = pairs.take_while(|(left, right)| left == right).count();
        self.programs.push(AvroProgram {
            writer: schema,
            step,
            shared,
        });
        Ok(self.programs.len().saturating_sub(1))
    }

    fn decode(
        &self,
        program: ProgramId,
        body: Body<'_>,
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let program = self.program(program)?;
        let AvroProgram { writer, step, .. } = program;
        let bytes = value_bytes(body, writer)?;
        let mut input = AvroCursor::new(bytes);
        let done = step.run(&self.pair(program), &mut input, column);
        match done.and_then(|()| input.end()) {
            // Damage comes before what the reader cannot read.
            Err(fault) if fault.cause() == Cause::Incompatible => {
                sound(writer, bytes)?;
                Err(fault)
            }
            done => done,
        }
    }

    fn has_blocks(&self) -> bool {
        true
    }

    fn decode_block(&self, payloads: &[(ProgramId, Body<'_>)], column: &mut Builder) -> bool {
        self.try_decode_block(payloads, column).is_ok()
    }
}

impl AvroStructs {
    const fn pair<'s>(&'s self, program: &'s AvroProgram) -> SchemaPair<'s> {
        SchemaPair {
            writer: &program.writer,
            reader: &self.reader,
        }
    }

    fn program(&self, program: ProgramId) -> Result<&AvroProgram, Undecoded> {
        let none = || Undecoded::new(Cause::BadSchema, "no such program");
        self.programs.get(program).ok_or_else(none)
    }

    fn try_decode_block<'a>(
        &'a self,
        payloads: &[(ProgramId, Body<'a>)],
        column: &mut Builder,
    ) -> Result<(), Undecoded> {
        let mut inputs: [_; BLOCK] = std::array::from_fn(|_| AvroCursor::new(&[]));
        let inputs = inputs.get_mut(..payloads.len()).ok_or_else(foreign)?;
        let Some((first, _)) = payloads.first() else {
            return Ok(());
        };
        let first = self.program(*first)?;
        // Steps that all programs have in common.
        let mut shared = first.step.fields().len();
        for (input, (program, body)) in inputs.iter_mut().zip(payloads) {
            let program = self.program(*program)?;
            if !std::ptr::eq(program, first) {
                shared = shared.min(program.shared).min(first.shared);
            }
            *input = AvroCursor::new(value_bytes(*body, &program.writer)?);
        }
        if let Builder::Struct(rows) = &mut *column {
            let fields = first.step.fields().get(..shared).unwrap_or_default();
            run_fields(fields, &self.pair(first), inputs, rows.children())?;
        }
        let mut rest = &mut *inputs;
        for run in payloads.chunk_by(|(left, _), (right, _)| left == right) {
            let (these, others) = rest.split_at_mut_checked(run.len()).ok_or_else(foreign)?;
            rest = others;
            let Some((program, _)) = run.first() else {
                continue;
            };
            let program = self.program(*program)?;
            let schemas = self.pair(program);
            match (&program.step, &mut *column) {
                (Step::Record(fields), Builder::Struct(rows)) => {
                    let fields = fields.get(shared..).unwrap_or_default();
                    run_fields(fields, &schemas, these, rows.children())?;
                    rows.close_all(these.len());
                }
                (step, column) => step.run_block(&schemas, these, column)?,
            }
        }
        inputs.iter().try_for_each(AvroCursor::end)
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
