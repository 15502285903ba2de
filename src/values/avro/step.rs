//! The program that decodes the values of one writer schema into a column.

use std::fmt::Arguments;

use arrow_buffer::i256;
use arrow_data::decimal::{is_validate_decimal_precision, is_validate_decimal256_precision};

use super::super::builder::{Builder, BytesBuilder, ListBuilder, SHORT, StructBuilder, Text};
use super::super::fault::{Cause, Undecoded};
use super::cursor::{AvroCursor, utf8};
use super::decimal::{decimal128, decimal256};
use super::schema::{AvroSchema, TypeId};
use super::skip::skip;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The handling of the next bytes, and what it appends to the column.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// No bytes, and a null.
    Null,
    Boolean,
    Int,
    Long,
    /// An int into a column of 64 bits.
    Widened,
    /// Milliseconds of a day.
    TimeMillis,
    /// Microseconds of a day, of an int or a long.
    TimeMicros(Wire),
    Float(Wire),
    Double(Wire),
    Bytes(ByteLength),
    Text(ByteLength),
    /// With the precision of the column.
    Decimal128(ByteLength, u8),
    Decimal256(ByteLength, u8),
    Fixed(usize),
    /// 16 bytes as text.
    Uuid,
    Enum(Symbols),
    List(Box<Items>),
    Map(Box<Items>),
    Record(Box<[FieldStep]>),
    /// One step for each branch of the writer.
    Union(Box<[Step]>),
    /// A branch of the reader: a child of a struct whose others are null.
    Branch(usize, Box<Step>),
    /// A branch of the reader that nobody wants: all children are null.
    OtherBranch(WriterType),
    /// A value that the reader schema cannot read.
    Conflict(Box<str>),
}

/// The writer's type of a number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wire {
    Int,
    Long,
    Float,
    Double,
}

/// The length of bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum ByteLength {
    /// Before them.
    Prefixed,
    Exactly(usize),
    /// All that is left: a value that is nothing but bytes has no length.
    Rest,
}

/// The reader's text of each symbol of the writer, where it has one.
#[derive(Debug, PartialEq)]
pub(super) struct Symbols(Box<[Option<Symbol>]>);

#[derive(Debug, PartialEq)]
enum Symbol {
    Short([u8; SHORT], usize),
    Long(Box<str>),
}

/// The items of a list or the values of a map.
#[derive(Debug, PartialEq)]
pub(super) struct Items {
    pub(super) step: Step,
    /// Bytes that an item takes whatever its value, if they are many.
    pub(super) width: usize,
}

/// A field of the writer, or one that only the reader has.
#[derive(Debug, PartialEq)]
pub(super) enum FieldStep {
    /// Into this child.
    Value(usize, Step),
    Skip(WriterType),
    /// The bytes that stand for the default, into this child.
    Default(usize, Box<[u8]>, Step),
}

/// A type of the writer. Those of two programs never count as the same: they are of two schemas.
#[derive(Clone, Copy, Debug)]
pub(super) struct WriterType(pub(super) TypeId);

impl PartialEq for WriterType {
    fn eq(&self, _: &Self) -> bool {
        false
    }
}

/// The schemas of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPair<'s> {
    pub(super) writer: &'s AvroSchema,
    pub(super) reader: &'s AvroSchema,
}

pub(super) type Done = Result<(), Undecoded>;

#[cold]
pub(super) fn foreign() -> Undecoded {
    Undecoded::new(Cause::BadSchema, "the column is of another type")
}

#[cold]
fn incompatible(input: &AvroCursor<'_>, text: Arguments<'_>) -> Undecoded {
    Undecoded::at(Cause::Incompatible, input.position(), text)
}

impl ByteLength {
    #[inline]
    fn take<'a>(self, input: &mut AvroCursor<'a>) -> Result<&'a [u8], Undecoded> {
        match self {
            Self::Prefixed => input.prefixed(),
            Self::Exactly(size) => input.take(size),
            Self::Rest => Ok(input.take_rest()),
        }
    }
}

impl Step {
    /// Decodes a value into the column. What is common is compiled into each loop over fields and items.
    #[expect(clippy::inline_always, reason = "a call costs as much as a scalar")]
    #[inline(always)]
    pub(super) fn run(
        &self,
        schemas: &SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        column: &mut Builder,
    ) -> Done {
        match (self, column) {
            (Self::Int, Builder::Int32(numbers)) => numbers.push(input.int()?),
            (Self::Long, Builder::Int64(numbers)) => numbers.push(input.long()?),
            (Self::Double(Wire::Double), Builder::Float64(numbers)) => {
                numbers.push(input.double()?);
            }
            (Self::Text(ByteLength::Prefixed), Builder::Bytes(texts)) => input.text(texts)?,
            (Self::Enum(symbols), Builder::Bytes(texts)) => symbols.run(input, texts)?,
            (Self::Union(branches), column) => run_union(branches, schemas, input, column)?,
            (Self::Record(fields), Builder::Struct(rows)) => {
                run_fields(fields, schemas, input, rows)?;
            }
            (Self::List(items), Builder::List(lists)) => items.run_list(schemas, input, lists)?,
            (step, column) => step.run_other(schemas, input, column)?,
        }
        Ok(())
    }

    #[inline(never)]
    fn run_other(
        &self,
        schemas: &SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        column: &mut Builder,
    ) -> Done {
        match (self, column) {
            (Self::Map(values), Builder::List(lists)) => values.run_map(schemas, input, lists),
            (Self::Branch(child, step), Builder::Struct(rows)) => {
                for (at, column) in rows.children().iter_mut().enumerate() {
                    if at == *child {
                        step.run(schemas, input, column)?;
                    } else {
                        column.push_null();
                    }
                }
                rows.close();
                Ok(())
            }
            (Self::OtherBranch(WriterType(id)), Builder::Struct(rows)) => {
                skip(schemas.writer, *id, input, 0)?;
                rows.children().iter_mut().for_each(Builder::push_null);
                rows.close();
                Ok(())
            }
            (step, column) => step.run_scalar(input, column),
        }
    }

    /// The less common scalars.
    #[inline(never)]
    fn run_scalar(&self, input: &mut AvroCursor<'_>, column: &mut Builder) -> Done {
        match (self, column) {
            (Self::Null, column) => column.push_null(),
            (Self::Boolean, Builder::Boolean(flags)) => flags.push(input.boolean()?),
            (Self::Widened, Builder::Int64(numbers)) => numbers.push(i64::from(input.int()?)),
            (Self::TimeMillis, Builder::Int64(numbers)) => {
                let millis = i64::from(input.int()?);
                numbers.push(time(millis.saturating_mul(1_000), input)?);
            }
            (Self::TimeMicros(wire), Builder::Int64(numbers)) => {
                let micros = match wire {
                    Wire::Int => i64::from(input.int()?),
                    _ => input.long()?,
                };
                numbers.push(time(micros, input)?);
            }
            (Self::Float(wire), Builder::Float32(numbers)) => numbers.push(wire.float(input)?),
            (Self::Double(wire), Builder::Float64(numbers)) => numbers.push(wire.double(input)?),
            (Self::Text(size), Builder::Bytes(texts)) => {
                let bytes = size.take(input)?;
                texts.push(utf8(bytes, input)?.as_bytes())?;
            }
            (Self::Bytes(size), Builder::Bytes(texts)) => texts.push(size.take(input)?)?,
            // Java gives numbers of more digits than the precision, too. But a column of them is written wrong by Parquet
            // and read wrong by DuckDB, without a word.
            (Self::Decimal128(size, precision), Builder::Decimal128(numbers)) => {
                let bytes = size.take(input)?;
                let fits = |number: &i128| is_validate_decimal_precision(*number, *precision);
                let number = decimal128(bytes).filter(fits);
                numbers.push(number.ok_or_else(|| not_a_decimal(bytes, *precision, input))?);
            }
            (Self::Decimal256(size, precision), Builder::Decimal256(numbers)) => {
                let bytes = size.take(input)?;
                let fits = |number: &i256| is_validate_decimal256_precision(*number, *precision);
                let number = decimal256(bytes).filter(fits);
                numbers.push(number.ok_or_else(|| not_a_decimal(bytes, *precision, input))?);
            }
            (Self::Fixed(size), Builder::Fixed(fixed)) => fixed.push(input.take(*size)?)?,
            (Self::Uuid, Builder::Bytes(texts)) => {
                texts.push(&uuid(input.array()?))?;
            }
            (Self::Conflict(text), _) => return Err(incompatible(input, format_args!("{text}"))),
            _ => return Err(foreign()),
        }
        Ok(())
    }

    /// The steps of a record's fields; none of anything else.
    pub(super) fn fields(&self) -> &[FieldStep] {
        match self {
            Self::Record(fields) => fields,
            _ => &[],
        }
    }

    /// Bytes of all defaults that one value may take.
    pub(super) fn default_bytes(&self) -> usize {
        match self {
            Self::Branch(_, step) => step.default_bytes(),
            Self::Union(branches) => {
                let all = branches.iter().map(Self::default_bytes);
                all.max().unwrap_or_default()
            }
            Self::Record(fields) => fields.iter().fold(0, |sum: usize, field| {
                sum.saturating_add(match field {
                    FieldStep::Value(_, step) => step.default_bytes(),
                    FieldStep::Skip(_) => 0,
                    // Each of its bytes may take more in columns.
                    FieldStep::Default(_, bytes, _) => bytes.len().saturating_mul(8),
                })
            }),
            _ => 0,
        }
    }

    /// The conflict that no value of the writer avoids.
    pub(super) fn certain_conflict(&self) -> Option<&str> {
        match self {
            Self::Conflict(text) => Some(text),
            Self::Branch(_, step) => step.certain_conflict(),
            Self::Union(branches) => {
                let mut all = branches.iter().map(Self::certain_conflict);
                let first = all.next()??;
                all.all(|conflict| conflict.is_some()).then_some(first)
            }
            Self::Record(fields) => fields.iter().find_map(|field| match field {
                FieldStep::Value(_, step) => step.certain_conflict(),
                FieldStep::Skip(_) | FieldStep::Default(..) => None,
            }),
            _ => None,
        }
    }
}

#[inline(never)]
fn run_union(
    branches: &[Step],
    schemas: &SchemaPair<'_>,
    input: &mut AvroCursor<'_>,
    column: &mut Builder,
) -> Done {
    let branch = input.index(branches.len(), "branch")?;
    match branches.get(branch) {
        Some(Step::Null) => column.push_null(),
        Some(step) => step.run(schemas, input, column)?,
        None => {}
    }
    Ok(())
}

#[inline(never)]
fn run_fields(
    fields: &[FieldStep],
    schemas: &SchemaPair<'_>,
    input: &mut AvroCursor<'_>,
    rows: &mut StructBuilder,
) -> Done {
    let children = rows.children();
    for field in fields {
        match field {
            FieldStep::Value(child, step) => {
                let column = children.get_mut(*child).ok_or_else(foreign)?;
                step.run(schemas, input, column)?;
            }
            FieldStep::Skip(WriterType(id)) => skip(schemas.writer, *id, input, 0)?,
            FieldStep::Default(..) => field.run_default(schemas, children)?,
        }
    }
    rows.close();
    Ok(())
}

impl FieldStep {
    #[inline(never)]
    fn run_default(&self, schemas: &SchemaPair<'_>, children: &mut [Builder]) -> Done {
        let Self::Default(child, bytes, step) = self else {
            return Ok(());
        };
        let column = children.get_mut(*child).ok_or_else(foreign)?;
        let SchemaPair { reader, .. } = *schemas;
        let writer = reader;
        let mut input = AvroCursor::new(bytes);
        step.run(&SchemaPair { writer, reader }, &mut input, column)
    }
}

impl Items {
    #[inline(never)]
    fn run_list(
        &self,
        schemas: &SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        lists: &mut ListBuilder,
    ) -> Done {
        let column = lists.item();
        input.items(self.width.max(1), |input| {
            input.charge(self.width)?;
            self.step.run(schemas, input, column)
        })?;
        lists.close()
    }

    fn run_map(
        &self,
        schemas: &SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        lists: &mut ListBuilder,
    ) -> Done {
        let first = lists.item().len();
        let begin = input.clone();
        self.run_entries(schemas, input, lists, &[])?;
        if lists.item().len().saturating_sub(first) > 1
            && let Builder::Struct(entries) = lists.item()
            && let Some(Builder::Bytes(keys)) = entries.children().first()
        {
            // Of several entries of a key Java keeps the last one; DuckDB reads no column with such a map.
            let repeated = keys.repeated(first);
            if !repeated.is_empty() {
                lists.item().truncate(first);
                *input = begin;
                self.run_entries(schemas, input, lists, &repeated)?;
            }
        }
        lists.close()
    }

    /// Decodes the entries of a map but those at the places to leave out, which rise.
    fn run_entries(
        &self,
        schemas: &SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        lists: &mut ListBuilder,
        left_out: &[usize],
    ) -> Done {
        let Builder::Struct(entries) = lists.item() else {
            return Err(foreign());
        };
        let mut place = 0_usize;
        input.items(self.width.max(1), |input| {
            input.charge(self.width)?;
            let rows = entries.rows();
            let [Builder::Bytes(keys), column] = entries.children() else {
                return Err(foreign());
            };
            input.text(keys)?;
            self.step.run(schemas, input, column)?;
            entries.close();
            if left_out.binary_search(&place).is_ok() {
                entries.truncate(rows);
            }
            place = place.saturating_add(1);
            Ok(())
        })
    }
}

impl Symbols {
    pub(super) fn new<'a>(texts: impl Iterator<Item = Option<&'a str>>) -> Self {
        Self(texts.map(|text| text.map(Symbol::new)).collect())
    }

    #[inline(never)]
    fn run(&self, input: &mut AvroCursor<'_>, texts: &mut BytesBuilder) -> Done {
        texts.push_text(self.next(input)?)
    }

    /// The text of the symbol that comes next.
    #[inline]
    pub(super) fn next<'s>(&'s self, input: &mut AvroCursor<'_>) -> Result<Text<'s>, Undecoded> {
        let symbol = input.index(self.0.len(), "symbol")?;
        match self.0.get(symbol) {
            Some(Some(Symbol::Short(start, length))) => Ok(Text::Short(start, *length)),
            Some(Some(Symbol::Long(text))) => Ok(Text::Long(text.as_bytes())),
            _ => {
                let text = "a symbol that the reader's enum does not have, nor a default";
                Err(incompatible(input, format_args!("{text}")))
            }
        }
    }
}

impl Symbol {
    fn new(text: &str) -> Self {
        let mut start = [0; SHORT];
        match start.get_mut(..text.len()) {
            Some(place) => {
                place.copy_from_slice(text.as_bytes());
                Self::Short(start, text.len())
            }
            None => Self::Long(text.into()),
        }
    }
}

impl Wire {
    #[expect(clippy::cast_precision_loss, reason = "promotion rounds, as in Java")]
    fn float(self, input: &mut AvroCursor<'_>) -> Result<f32, Undecoded> {
        Ok(match self {
            Self::Int => input.int()? as f32,
            Self::Long => input.long()? as f32,
            Self::Float | Self::Double => input.float()?,
        })
    }

    #[expect(clippy::cast_precision_loss, reason = "promotion rounds, as in Java")]
    fn double(self, input: &mut AvroCursor<'_>) -> Result<f64, Undecoded> {
        Ok(match self {
            Self::Int => f64::from(input.int()?),
            Self::Long => input.long()? as f64,
            Self::Float => f64::from(input.float()?),
            Self::Double => input.double()?,
        })
    }
}

/// A time that Arrow's type can hold.
fn time(micros: i64, input: &AvroCursor<'_>) -> Result<i64, Undecoded> {
    if (0..DAY).contains(&micros) {
        return Ok(micros);
    }
    Err(input.malformed(format_args!("{micros} microseconds are no time of a day")))
}

#[cold]
fn not_a_decimal(bytes: &[u8], precision: u8, input: &AvroCursor<'_>) -> Undecoded {
    let length = bytes.len();
    if length == 0 {
        return input.malformed(format_args!("0 bytes that are no decimal"));
    }
    // Damage elsewhere in the value comes first (`AvroStructs::decode`).
    incompatible(
        input,
        format_args!(
            "{length} bytes that are no decimal of {precision} digits; decode_as=\"json\" gives any"
        ),
    )
}

/// The text of a UUID.
pub(super) fn uuid(bytes: [u8; 16]) -> [u8; 36] {
    let mut text = [b'-'; 36];
    // The digits, with room for hyphens before the bytes 4, 6, 8 and 10.
    let places = [0, 2, 4, 6, 9, 11, 14, 16, 19, 21, 24, 26, 28, 30, 32, 34];
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).map_or(b'?', |c| c as u8);
    for (byte, place) in bytes.iter().zip(places) {
        if let Some([high, low]) = text
            .get_mut(place..)
            .and_then(|rest| rest.first_chunk_mut())
        {
            *high = digit(byte >> 4);
            *low = digit(byte & 15);
        }
    }
    text
}
