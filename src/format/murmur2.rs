//! The hash by which Kafka's clients choose the partition of a key (`Utils.murmur2`).

const SEED: u32 = 0x9747_b28c;
const MULTIPLIER: u32 = 0x5bd1_e995;
const SHIFT: u32 = 24;

/// MurmurHash2 of the bytes, with Kafka's seed.
#[inline]
#[must_use]
#[expect(
    clippy::cast_possible_truncation,
    reason = "Java's length is an int too"
)]
#[expect(
    clippy::little_endian_bytes,
    reason = "the hash is defined over such words"
)]
pub(crate) fn murmur2(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = SEED ^ bytes.len() as u32;
    for word in words {
        let mut mixed = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        mixed ^= mixed >> SHIFT;
        hash = hash.wrapping_mul(MULTIPLIER) ^ mixed.wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let last = rest
            .iter()
            .rev()
            .fold(0, |word: u32, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ last).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> 13).wrapping_mul(MULTIPLIER);
    hash ^ hash >> 15
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kafkas_own_examples() {
        // UtilsTest.testMurmur2
        for (key, hash) in [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            (
                "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8",
                -58_897_971,
            ),
            ("abc", 479_470_107),
        ] {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }
}
