//! Checked big-endian reads over `&[u8]`. No read can fail other than by `None`.

/// The `N` bytes at `at`, if they are there.
#[inline]
#[must_use]
pub(crate) fn bytes<const N: usize>(data: &[u8], at: usize) -> Option<&[u8; N]> {
    data.get(at..)?.first_chunk::<N>()
}

macro_rules! getter {
    ($($name:ident $type:ty)*) => {$(
        #[doc = concat!("The big-endian `", stringify!($type), "` at `at`.")]
        #[inline]
        #[must_use]
        pub(crate) fn $name(data: &[u8], at: usize) -> Option<$type> {
            Some(<$type>::from_be_bytes(*bytes(data, at)?))
        }
    )*};
}

getter! { get_i8 i8  get_u8 u8  get_i16 i16  get_i32 i32  get_u32 u32  get_i64 i64 }

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_end_at_the_end() {
        let data = [0xff, 0xfe, 0, 1, 2, 3, 4, 5, 6];
        assert_eq!(get_i16(&data, 0), Some(-2));
        assert_eq!(
            get_i64(&data, 1),
            Some(i64::from_be_bytes([0xfe, 0, 1, 2, 3, 4, 5, 6]))
        );
        assert_eq!(get_i64(&data, 2), None);
        assert_eq!(get_u8(&data, 9), None);
        assert_eq!(get_i32(&data, usize::MAX), None);
    }
}
