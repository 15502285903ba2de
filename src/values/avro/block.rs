//! Values decoded side by side: each field of all of them before the next one, so that what to do is chosen once a field
//! and not once a value.
//!
//! The result is the same as value by value ([`Step::run`]), unless one of them has a fault: then the caller takes the
//! rows back, and goes value by value.

use std::array;

use super::super::builder::{Builder, BytesBuilder, NumberBuilder, Text};
use super::super::decoder::BLOCK;
use super::super::fault::Undecoded;
use super::cursor::AvroCursor;
use super::skip::skip_block;
use super::step::{ByteLength, Done, FieldStep, SchemaPair, Step, Wire, WriterType, foreign};

impl Step {
    /// Decodes a value of each input, at most [`BLOCK`], into the column.
    pub(super) fn run_block<'a>(
        &'a self,
        schemas: &SchemaPair<'_>,
        inputs: &mut [AvroCursor<'a>],
        column: &mut Builder,
    ) -> Done {
        match (self, column) {
            (Self::Record(fields), Builder::Struct(rows)) => {
                run_fields(fields, schemas, inputs, rows.children())?;
                rows.close_all(inputs.len());
                Ok(())
            }
            (Self::Union(branches), column) => match &**branches {
                [Self::Null, step] if step.is_common() => step.run_common(inputs, column, Some(0)),
                [step, Self::Null] if step.is_common() => step.run_common(inputs, column, Some(1)),
                _ => run_branches(branches, schemas, inputs, column),
            },
            (step, column) if step.is_common() => step.run_common(inputs, column, None),
            (step, column) => inputs
                .iter_mut()
                .try_for_each(|input| step.run(schemas, input, column)),
        }
    }

    /// Returns whether [`Step::run_common`] knows it.
    const fn is_common(&self) -> bool {
        matches!(
            self,
            Self::Int
                | Self::Long
                | Self::Double(Wire::Double)
                | Self::Text(ByteLength::Prefixed)
                | Self::Enum(_)
        )
    }

    /// Decodes common scalars; null where the writer's union of two has this branch.
    fn run_common<'a>(
        &'a self,
        inputs: &mut [AvroCursor<'a>],
        column: &mut Builder,
        null: Option<usize>,
    ) -> Done {
        match (self, column) {
            (Self::Int, Builder::Int32(numbers)) => {
                run_numbers(inputs, numbers, null, AvroCursor::int)
            }
            (Self::Long, Builder::Int64(numbers)) => {
                run_numbers(inputs, numbers, null, AvroCursor::long)
            }
            (Self::Double(Wire::Double), Builder::Float64(numbers)) => {
                run_numbers(inputs, numbers, null, AvroCursor::double)
            }
            (Self::Text(ByteLength::Prefixed), Builder::Bytes(texts)) => {
                run_texts(inputs, texts, null, AvroCursor::next_text)
            }
            (Self::Enum(symbols), Builder::Bytes(texts)) => {
                run_texts(inputs, texts, null, |input| symbols.next(input))
            }
            _ => Err(foreign()),
        }
    }
}

#[expect(clippy::inline_always, reason = "a loop for each type of number")]
#[inline(always)]
fn run_numbers<'a, T: Copy + Default>(
    inputs: &mut [AvroCursor<'a>],
    numbers: &mut NumberBuilder<T>,
    null: Option<usize>,
    value: impl Fn(&mut AvroCursor<'a>) -> Result<T, Undecoded>,
) -> Done {
    let Some(null) = null else {
        return numbers.push_all(inputs, |input| value(input).map(Some));
    };
    numbers.push_all(inputs, |input| match input.index(2, "branch")? {
        branch if branch == null => Ok(None),
        _ => value(input).map(Some),
    })
}

#[expect(clippy::inline_always, reason = "a loop for each kind of text")]
#[inline(always)]
fn run_texts<'a>(
    inputs: &mut [AvroCursor<'a>],
    texts: &mut BytesBuilder,
    null: Option<usize>,
    value: impl Fn(&mut AvroCursor<'a>) -> Result<Text<'a>, Undecoded>,
) -> Done {
    let Some(null) = null else {
        return texts.push_all(inputs, |input| value(input).map(Some));
    };
    texts.push_all(inputs, |input| match input.index(2, "branch")? {
        branch if branch == null => Ok(None),
        _ => value(input).map(Some),
    })
}

/// Decodes fields of records; the caller closes the rows.
pub(super) fn run_fields<'a>(
    fields: &'a [FieldStep],
    schemas: &SchemaPair<'_>,
    inputs: &mut [AvroCursor<'a>],
    children: &mut [Builder],
) -> Done {
    for field in fields {
        match field {
            FieldStep::Value(child, step) => {
                let column = children.get_mut(*child).ok_or_else(foreign)?;
                step.run_block(schemas, inputs, column)?;
            }
            FieldStep::Skip(WriterType(id)) => skip_block(schemas.writer, *id, inputs, 0)?,
            FieldStep::Default(child, bytes, step) => {
                let column = children.get_mut(*child).ok_or_else(foreign)?;
                let SchemaPair { reader, .. } = *schemas;
                let writer = reader;
                let mut defaults: [_; BLOCK] = array::from_fn(|_| AvroCursor::new(bytes));
                let defaults = defaults.get_mut(..inputs.len()).ok_or_else(foreign)?;
                step.run_block(&SchemaPair { writer, reader }, defaults, column)?;
            }
        }
    }
    Ok(())
}

/// Decodes values of a union: those of one branch, one after the other, side by side.
fn run_branches<'a>(
    branches: &'a [Step],
    schemas: &SchemaPair<'_>,
    inputs: &mut [AvroCursor<'a>],
    column: &mut Builder,
) -> Done {
    let mut rest = inputs;
    let mut next = None;
    while let Some(first) = rest.first_mut() {
        let branch = match next.take() {
            Some(branch) => branch,
            None => first.index(branches.len(), "branch")?,
        };
        let mut same = 1_usize;
        for input in rest.iter_mut().skip(1) {
            let other = input.index(branches.len(), "branch")?;
            if other != branch {
                next = Some(other);
                break;
            }
            same = same.saturating_add(1);
        }
        let Some((these, others)) = rest.split_at_mut_checked(same) else {
            return Err(foreign());
        };
        match branches.get(branch) {
            Some(Step::Null) => these.iter().for_each(|_| column.push_null()),
            Some(step) => step.run_block(schemas, these, column)?,
            None => return Err(foreign()),
        }
        rest = others;
    }
    Ok(())
}
