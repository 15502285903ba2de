//! A set of offsets: a bit for each, in pages of 512 that exist only if they contain an offset.
//!
//! Offsets that lie close together take little more than a bit each, lone ones about 100 bytes.

use std::collections::BTreeMap;

use crate::types::Offset;

/// Offsets of a page, as a power of two.
const PAGE: u32 = 9;
const WORDS: usize = 8;

/// Offsets of one partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetSet {
    pages: BTreeMap<i64, [u64; WORDS]>,
}

impl OffsetSet {
    /// Adds one.
    pub(crate) fn insert(&mut self, offset: Offset) {
        let page = self.pages.entry(offset >> PAGE).or_default();
        let (word, bit) = place(offset);
        if let Some(word) = page.get_mut(word) {
            *word |= bit;
        }
    }

    /// Returns whether it is one of them.
    #[inline]
    #[must_use]
    pub(crate) fn contains(&self, offset: Offset) -> bool {
        let page = self.pages.get(&(offset >> PAGE));
        page.is_some_and(|page| has(page, offset))
    }

    /// Returns whether any of `first..=last` is one of them.
    #[must_use]
    pub(crate) fn reaches_into(&self, first: Offset, last: Offset) -> bool {
        if first > last {
            return false;
        }
        let mut pages = self.pages.range(first >> PAGE..=last >> PAGE);
        pages.any(|(number, page)| {
            let begin = number << PAGE;
            let end = begin | ((1 << PAGE) - 1);
            if first <= begin && end <= last {
                return true;
            }
            (first.max(begin)..=last.min(end)).any(|offset| has(page, offset))
        })
    }

    /// Number of offsets.
    #[cfg(test)]
    pub(crate) fn len(&self) -> u64 {
        let words = self.pages.values().flatten();
        words.map(|word| u64::from(word.count_ones())).sum()
    }
}

/// The word of a page, and the bit in it.
fn place(offset: Offset) -> (usize, u64) {
    let word = usize::try_from((offset >> 6) & 7).unwrap_or_default();
    (word, 1 << (offset & 63))
}

fn has(page: &[u64; WORDS], offset: Offset) -> bool {
    let (word, bit) = place(offset);
    page.get(word).is_some_and(|word| word & bit != 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set() {
        let members = [0, 1, 63, 64, 511, 512, 513, 5000, 1 << 40, i64::MAX];
        let naive: BTreeSet<i64> = members.into();
        let mut set = OffsetSet::default();
        for offset in members.into_iter().chain([64, 5000]) {
            set.insert(offset);
        }
        assert_eq!(set.len(), 10);
        let edges: Vec<i64> = members
            .iter()
            .flat_map(|m| [m.saturating_sub(1), *m, m.saturating_add(1)])
            .chain([2, 100, 600, 1 << 41])
            .collect();
        for &first in &edges {
            assert_eq!(set.contains(first), naive.contains(&first), "{first}");
            for &last in &edges {
                let reaches = first <= last && naive.range(first..=last).next().is_some();
                assert_eq!(set.reaches_into(first, last), reaches, "{first} to {last}");
            }
        }
        assert!(!OffsetSet::default().reaches_into(0, i64::MAX));
    }
}
