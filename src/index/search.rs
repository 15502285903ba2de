//! Kafka's search over entries that may be in any order (`AbstractIndex`).
//!
//! On unsorted entries the answer depends on the entries that are read, so the two sections and the midpoints are
//! Kafka's: the last 8 KiB are searched separately, which keeps their pages in memory.

use std::cmp::Ordering;

/// Bytes at the end that are searched first.
const WARM: usize = 8192;

/// Result of a search: an entry with the target's key, or the last one below it.
enum SearchResult {
    Equal(usize),
    Below(usize),
    /// All are above.
    None,
}

fn search<const N: usize, E>(
    entries: usize,
    target: i64,
    mut key: impl FnMut(usize) -> Result<i64, E>,
) -> Result<SearchResult, E> {
    let Some(last) = entries.checked_sub(1) else {
        return Ok(SearchResult::None);
    };
    let warm = WARM.checked_div(N).unwrap_or_default();
    let first_warm = last.saturating_sub(warm);
    let (mut low, mut high) = if key(first_warm)? < target {
        (first_warm, last)
    } else if key(0)? > target {
        return Ok(SearchResult::None);
    } else {
        (0, first_warm)
    };
    while low < high {
        let middle = low.midpoint(high.saturating_add(1));
        match key(middle)?.cmp(&target) {
            Ordering::Greater => high = middle.saturating_sub(1),
            Ordering::Less => low = middle,
            Ordering::Equal => return Ok(SearchResult::Equal(middle)),
        }
    }
    Ok(SearchResult::Below(low))
}

/// The last entry at or below the target, among entries of `N` bytes.
///
/// # Errors
/// The first of `key`.
pub(crate) fn floor<const N: usize, E>(
    entries: usize,
    target: i64,
    key: impl FnMut(usize) -> Result<i64, E>,
) -> Result<Option<usize>, E> {
    Ok(match search::<N, E>(entries, target, key)? {
        SearchResult::Equal(n) | SearchResult::Below(n) => Some(n),
        SearchResult::None => None,
    })
}

/// The first entry at or above the target.
///
/// # Errors
/// The first of `key`.
pub(super) fn ceiling<const N: usize, E>(
    entries: usize,
    target: i64,
    key: impl FnMut(usize) -> Result<i64, E>,
) -> Result<Option<usize>, E> {
    Ok(match search::<N, E>(entries, target, key)? {
        SearchResult::Equal(n) => Some(n),
        SearchResult::Below(n) => n.checked_add(1).filter(|&next| next < entries),
        SearchResult::None => Some(0).filter(|_| entries > 0),
    })
}

/// Counts the entries that remain when those at or above the target are dropped (`truncateTo`).
///
/// # Errors
/// The first of `key`.
pub(super) fn below<const N: usize, E>(
    entries: usize,
    target: i64,
    mut key: impl FnMut(usize) -> Result<i64, E>,
) -> Result<usize, E> {
    Ok(match search::<N, E>(entries, target, &mut key)? {
        SearchResult::None => 0,
        SearchResult::Below(n) if key(n)? != target => n.saturating_add(1),
        SearchResult::Equal(n) | SearchResult::Below(n) => n,
    })
}
