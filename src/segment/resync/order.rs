//! Selection of the batches of a run that are in order, if not all are.
//!
//! Base offset and leader epoch lie outside a batch's checksum, and whole batches may be copied or moved. Of the
//! batches whose checksums are right, the longest run of rising offsets is therefore kept. A wrong base offset, up or
//! down, then costs its own batch: leaving that one out is the cheapest way to restore the order.
//!
//! Ties: prefer the run with more contiguous batches (a batch that begins where the previous one ends, or leaves
//! exactly the space of the one batch between them), then the run with the lowest end offset, then the one that ends
//! first in the file.

use std::collections::BTreeMap;

use crate::format::batch::BatchHeader;
use crate::segment::neighbours::Neighbours;
use crate::types::Offset;

/// Offsets and leader epoch of a batch, which determine order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    /// First offset.
    pub(super) first: Offset,
    /// Last offset, no less.
    pub(super) last: Offset,
    /// Leader epoch, -1 for none.
    pub(super) epoch: i32,
    /// Checksum: of two equal batches the first is in its place.
    pub(super) crc: u32,
}

impl Span {
    /// Of a whole batch.
    pub(super) fn of(header: &BatchHeader) -> Self {
        Self {
            first: header.base_offset,
            last: header.last_offset(),
            epoch: header.partition_leader_epoch,
            crc: header.crc,
        }
    }

    const fn offsets(&self) -> Offset {
        self.last.wrapping_sub(self.first).wrapping_add(1)
    }
}

/// The best run that ends with a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct OrderedRun {
    batches: u32,
    seams: u32,
    /// One more than the index of its last batch; 0 for none.
    end: u32,
}

impl OrderedRun {
    /// More batches, then more seams, then the one that ends earlier in the file.
    const fn is_better(self, other: Self) -> bool {
        if self.batches != other.batches {
            return self.batches > other.batches;
        }
        if self.seams != other.seams {
            return self.seams > other.seams;
        }
        self.end < other.end
    }

    fn better(self, other: Self) -> Self {
        if other.is_better(self) { other } else { self }
    }
}

/// The best run that ends with each last offset, and among those up to it.
#[derive(Default)]
struct BestRuns {
    ending: BTreeMap<Offset, OrderedRun>,
    /// Only runs that are better than all that end lower.
    rising: BTreeMap<Offset, OrderedRun>,
}

impl BestRuns {
    fn add(&mut self, last: Offset, run: OrderedRun) {
        let ending = self.ending.entry(last).or_default();
        *ending = ending.better(run);
        if !run.is_better(self.up_to(last)) {
            return;
        }
        while let Some((&later, _)) = (self.rising.range(last..))
            .next()
            .filter(|(_, later)| run.is_better(**later))
        {
            self.rising.remove(&later);
        }
        self.rising.insert(last, run);
    }

    /// The best run whose last offset is this one or lower.
    fn up_to(&self, last: Offset) -> OrderedRun {
        let below = self.rising.range(..=last).next_back();
        below.map_or_else(OrderedRun::default, |(_, run)| *run)
    }
}

/// Selects which of `spans`, in file order, to keep after what comes before them.
pub(super) fn kept(spans: &[Span], after: Neighbours) -> Vec<bool> {
    let mut kept = by_offset(spans, after.floor);
    by_epoch(spans, after.epoch, &mut kept);
    kept
}

fn by_offset(spans: &[Span], floor: Offset) -> Vec<bool> {
    let rises = |floor: &mut Offset, span: &Span| {
        let is_after = span.first >= *floor;
        *floor = span.last.saturating_add(1);
        is_after.then_some(())
    };
    if spans
        .iter()
        .try_fold(floor, |mut at, span| rises(&mut at, span).map(|()| at))
        .is_some()
    {
        return vec![true; spans.len()];
    }
    let mut best = BestRuns::default();
    let mut runs: Vec<OrderedRun> = Vec::with_capacity(spans.len());
    let mut before = vec![0u32; spans.len()];
    for (n, span) in spans.iter().enumerate() {
        let is_copy = n.checked_sub(1).and_then(|n| spans.get(n)) == Some(span);
        if span.first < floor || is_copy {
            runs.push(OrderedRun::default());
            continue;
        }
        let before_it = span.first.saturating_sub(1);
        let mut from = best.up_to(before_it);
        // A seam with the batch that ends right before, if any run ends with such a one.
        let meets = best.ending.get(&before_it).copied().unwrap_or_default();
        if meets.end > 0 || span.first == floor {
            from = from.better(with_seam(meets));
        }
        // A seam over one batch that is left out.
        let (skipped, earlier) = (n.checked_sub(1), n.checked_sub(2));
        if let Some(skipped) = skipped.and_then(|n| spans.get(n)) {
            let start =
                earlier.and_then(|n| Some((spans.get(n)?.last.saturating_add(1), *runs.get(n)?)));
            let (start, run) = start.unwrap_or((floor, OrderedRun::default()));
            let is_kept = run.end > 0 || earlier.is_none();
            if is_kept && start.checked_add(skipped.offsets()) == Some(span.first) {
                from = from.better(with_seam(run));
            }
        }
        let run = OrderedRun {
            batches: from.batches.saturating_add(1),
            seams: from.seams,
            end: u32::try_from(n.saturating_add(1)).unwrap_or(u32::MAX),
        };
        if let Some(place) = before.get_mut(n) {
            *place = from.end;
        }
        runs.push(run);
        best.add(span.last, run);
    }
    trace(spans, &runs, &before)
}

const fn with_seam(run: OrderedRun) -> OrderedRun {
    OrderedRun {
        seams: run.seams.saturating_add(1),
        ..run
    }
}

/// The best run from its end back. Among equals, the one that ends with the lowest offset.
fn trace(spans: &[Span], runs: &[OrderedRun], before: &[u32]) -> Vec<bool> {
    let mut kept = vec![false; spans.len()];
    let value =
        |(span, run): &(&Span, &OrderedRun)| (run.batches, run.seams, std::cmp::Reverse(span.last));
    let ends = spans.iter().zip(runs).filter(|(_, run)| run.end > 0);
    let mut end = ends.rev().max_by_key(value).map_or(0, |(_, run)| run.end);
    while let Some(n) = usize::try_from(end).ok().and_then(|end| end.checked_sub(1)) {
        if let Some(place) = kept.get_mut(n) {
            *place = true;
        }
        end = before.get(n).copied().unwrap_or_default();
    }
    kept
}

/// Leaves out, of the kept batches, the fewest whose leader epochs make those of the others fall.
fn by_epoch(spans: &[Span], epoch: i32, kept: &mut [bool]) {
    let chosen = |kept: &[bool]| -> Vec<(usize, i32)> {
        let all = spans.iter().zip(kept).enumerate();
        all.filter(|(_, (span, kept))| **kept && span.epoch != -1)
            .map(|(n, (span, _))| (n, span.epoch))
            .collect()
    };
    let known = chosen(kept);
    let rises = known.iter().map(|&(_, epoch)| epoch).is_sorted();
    if rises && known.first().is_none_or(|&(_, first)| first >= epoch) {
        return;
    }
    // The lowest last epoch of the runs of each length, and the batch that has it.
    let mut tails: Vec<(i32, usize)> = Vec::new();
    let mut before = vec![usize::MAX; known.len()];
    for (n, &(_, its)) in known
        .iter()
        .enumerate()
        .filter(|(_, (_, its))| *its >= epoch)
    {
        let length = tails.partition_point(|&(tail, _)| tail <= its);
        let earlier = length.checked_sub(1).and_then(|at| tails.get(at));
        if let (Some(&(_, earlier)), Some(place)) = (earlier, before.get_mut(n)) {
            *place = earlier;
        }
        match tails.get_mut(length) {
            Some(tail) => *tail = (its, n),
            None => tails.push((its, n)),
        }
    }
    for &(n, _) in &known {
        if let Some(place) = kept.get_mut(n) {
            *place = false;
        }
    }
    let mut at = tails.last().map_or(usize::MAX, |&(_, n)| n);
    while let Some(&(n, _)) = known.get(at) {
        if let Some(place) = kept.get_mut(n) {
            *place = true;
        }
        at = before.get(at).copied().unwrap_or(usize::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spans(offsets: &[(i64, i64)]) -> Vec<Span> {
        let span = |&(first, last)| Span {
            first,
            last,
            epoch: 0,
            crc: 0,
        };
        offsets.iter().map(span).collect()
    }

    fn lost(offsets: &[(i64, i64)], floor: i64) -> Vec<usize> {
        let kept = kept(&spans(offsets), Neighbours::new(floor, None));
        (0..offsets.len()).filter(|&n| !kept[n]).collect()
    }

    #[test]
    fn one_wrong_base_offset_costs_its_batch() {
        let good: Vec<(i64, i64)> = (0..8).map(|n| (n * 10, n * 10 + 9)).collect();
        assert_eq!(lost(&good, 0), Vec::<usize>::new());
        for n in 0..good.len() {
            for bit in 0..20 {
                let mut bad = good.clone();
                bad[n].0 ^= 1 << bit;
                bad[n].1 = bad[n].0 + 9;
                let is_plausible =
                    bad.windows(2).all(|pair| pair[0].1 < pair[1].0) && bad[0].0 >= 0;
                let expected = if is_plausible { vec![] } else { vec![n] };
                assert_eq!(lost(&bad, 0), expected, "bit {bit} of {n}: {bad:?}");
            }
        }
    }

    #[test]
    fn copies_and_strangers_go() {
        assert_eq!(lost(&[(0, 9), (10, 19), (10, 19), (20, 29)], 0), [2]);
        // Before it a batch of the same length was compacted away.
        assert_eq!(lost(&[(0, 9), (20, 29), (20, 29), (30, 39)], 0), [2]);
        assert_eq!(lost(&[(20, 29), (20, 29), (20, 29), (50, 59)], 10), [1, 2]);
        assert_eq!(
            lost(
                &[(0, 9), (50, 59), (60, 69), (10, 19), (20, 29), (30, 39)],
                0
            ),
            [1, 2]
        );
        assert_eq!(lost(&[(5, 9), (0, 3), (10, 19)], 5), [1]);
        // In a log with gaps nothing shows which of two is wrong; one is dropped.
        assert_eq!(
            lost(&[(0, 9), (10, 19), (30, 39), (25, 29), (90, 99)], 0).len(),
            1
        );
    }

    /// Compacted logs in which several batches stand twice, one after the other or farther on: the copies go.
    #[test]
    fn of_copies_of_several_batches_the_first_stay() {
        let mut seed = 7u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            usize::try_from((seed >> 33) % n).unwrap()
        };
        for _ in 0..3000 {
            let mut at = 0;
            let mut log = Vec::new();
            for _ in 0..2 + below(7) {
                let first = at + [0, 0, 1, 2, 5][below(5)];
                at = first + [1, 1, 1, 2, 5][below(5)];
                log.push((first, at - 1));
            }
            let from = below(log.len() as u64);
            let count = 1 + below((log.len() - from) as u64);
            let to = from + count + below((log.len() - from - count + 1) as u64);
            let copies = log[from..from + count].to_vec();
            log.splice(to..to, copies);
            let expected: Vec<usize> = (to..to + count).collect();
            assert_eq!(lost(&log, 0), expected, "{log:?}");
        }
    }

    /// Against every subset of a few batches.
    #[test]
    fn no_more_is_lost_than_must() {
        let mut seed = 1u64;
        let mut below = |n: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % n
        };
        for _ in 0..3000 {
            let all: Vec<(i64, i64)> = (0..7)
                .map(|_| i64::try_from(below(20)).unwrap())
                .map(|first| (first, first + 2))
                .collect();
            let rises = |subset: u32| {
                let chosen = (0..7).filter(|n| subset >> n & 1 == 1).map(|n| all[n]);
                chosen
                    .scan(3, |floor, (first, last)| {
                        let good = first >= *floor;
                        *floor = last + 1;
                        Some(good)
                    })
                    .all(|good| good)
            };
            let most = (0..128u32)
                .filter(|&s| rises(s))
                .map(u32::count_ones)
                .max()
                .unwrap();
            let kept = kept(&spans(&all), Neighbours::new(3, None));
            let subset = kept
                .iter()
                .rev()
                .fold(0, |bits, &kept| bits << 1 | u32::from(kept));
            assert!(
                rises(subset) && subset.count_ones() == most,
                "{all:?}: {kept:?}"
            );
        }
    }

    #[test]
    fn one_wrong_epoch_costs_its_batch() {
        let with = |epochs: &[i32]| -> Vec<bool> {
            let spans: Vec<Span> = (0..)
                .zip(epochs)
                .map(|(n, &epoch)| Span {
                    first: n,
                    last: n,
                    epoch,
                    crc: 0,
                })
                .collect();
            kept(
                &spans,
                Neighbours {
                    epoch: 1,
                    ..Neighbours::new(0, None)
                },
            )
        };
        assert_eq!(with(&[1, 1, 9, 1, 2]), [true, true, false, true, true]);
        assert_eq!(with(&[1, 0, 1, -1, 2]), [true, false, true, true, true]);
        assert_eq!(with(&[7, 1, -1, 1]), [false, true, true, true]);
    }
}
