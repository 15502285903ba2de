//! Partitions that recovery refuses: each with its fault, all in one error.

use crate::error::{Error, Result};
use crate::load::WAYS_OUT;

const NOT_LOADED: &str =
    "Kafka does not load this log; salvage keeps every batch that is whole and in order";
const NOT_SALVAGED: &str = "Kafka does not load this log, and salvage cannot repair it";
/// A line is to stay one that can be read.
const MOST_NAMED: usize = 20;

/// Reason why a partition is not recovered, and the alternatives.
#[derive(Debug)]
pub(super) struct RefusedPartition {
    error: Error,
    /// Empty where it is no refusal.
    hint: &'static str,
}

impl RefusedPartition {
    /// An error at which Kafka stops.
    pub(super) const fn not_loaded(error: Error) -> Self {
        let hint = NOT_LOADED;
        Self { error, hint }
    }

    /// An error at which Kafka would stop even then.
    pub(super) const fn not_salvaged(error: Error) -> Self {
        let hint = NOT_SALVAGED;
        Self { error, hint }
    }

    /// Whole batches that would go.
    pub(super) const fn loss(error: Error) -> Self {
        let hint = WAYS_OUT;
        Self { error, hint }
    }

    /// Not about what the partition holds: the others are not examined.
    fn ends_all(&self) -> bool {
        let is_of_the_machine = matches!(
            self.error,
            Error::Io { .. } | Error::OutOfMemory { .. } | Error::Interrupted | Error::Internal(_)
        );
        self.hint.is_empty() || is_of_the_machine
    }

    fn with(self, more: &str) -> Error {
        match self.hint {
            "" => self.error,
            hint => self.error.hinted(&format!(" ({hint}){more}")),
        }
    }
}

impl From<Error> for RefusedPartition {
    fn from(error: Error) -> Self {
        Self { error, hint: "" }
    }
}

impl From<RefusedPartition> for Error {
    fn from(refused: RefusedPartition) -> Self {
        refused.with("")
    }
}

/// The partitions that were refused so far.
#[derive(Debug, Default)]
pub(super) struct Refusals(Vec<RefusedPartition>);

impl Refusals {
    /// Unwraps the result for a partition; `None` if it is refused, and the others are still to be examined.
    pub(super) fn sort_out<T>(&mut self, made: Result<T, RefusedPartition>) -> Result<Option<T>> {
        match made {
            Ok(made) => Ok(Some(made)),
            Err(refused) if refused.ends_all() => Err(refused.into()),
            Err(refused) => {
                self.0.push(refused);
                Ok(None)
            }
        }
    }

    /// The first one's error, which names the others, too, the first of them where there are many.
    pub(super) fn into_result(self) -> Result<()> {
        let mut refused = self.0.into_iter();
        let Some(first) = refused.next() else {
            return Ok(());
        };
        let mut more = match refused.len() {
            0 => String::new(),
            n => format!("; {n} more: "),
        };
        let named: Vec<String> = refused
            .by_ref()
            .take(MOST_NAMED)
            .map(|other| other.error.to_string())
            .collect();
        more.push_str(&named.join("; "));
        if refused.next().is_some() {
            more.push_str("; ...");
        }
        Err(first.with(&more))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(count: usize) -> String {
        let mut refusals = Refusals::default();
        for n in 0..count {
            let refused =
                RefusedPartition::not_loaded(Error::InvalidArgument(format!("partition {n}")));
            assert!(
                refusals
                    .sort_out::<()>(Err(refused))
                    .is_ok_and(|made| made.is_none())
            );
        }
        refusals.into_result().unwrap_err().to_string()
    }

    #[test]
    fn all_are_named_but_of_very_many_the_first() {
        assert!(said(1).ends_with("in order)"), "{}", said(1));
        assert!(said(3).ends_with("; 2 more: partition 1; partition 2"));
        let text = said(30);
        assert!(
            text.contains("; 29 more: partition 1; ") && text.ends_with("; partition 20; ..."),
            "{text}"
        );
    }
}
