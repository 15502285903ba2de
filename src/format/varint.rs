//! Zig-zag base-128 integers (`ByteUtils.readVarint`, `readVarlong`): least significant group first,
//! at most 5 bytes for 32 bits and 10 for 64. Bits beyond the type's width are dropped, as Java drops them.

/// Longest varint.
pub(crate) const MAX_VARINT_LEN: usize = 5;
/// Longest varlong.
pub(crate) const MAX_VARLONG_LEN: usize = 10;

/// Undoes zig-zag: 0, -1, 1, -2, ...
#[inline]
#[must_use]
#[expect(clippy::cast_possible_wrap, reason = "zig-zag reinterprets the bits")]
pub(crate) const fn unzigzag32(raw: u32) -> i32 {
    ((raw >> 1) as i32) ^ (raw & 1).wrapping_neg() as i32
}

/// Undoes zig-zag on 64 bits.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_wrap, reason = "zig-zag reinterprets the bits")]
pub(crate) const fn unzigzag64(raw: u64) -> i64 {
    ((raw >> 1) as i64) ^ (raw & 1).wrapping_neg() as i64
}

/// A varint of at most 8 bytes, as it is, and its length, if there are 8 bytes to look at.
#[inline]
#[expect(clippy::little_endian_bytes, reason = "the first byte is the lowest")]
pub(crate) fn get_word(data: &[u8]) -> Option<(u64, usize)> {
    let word = u64::from_le_bytes(*data.first_chunk()?);
    // The highest bits of bytes that end a varint.
    let ends = !word & 0x8080_8080_8080_8080;
    if ends == 0 {
        return None;
    }
    // The bytes up to the first end; then their groups of 7 bits moved together: two, four, eight.
    let word = word & (ends ^ ends.wrapping_sub(1)) & 0x7f7f_7f7f_7f7f_7f7f;
    let word = word & 0x007f_007f_007f_007f | (word & 0x7f00_7f00_7f00_7f00) >> 1;
    let word = word & 0x0000_3fff_0000_3fff | (word & 0x3fff_0000_3fff_0000) >> 2;
    let word = word & 0x0fff_ffff | (word & 0x0fff_ffff_0000_0000) >> 4;
    let length = usize::try_from(ends.trailing_zeros() / 8).unwrap_or_default();
    Some((word, length.saturating_add(1)))
}

/// The unsigned varint at `*at`, which moves past it; `None` where bytes run out or it does not end in 5.
#[inline]
pub(crate) fn get_uvarint(data: &[u8], at: &mut usize) -> Option<u32> {
    let mut value = 0u32;
    for (i, &byte) in data.get(*at..)?.iter().take(MAX_VARINT_LEN).enumerate() {
        value |= u32::from(byte & 0x7f).wrapping_shl(u32::try_from(i).ok()?.wrapping_mul(7));
        if byte < 0x80 {
            *at = at.checked_add(i)?.checked_add(1)?;
            return Some(value);
        }
    }
    None
}

/// Appends the unsigned varint.
#[inline]
pub(crate) fn put_uvarint(value: u32, to: &mut Vec<u8>) {
    put_groups(u64::from(value), to);
}

/// The signed varint at `*at`.
#[inline]
pub(crate) fn get_varint(data: &[u8], at: &mut usize) -> Option<i32> {
    get_uvarint(data, at).map(unzigzag32)
}

/// The signed varlong at `*at`.
#[inline]
pub(crate) fn get_varlong(data: &[u8], at: &mut usize) -> Option<i64> {
    let mut value = 0u64;
    for (i, &byte) in data.get(*at..)?.iter().take(MAX_VARLONG_LEN).enumerate() {
        value |= u64::from(byte & 0x7f).wrapping_shl(u32::try_from(i).ok()?.wrapping_mul(7));
        if byte < 0x80 {
            *at = at.checked_add(i)?.checked_add(1)?;
            return Some(unzigzag64(value));
        }
    }
    None
}

/// Zig-zag on 64 bits: the sign becomes the lowest bit.
#[inline]
#[must_use]
#[expect(clippy::cast_sign_loss, reason = "zig-zag reinterprets the bits")]
pub(crate) const fn zigzag64(value: i64) -> u64 {
    (value.wrapping_shl(1) ^ value.wrapping_shr(63)) as u64
}

/// Appends the signed varlong.
#[inline]
pub(crate) fn put_varlong(value: i64, to: &mut Vec<u8>) {
    put_groups(zigzag64(value), to);
}

#[inline]
fn put_groups(mut rest: u64, to: &mut Vec<u8>) {
    while rest >= 0x80 {
        to.push(u8::try_from(rest & 0x7f).unwrap_or_default() | 0x80);
        rest = rest.wrapping_shr(7);
    }
    to.push(u8::try_from(rest).unwrap_or_default());
}

/// Appends the signed varint. A varint is the varlong of the same number.
#[inline]
pub(crate) fn put_varint(value: i32, to: &mut Vec<u8>) {
    put_varlong(i64::from(value), to);
}

/// Bytes of the signed varlong, which are those of the varint of the same number.
#[inline]
#[must_use]
pub(crate) const fn varlong_len(value: i64) -> usize {
    let bits = 64u32.saturating_sub(zigzag64(value).leading_zeros());
    // Seven to a byte; zero takes one.
    let bytes = bits.saturating_add(6) / 7;
    if bytes == 0 { 1 } else { bytes as usize }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `ByteUtilsTest`'s table.
    #[test]
    fn kafkas_vectors() {
        for (value, bytes) in [
            (0, &[0x00][..]),
            (-1, &[0x01]),
            (1, &[0x02]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 0x01]),
            (-65, &[0x81, 0x01]),
            (8191, &[0xfe, 0x7f]),
            (-8192, &[0xff, 0x7f]),
            (8192, &[0x80, 0x80, 0x01]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ] {
            let mut at = 0;
            assert_eq!(get_varint(bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
            at = 0;
            assert_eq!(get_varlong(bytes, &mut at), Some(i64::from(value)));
            let mut put = Vec::new();
            put_varlong(i64::from(value), &mut put);
            // Beyond 31 bits the two widths differ.
            assert!(put == bytes || bytes.len() == MAX_VARINT_LEN);
            let mut put = Vec::new();
            put_varint(value, &mut put);
            assert_eq!(put, bytes);
        }
    }

    #[test]
    fn what_is_put_is_got() {
        for value in [0, -1, 1, 300, -300, i64::MAX, i64::MIN] {
            let mut bytes = Vec::new();
            put_varlong(value, &mut bytes);
            assert!(bytes.len() <= MAX_VARLONG_LEN);
            assert_eq!(get_varlong(&bytes, &mut 0), Some(value));
        }
    }

    #[test]
    fn unsigned_ones() {
        for value in (0..32)
            .flat_map(|shift| [1u32 << shift, (1u32 << shift) - 1])
            .chain([u32::MAX])
        {
            let (mut bytes, mut at) = (Vec::new(), 0);
            put_uvarint(value, &mut bytes);
            assert_eq!(get_uvarint(&bytes, &mut at), Some(value));
            assert_eq!(at, bytes.len());
        }
        // KIP-482's own example.
        let mut bytes = Vec::new();
        put_uvarint(300, &mut bytes);
        assert_eq!(bytes, [0xac, 0x02]);
    }

    #[test]
    fn lengths_are_those_put() {
        for shift in 0..64 {
            for value in [-1i64, 0, 1].map(|by| (1i64 << shift).wrapping_add(by)) {
                for value in [value, value.wrapping_neg()] {
                    let mut bytes = Vec::new();
                    put_varlong(value, &mut bytes);
                    assert_eq!(varlong_len(value), bytes.len(), "{value}");
                }
            }
        }
    }

    #[test]
    fn ends_within_its_width() {
        assert_eq!(
            get_varint(&[0xff, 0xff, 0xff, 0xff, 0xff, 0x01], &mut 0),
            None
        );
        assert_eq!(get_varlong(&[0xff; 11], &mut 0), None);
        let longest = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(get_varlong(&longest, &mut 0), Some(i64::MIN));
        assert_eq!(get_varint(&[0x80], &mut 0), None);
        assert_eq!(get_varint(&[], &mut 0), None);
        assert_eq!(get_varint(&[0], &mut 5), None);
    }
}
