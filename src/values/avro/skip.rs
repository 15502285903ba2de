//! Values that nobody wants: passed over, and checked for everything but UTF-8.

use super::super::fault::Undecoded;
use super::cursor::{AvroCursor, MAX_DEPTH};
use super::schema::{AvroField, AvroKind, AvroSchema, TypeId};

/// Budget that a record and each of its fields take when they are passed over: types that refer to others twice at each
/// level take time without bytes.
const FIELD: usize = 16;

/// Moves past a value.
///
/// # Errors
/// The fault in it.
pub(super) fn skip(
    schema: &AvroSchema,
    id: TypeId,
    input: &mut AvroCursor<'_>,
    depth: usize,
) -> Result<(), Undecoded> {
    let deeper = depth.saturating_add(1);
    match &schema.get(id).kind {
        AvroKind::Null => {}
        AvroKind::Boolean => {
            input.boolean()?;
        }
        AvroKind::Int => {
            input.int()?;
        }
        AvroKind::Long => {
            input.long()?;
        }
        AvroKind::Float => {
            input.array::<4>()?;
        }
        AvroKind::Double => {
            input.array::<8>()?;
        }
        AvroKind::Bytes | AvroKind::String => {
            input.prefixed()?;
        }
        AvroKind::Fixed(size) => {
            input.take(*size)?;
        }
        AvroKind::Enum { symbols, .. } => {
            input.index(symbols.len(), "symbol")?;
        }
        AvroKind::Union(branches) => {
            let branch = input.index(branches.len(), "branch")?;
            if let Some(&branch) = branches.get(branch) {
                skip(schema, branch, input, depth)?;
            }
        }
        _ if depth >= MAX_DEPTH => return Err(input.too_deep()),
        AvroKind::Array(items) => input.items(1, |input| skip(schema, *items, input, deeper))?,
        AvroKind::Map(values) => input.items(1, |input| {
            input.prefixed()?;
            skip(schema, *values, input, deeper)
        })?,
        AvroKind::Record(fields) => {
            input.charge(record_charge(fields))?;
            for field in fields {
                skip(schema, field.value, input, deeper)?;
            }
        }
    }
    Ok(())
}

/// Moves past a value of each input, as [`skip`] does.
///
/// # Errors
/// The fault in one of them.
pub(super) fn skip_block(
    schema: &AvroSchema,
    id: TypeId,
    inputs: &mut [AvroCursor<'_>],
    depth: usize,
) -> Result<(), Undecoded> {
    let mut inputs = inputs.iter_mut();
    match &schema.get(id).kind {
        AvroKind::Int => inputs.try_for_each(|input| input.int().map(drop)),
        AvroKind::Long => inputs.try_for_each(|input| input.long().map(drop)),
        AvroKind::Double => inputs.try_for_each(|input| input.array::<8>().map(drop)),
        AvroKind::Bytes | AvroKind::String => {
            inputs.try_for_each(|input| input.prefixed().map(drop))
        }
        AvroKind::Record(fields) if depth < MAX_DEPTH => {
            let inputs = inputs.into_slice();
            for input in &mut *inputs {
                input.charge(record_charge(fields))?;
            }
            let deeper = depth.saturating_add(1);
            fields
                .iter()
                .try_for_each(|field| skip_block(schema, field.value, inputs, deeper))
        }
        _ => inputs.try_for_each(|input| skip(schema, id, input, depth)),
    }
}

/// Budget that a record takes.
const fn record_charge(fields: &[AvroField]) -> usize {
    fields.len().saturating_add(1).saturating_mul(FIELD)
}
