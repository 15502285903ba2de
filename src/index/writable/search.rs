//! Kafka's search over entries that may be in any order (`AbstractIndex`).
//!
//! Over unsorted entries the answer depends on which are looked at, so the two sections and the middle are Kafka's: the
//! last 8 KiB are searched by themselves, which keeps their pages warm.

/// Bytes at the end that are searched first.
const WARM: usize = 8192;

/// Where the search ended: at an entry with the target's key, or at the last one below it.
enum Found {
    Equal(usize),
    Below(usize),
    /// All are above.
    None,
}

fn search<const W: usize>(entries: usize, target: i64, key: impl Fn(usize) -> i64) -> Found {
    let Some(last) = entries.checked_sub(1) else {
        return Found::None;
    };
    let warm = WARM.checked_div(W.saturating_mul(4)).unwrap_or_default();
    let first_warm = last.saturating_sub(warm);
    let (mut low, mut high) = if key(first_warm) < target {
        (first_warm, last)
    } else if key(0) > target {
        return Found::None;
    } else {
        (0, first_warm)
    };
    while low < high {
        let middle = low.midpoint(high.saturating_add(1));
        match key(middle).cmp(&target) {
            std::cmp::Ordering::Greater => high = middle.saturating_sub(1),
            std::cmp::Ordering::Less => low = middle,
            std::cmp::Ordering::Equal => return Found::Equal(middle),
        }
    }
    Found::Below(low)
}

/// The last entry at or below the target.
pub(super) fn floor<const W: usize>(
    entries: usize,
    target: i64,
    key: impl Fn(usize) -> i64,
) -> Option<usize> {
    match search::<W>(entries, target, key) {
        Found::Equal(n) | Found::Below(n) => Some(n),
        Found::None => None,
    }
}

/// The first entry at or above the target.
pub(super) fn ceiling<const W: usize>(
    entries: usize,
    target: i64,
    key: impl Fn(usize) -> i64,
) -> Option<usize> {
    match search::<W>(entries, target, key) {
        Found::Equal(n) => Some(n),
        Found::Below(n) => n.checked_add(1).filter(|&next| next < entries),
        Found::None => Some(0).filter(|_| entries > 0),
    }
}
