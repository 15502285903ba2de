//! MD5 (RFC 1321), by which Kafka's log cleaner distinguishes keys (`SkimpyOffsetMap`).
//!
//! Most keys fit one block of 64 bytes with their padding. These are hashed [`LANES`] at a time: every step is the same
//! for all of them, so the compiler emits vector instructions.

/// Keys hashed at once.
const LANES: usize = 8;
/// The longest key whose padding and length fit the same block.
const ONE_BLOCK: usize = 55;

/// The 16 bytes of a digest, as two little-endian halves.
pub(crate) type Digest = [u64; 2];

const INITIAL: [u32; 4] = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];
/// `floor(2^32 * abs(sin(i + 1)))`: four steps a row, four rows a round.
const SINES: [[u32; 4]; 16] = [
    [0xd76a_a478, 0xe8c7_b756, 0x2420_70db, 0xc1bd_ceee],
    [0xf57c_0faf, 0x4787_c62a, 0xa830_4613, 0xfd46_9501],
    [0x6980_98d8, 0x8b44_f7af, 0xffff_5bb1, 0x895c_d7be],
    [0x6b90_1122, 0xfd98_7193, 0xa679_438e, 0x49b4_0821],
    [0xf61e_2562, 0xc040_b340, 0x265e_5a51, 0xe9b6_c7aa],
    [0xd62f_105d, 0x0244_1453, 0xd8a1_e681, 0xe7d3_fbc8],
    [0x21e1_cde6, 0xc337_07d6, 0xf4d5_0d87, 0x455a_14ed],
    [0xa9e3_e905, 0xfcef_a3f8, 0x676f_02d9, 0x8d2a_4c8a],
    [0xfffa_3942, 0x8771_f681, 0x6d9d_6122, 0xfde5_380c],
    [0xa4be_ea44, 0x4bde_cfa9, 0xf6bb_4b60, 0xbebf_bc70],
    [0x289b_7ec6, 0xeaa1_27fa, 0xd4ef_3085, 0x0488_1d05],
    [0xd9d4_d039, 0xe6db_99e5, 0x1fa2_7cf8, 0xc4ac_5665],
    [0xf429_2244, 0x432a_ff97, 0xab94_23a7, 0xfc93_a039],
    [0x655b_59c3, 0x8f0c_cc92, 0xffef_f47d, 0x8584_5dd1],
    [0x6fa8_7e4f, 0xfe2c_e6e0, 0xa301_4314, 0x4e08_11a1],
    [0xf753_7e82, 0xbd3a_f235, 0x2ad7_d2bb, 0xeb86_d391],
];

/// The digest of each key, in their order.
pub(crate) fn digests<'a>(keys: impl IntoIterator<Item = &'a [u8]>, out: &mut Vec<Digest>) {
    let mut lanes = Lanes::new(out.len());
    for key in keys {
        let at = out.len();
        if key.len() > ONE_BLOCK {
            out.push(long(key));
            continue;
        }
        out.push([0; 2]);
        lanes.add(at, key);
        if lanes.used == LANES {
            lanes.finish(out);
        }
    }
    lanes.finish(out);
}

/// Keys that wait to be hashed together.
struct Lanes {
    /// Word by word, all keys' side by side.
    blocks: [[u32; LANES]; 16],
    at: [usize; LANES],
    used: usize,
}

impl Lanes {
    const fn new(at: usize) -> Self {
        Self {
            blocks: [[0; LANES]; 16],
            at: [at; LANES],
            used: 0,
        }
    }

    fn add(&mut self, at: usize, key: &[u8]) {
        let words = words(&last_block(key, key.len()));
        for (lanes, word) in self.blocks.iter_mut().zip(words) {
            if let Some(lane) = lanes.get_mut(self.used) {
                *lane = word;
            }
        }
        if let Some(lane) = self.at.get_mut(self.used) {
            *lane = at;
        }
        self.used = self.used.saturating_add(1);
    }

    fn finish(&mut self, out: &mut [Digest]) {
        let mut state = INITIAL.map(|word| [word; LANES]);
        compress(&mut state, &self.blocks);
        for (lane, &at) in self.at.iter().enumerate().take(self.used) {
            let word = |n: usize| {
                let lanes = state.get(n).and_then(|lanes| lanes.get(lane));
                lanes.copied().unwrap_or_default()
            };
            if let Some(digest) = out.get_mut(at) {
                *digest = halves([word(0), word(1), word(2), word(3)]);
            }
        }
        self.used = 0;
    }
}

/// The digest of a key of any length.
fn long(key: &[u8]) -> Digest {
    let mut state = INITIAL.map(|word| [word]);
    let (blocks, rest) = key.as_chunks::<64>();
    for block in blocks {
        compress(&mut state, &words(block).map(|word| [word]));
    }
    if rest.len() > ONE_BLOCK {
        let mut block = [0; 64];
        pad(&mut block, rest);
        compress(&mut state, &words(&block).map(|word| [word]));
        let mut block = [0; 64];
        put_length(&mut block, key.len());
        compress(&mut state, &words(&block).map(|word| [word]));
    } else {
        compress(
            &mut state,
            &words(&last_block(rest, key.len())).map(|word| [word]),
        );
    }
    halves(state.map(|[word]| word))
}

/// Builds the last block: the rest of a key of `len` bytes, its padding and its length.
fn last_block(rest: &[u8], len: usize) -> [u8; 64] {
    let mut block = [0; 64];
    pad(&mut block, rest);
    put_length(&mut block, len);
    block
}

fn pad(block: &mut [u8; 64], rest: &[u8]) {
    if let Some((start, tail)) = block.split_at_mut_checked(rest.len()) {
        start.copy_from_slice(rest);
        if let Some(first) = tail.first_mut() {
            *first = 0x80;
        }
    }
}

/// The length in bits, at the end of the block.
#[expect(
    clippy::little_endian_bytes,
    reason = "MD5 is little-endian (RFC 1321, 3.2)"
)]
fn put_length(block: &mut [u8; 64], len: usize) {
    if let Some(end) = block.last_chunk_mut::<8>() {
        *end = (len as u64).wrapping_mul(8).to_le_bytes();
    }
}

#[expect(
    clippy::little_endian_bytes,
    reason = "MD5 is little-endian (RFC 1321, 3.1)"
)]
fn words(block: &[u8; 64]) -> [u32; 16] {
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
        *word = u32::from_le_bytes(*bytes);
    }
    words
}

fn halves(state: [u32; 4]) -> Digest {
    let [a, b, c, d] = state.map(u64::from);
    [a | (b << 32), c | (d << 32)]
}

/// One block of each lane. All 64 steps of a lane follow one another without a branch, and all lanes take the same
/// ones: only then does the compiler put lanes side by side into vectors.
#[inline]
fn compress<const L: usize>(state: &mut [[u32; L]; 4], block: &[[u32; L]; 16]) {
    let [a, b, c, d] = state;
    let lanes = a.iter_mut().zip(b).zip(c).zip(d);
    for (lane, (((a, b), c), d)) in lanes.enumerate() {
        let words = block
            .each_ref()
            .map(|lanes| lanes.get(lane).copied().unwrap_or_default());
        let [by_a, by_b, by_c, by_d] = mixed([*a, *b, *c, *d], &words);
        *a = a.wrapping_add(by_a);
        *b = b.wrapping_add(by_b);
        *c = c.wrapping_add(by_c);
        *d = d.wrapping_add(by_d);
    }
}

/// The four rounds (RFC 1321, 3.4).
#[expect(clippy::inline_always, reason = "no vectors across a call")]
#[rustfmt::skip]
#[inline(always)]
fn mixed(mut state: [u32; 4], w: &[u32; 16]) -> [u32; 4] {
    let first = |x: u32, y: u32, z: u32| z ^ (x & (y ^ z));
    let second = |x: u32, y: u32, z: u32| y ^ (z & (x ^ y));
    let third = |x: u32, y: u32, z: u32| x ^ y ^ z;
    let fourth = |x: u32, y: u32, z: u32| y ^ (x | !z);
    state = steps::<7, 12, 17, 22>(first, state, [w[0], w[1], w[2], w[3]], SINES[0]);
    state = steps::<7, 12, 17, 22>(first, state, [w[4], w[5], w[6], w[7]], SINES[1]);
    state = steps::<7, 12, 17, 22>(first, state, [w[8], w[9], w[10], w[11]], SINES[2]);
    state = steps::<7, 12, 17, 22>(first, state, [w[12], w[13], w[14], w[15]], SINES[3]);
    state = steps::<5, 9, 14, 20>(second, state, [w[1], w[6], w[11], w[0]], SINES[4]);
    state = steps::<5, 9, 14, 20>(second, state, [w[5], w[10], w[15], w[4]], SINES[5]);
    state = steps::<5, 9, 14, 20>(second, state, [w[9], w[14], w[3], w[8]], SINES[6]);
    state = steps::<5, 9, 14, 20>(second, state, [w[13], w[2], w[7], w[12]], SINES[7]);
    state = steps::<4, 11, 16, 23>(third, state, [w[5], w[8], w[11], w[14]], SINES[8]);
    state = steps::<4, 11, 16, 23>(third, state, [w[1], w[4], w[7], w[10]], SINES[9]);
    state = steps::<4, 11, 16, 23>(third, state, [w[13], w[0], w[3], w[6]], SINES[10]);
    state = steps::<4, 11, 16, 23>(third, state, [w[9], w[12], w[15], w[2]], SINES[11]);
    state = steps::<6, 10, 15, 21>(fourth, state, [w[0], w[7], w[14], w[5]], SINES[12]);
    state = steps::<6, 10, 15, 21>(fourth, state, [w[12], w[3], w[10], w[1]], SINES[13]);
    state = steps::<6, 10, 15, 21>(fourth, state, [w[8], w[15], w[6], w[13]], SINES[14]);
    state = steps::<6, 10, 15, 21>(fourth, state, [w[4], w[11], w[2], w[9]], SINES[15]);
    state
}

/// Four steps: each adds a word and a sine to one part of the state, and rotates it.
#[inline]
fn steps<const R0: u32, const R1: u32, const R2: u32, const R3: u32>(
    mix: impl Fn(u32, u32, u32) -> u32,
    [mut a, mut b, mut c, mut d]: [u32; 4],
    words: [u32; 4],
    sines: [u32; 4],
) -> [u32; 4] {
    let sum = |part: u32, mixed: u32, word: u32, sine: u32| {
        part.wrapping_add(mixed)
            .wrapping_add(word)
            .wrapping_add(sine)
    };
    let ([w0, w1, w2, w3], [s0, s1, s2, s3]) = (words, sines);
    a = b.wrapping_add(sum(a, mix(b, c, d), w0, s0).rotate_left(R0));
    d = a.wrapping_add(sum(d, mix(a, b, c), w1, s1).rotate_left(R1));
    c = d.wrapping_add(sum(c, mix(d, a, b), w2, s2).rotate_left(R2));
    b = c.wrapping_add(sum(b, mix(c, d, a), w3, s3).rotate_left(R3));
    [a, b, c, d]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(digest: Digest) -> String {
        let [first, second] = digest.map(u64::swap_bytes);
        format!("{first:016x}{second:016x}")
    }

    fn one(key: &[u8]) -> String {
        let mut out = Vec::new();
        digests([key], &mut out);
        hex(out[0])
    }

    /// RFC 1321, A.5.
    #[test]
    fn the_test_suite() {
        let digits = "1234567890".repeat(8);
        for (text, digest) in [
            ("", "d41d8cd98f00b204e9800998ecf8427e"),
            ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("abc", "900150983cd24fb0d6963f7d28e17f72"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "abcdefghijklmnopqrstuvwxyz",
                "c3fcd3d76192e4007dfb496cca67e13b",
            ),
            (
                "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789",
                "d174ab98d277d9f5a5611c2c9f419d9f",
            ),
            (digits.as_str(), "57edf4a22be3c955ac49da2e2107b67a"),
        ] {
            assert_eq!(one(text.as_bytes()), digest, "{text}");
            assert_eq!(hex(long(text.as_bytes())), digest, "{text}");
        }
    }

    /// Keys of every length up to three blocks, in any number: each is what it is alone.
    #[test]
    fn many_at_once() {
        let keys: Vec<Vec<u8>> = (0..200u8).map(|n| vec![n; usize::from(n)]).collect();
        for count in [1, 7, 8, 9, 50, 200] {
            let mut out = vec![[7, 7]];
            digests(keys[..count].iter().map(Vec::as_slice), &mut out);
            let alone: Vec<Digest> = keys[..count].iter().map(|key| long(key)).collect();
            assert_eq!(out[1..], alone);
            assert_eq!(out[0], [7, 7]);
        }
    }
}
