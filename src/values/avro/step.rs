//! The program that decodes the values of one writer schema into a column.

use std::fmt::Arguments;

use super::super::builder::Builder;
use super::super::fault::{Cause, Undecoded};
use super::cursor::{AvroCursor, utf8};
use super::decimal::{decimal128, decimal256};
use super::schema::{AvroSchema, TypeId};
use super::skip::skip;

/// Microseconds of a day.
const DAY: i64 = 86_400_000_000;

/// The handling of the next bytes, and what it appends to the column.
#[derive(Debug)]
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
    Decimal128(ByteLength),
    Decimal256(ByteLength),
    Fixed(usize),
    /// 16 bytes as text.
    Uuid,
    /// The reader's text of each symbol of the writer, where it has one.
    Enum(Box<[Option<Box<str>>]>),
    List(Box<Items>),
    Map(Box<Items>),
    Record(Box<[FieldStep]>),
    /// One step for each branch of the writer.
    Union(Box<[Step]>),
    /// A branch of the reader: a child of a struct whose others are null.
    Branch(usize, Box<Step>),
    /// A branch of the reader that nobody wants: all children are null.
    OtherBranch(TypeId),
    /// A value that the reader schema cannot read.
    Conflict(Box<str>),
}

/// The writer's type of a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wire {
    Int,
    Long,
    Float,
    Double,
}

/// The length of bytes.
#[derive(Clone, Copy, Debug)]
pub(super) enum ByteLength {
    /// Before them.
    Prefixed,
    Exactly(usize),
    /// All that is left: a value that is nothing but bytes has no length.
    Rest,
}

/// The items of a list or the values of a map.
#[derive(Debug)]
pub(super) struct Items {
    pub(super) step: Step,
    /// Bytes that an item takes whatever its value, if they are many.
    pub(super) width: usize,
}

/// A field of the writer, or one that only the reader has.
#[derive(Debug)]
pub(super) enum FieldStep {
    /// Into this child.
    Value(usize, Step),
    Skip(TypeId),
    /// The bytes that stand for the default, into this child.
    Default(usize, Box<[u8]>, Step),
}

/// The schemas of a program.
#[derive(Clone, Copy, Debug)]
pub(super) struct SchemaPair<'s> {
    pub(super) writer: &'s AvroSchema,
    pub(super) reader: &'s AvroSchema,
}

type Done = Result<(), Undecoded>;

#[cold]
fn foreign() -> Undecoded {
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
    /// Decodes a value into the column.
    pub(super) fn run(
        &self,
        schemas: SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        column: &mut Builder,
    ) -> Done {
        match (self, column) {
            (Self::Int, Builder::Int32(numbers)) => numbers.push(input.int()?),
            (Self::Long, Builder::Int64(numbers)) => numbers.push(input.long()?),
            (Self::Text(size), Builder::Bytes(texts)) => {
                let bytes = size.take(input)?;
                texts.push(utf8(bytes, input)?.as_bytes())?;
            }
            (Self::Union(branches), column) => {
                let branch = input.index(branches.len(), "branch")?;
                if let Some(step) = branches.get(branch) {
                    step.run(schemas, input, column)?;
                }
            }
            (Self::Null, column) => column.push_null(),
            (Self::Enum(symbols), Builder::Bytes(texts)) => {
                let symbol = symbols.get(input.index(symbols.len(), "symbol")?);
                let Some(Some(symbol)) = symbol else {
                    let text = "a symbol that the reader's enum does not have, nor a default";
                    return Err(incompatible(input, format_args!("{text}")));
                };
                texts.push(symbol.as_bytes())?;
            }
            (Self::Record(fields), Builder::Struct(rows)) => {
                let children = rows.children();
                for field in fields {
                    field.run(schemas, input, children)?;
                }
                rows.close();
            }
            (Self::List(items), Builder::List(lists)) => {
                let column = lists.item();
                input.items(|input| {
                    input.charge(items.width)?;
                    items.step.run(schemas, input, column)
                })?;
                lists.close()?;
            }
            (Self::Map(values), Builder::List(lists)) => {
                let Builder::Struct(entries) = lists.item() else {
                    return Err(foreign());
                };
                input.items(|input| {
                    input.charge(values.width)?;
                    let [Builder::Bytes(keys), column] = entries.children() else {
                        return Err(foreign());
                    };
                    let key = input.prefixed()?;
                    keys.push(utf8(key, input)?.as_bytes())?;
                    values.step.run(schemas, input, column)?;
                    entries.close();
                    Ok(())
                })?;
                lists.close()?;
            }
            (Self::Branch(child, step), Builder::Struct(rows)) => {
                for (at, column) in rows.children().iter_mut().enumerate() {
                    if at == *child {
                        step.run(schemas, input, column)?;
                    } else {
                        column.push_null();
                    }
                }
                rows.close();
            }
            (Self::OtherBranch(id), Builder::Struct(rows)) => {
                skip(schemas.writer, *id, input, 0)?;
                rows.children().iter_mut().for_each(Builder::push_null);
                rows.close();
            }
            (step, column) => step.run_scalar(input, column)?,
        }
        Ok(())
    }

    /// The less common scalars.
    fn run_scalar(&self, input: &mut AvroCursor<'_>, column: &mut Builder) -> Done {
        match (self, column) {
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
            (Self::Bytes(size), Builder::Bytes(texts)) => texts.push(size.take(input)?)?,
            // As Java, which does not compare a number with the precision either.
            (Self::Decimal128(size), Builder::Decimal128(numbers)) => {
                let bytes = size.take(input)?;
                numbers.push(decimal128(bytes).ok_or_else(|| not_a_decimal(bytes, input))?);
            }
            (Self::Decimal256(size), Builder::Decimal256(numbers)) => {
                let bytes = size.take(input)?;
                numbers.push(decimal256(bytes).ok_or_else(|| not_a_decimal(bytes, input))?);
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

impl FieldStep {
    #[inline]
    fn run(
        &self,
        schemas: SchemaPair<'_>,
        input: &mut AvroCursor<'_>,
        children: &mut [Builder],
    ) -> Done {
        match self {
            Self::Value(child, step) => {
                let column = children.get_mut(*child).ok_or_else(foreign)?;
                step.run(schemas, input, column)
            }
            Self::Skip(id) => skip(schemas.writer, *id, input, 0),
            Self::Default(child, bytes, step) => {
                let column = children.get_mut(*child).ok_or_else(foreign)?;
                let SchemaPair { reader, .. } = schemas;
                let writer = reader;
                step.run(
                    SchemaPair { writer, reader },
                    &mut AvroCursor::new(bytes),
                    column,
                )
            }
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
fn not_a_decimal(bytes: &[u8], input: &AvroCursor<'_>) -> Undecoded {
    let length = bytes.len();
    input.malformed(format_args!(
        "{length} bytes that are no decimal of the column's width"
    ))
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
