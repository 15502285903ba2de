//! Avro values as JSON text, each under its own schema.
//!
//! Unions are `{branch: value}`, also those with null; bytes and fixed are base64, decimals and UUIDs text; NaN and the
//! infinities are text; dates and times are numbers in the unit of their type.

use std::fmt::Arguments;

use arrow_schema::DataType;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::super::builder::Builder;
use super::super::decoder::{Body, Decoder, ProgramId, SchemaText};
use super::super::fault::{Cause, Undecoded};
use super::cursor::{AvroCursor, MAX_DEPTH, utf8, value_bytes};
use super::decimal::{MAX_DECIMAL, put_decimal};
use super::parse::parse;
use super::schema::{AvroKind, AvroLogical, AvroSchema, AvroType, TypeId};
use super::step::uuid;

/// Decodes into text.
#[derive(Debug, Default)]
pub(crate) struct AvroTexts {
    schemas: Vec<AvroSchema>,
}

type Printed = Result<(), Undecoded>;

impl Decoder for AvroTexts {
    fn data_type(&self) -> DataType {
        DataType::Utf8
    }

    fn compile(&mut self, writer: &SchemaText<'_>) -> Result<ProgramId, Undecoded> {
        self.schemas.push(parse(writer)?);
        Ok(self.schemas.len().saturating_sub(1))
    }

    fn decode(&self, program: ProgramId, body: Body<'_>, column: &mut Builder) -> Printed {
        let (Some(schema), Builder::Bytes(texts)) = (self.schemas.get(program), column) else {
            return Err(Undecoded::new(
                Cause::BadSchema,
                "no such program or column",
            ));
        };
        let bytes = value_bytes(body, schema)?;
        texts.push_with(|out| {
            let mut printer = Printer {
                schema,
                start: out.len(),
                input: AvroCursor::new(bytes),
                out,
            };
            let root = schema.get(schema.root);
            if matches!(root.kind, AvroKind::Bytes) {
                // Confluent's serializers write such values without Avro's length.
                let bytes = printer.input.take_rest();
                printer.binary(root, bytes)?;
            } else {
                printer.value(schema.root, 0)?;
            }
            printer.input.end()
        })
    }
}

struct Printer<'a> {
    schema: &'a AvroSchema,
    input: AvroCursor<'a>,
    out: &'a mut Vec<u8>,
    /// Bytes before this value.
    start: usize,
}

impl Printer<'_> {
    fn json(&mut self, value: &(impl Serialize + ?Sized)) -> Printed {
        serde_json::to_writer(&mut *self.out, value).map_err(|e| self.refused(format_args!("{e}")))
    }

    #[cold]
    fn refused(&self, text: Arguments<'_>) -> Undecoded {
        self.input.malformed(text)
    }

    fn number(&mut self, value: f64) -> Printed {
        if value.is_finite() {
            return self.json(&value);
        }
        let text = match value {
            f64::INFINITY => "\"Infinity\"",
            f64::NEG_INFINITY => "\"-Infinity\"",
            _ => "\"NaN\"",
        };
        self.out.extend_from_slice(text.as_bytes());
        Ok(())
    }

    fn text(&mut self, bytes: &[u8]) -> Printed {
        let text = utf8(bytes, &self.input)?;
        self.json(text)
    }

    fn binary(&mut self, made: &AvroType, bytes: &[u8]) -> Printed {
        self.out.push(b'"');
        match made.logical {
            Some(AvroLogical::Decimal { scale, .. }) => {
                if bytes.is_empty() {
                    return Err(self.refused(format_args!("a decimal without bytes")));
                }
                let length = bytes.len();
                let scale = usize::try_from(scale).unwrap_or(usize::MAX);
                if length.max(scale) > MAX_DECIMAL {
                    let text = format_args!("a decimal of {length} bytes, at most {MAX_DECIMAL}");
                    return Err(Undecoded::at(Cause::TooLarge, self.input.position(), text));
                }
                put_decimal(bytes, scale, self.out);
            }
            Some(AvroLogical::Uuid) => {
                let bytes = bytes.try_into();
                let bytes = bytes.map_err(|_| self.refused(format_args!("no UUID")))?;
                self.out.extend_from_slice(&uuid(bytes));
            }
            _ => self
                .out
                .extend_from_slice(BASE64_STANDARD.encode(bytes).as_bytes()),
        }
        self.out.push(b'"');
        Ok(())
    }

    /// Demands that the text is not too long yet: records, and items without bytes, may take any amount.
    fn bounded(&self) -> Printed {
        if self.out.len().saturating_sub(self.start) > self.input.budget() {
            return Err(self.input.too_large());
        }
        Ok(())
    }

    fn value(&mut self, id: TypeId, depth: usize) -> Printed {
        let made = self.schema.get(id);
        let deeper = depth.saturating_add(1);
        match &made.kind {
            AvroKind::Null => self.out.extend_from_slice(b"null"),
            AvroKind::Boolean => {
                let value = self.input.boolean()?;
                self.json(&value)?;
            }
            AvroKind::Int => {
                let value = self.input.int()?;
                self.json(&value)?;
            }
            AvroKind::Long => {
                let value = self.input.long()?;
                self.json(&value)?;
            }
            AvroKind::Float => {
                let value = self.input.float()?;
                self.number(f64::from(value))?;
            }
            AvroKind::Double => {
                let value = self.input.double()?;
                self.number(value)?;
            }
            AvroKind::Bytes => {
                let bytes = self.input.prefixed()?;
                self.binary(made, bytes)?;
            }
            AvroKind::String => {
                let bytes = self.input.prefixed()?;
                self.text(bytes)?;
            }
            AvroKind::Fixed(size) => {
                let bytes = self.input.take(*size)?;
                self.binary(made, bytes)?;
            }
            AvroKind::Enum { symbols, .. } => {
                let symbol = self.input.index(symbols.len(), "symbol")?;
                self.json(symbols.get(symbol).map_or("", |symbol| &**symbol))?;
            }
            AvroKind::Union(branches) => {
                let branch = self.input.index(branches.len(), "branch")?;
                let Some(&branch) = branches.get(branch) else {
                    return Ok(());
                };
                if matches!(self.schema.get(branch).kind, AvroKind::Null) {
                    self.out.extend_from_slice(b"null");
                } else {
                    self.out.push(b'{');
                    self.json(self.schema.get(branch).branch())?;
                    self.out.push(b':');
                    self.value(branch, depth)?;
                    self.out.push(b'}');
                }
            }
            _ if depth >= MAX_DEPTH => return Err(self.input.too_deep()),
            AvroKind::Array(items) => {
                self.out.push(b'[');
                self.items(b']', |printer| printer.value(*items, deeper))?;
            }
            AvroKind::Map(values) => {
                self.out.push(b'{');
                self.items(b'}', |printer| {
                    let key = printer.input.prefixed()?;
                    printer.text(key)?;
                    printer.out.push(b':');
                    printer.value(*values, deeper)
                })?;
            }
            AvroKind::Record(fields) => {
                self.bounded()?;
                self.out.push(b'{');
                for (at, field) in fields.iter().enumerate() {
                    if at > 0 {
                        self.out.push(b',');
                    }
                    self.out.extend_from_slice(field.key.as_bytes());
                    self.value(field.value, deeper)?;
                }
                self.out.push(b'}');
            }
        }
        Ok(())
    }

    fn items(&mut self, end: u8, mut item: impl FnMut(&mut Self) -> Printed) -> Printed {
        let mut is_first = true;
        loop {
            let count = self.input.block()?;
            if count == 0 {
                break;
            }
            for _ in 0..count {
                self.bounded()?;
                if !is_first {
                    self.out.push(b',');
                }
                is_first = false;
                let left = self.input.left();
                item(self)?;
                if self.input.left() == left {
                    self.input.empty_item(1)?;
                }
            }
        }
        self.out.push(end);
        Ok(())
    }
}
