//! One value of a decoded message, as the tree of [`value`](super::value) holds it.

/// A value, or where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Node<'a> {
    /// Not in this version, or tagged and not given: the field's default.
    Absent,
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    Uuid(&'a [u8; 16]),
    Text(&'a [u8]),
    Bytes(&'a [u8]),
    /// The elements of an array, all of one width.
    Fixed(&'a [u8]),
    /// The elements of an array, one node each; of an array of structures, each begins with a [`Node::Next`].
    Array {
        first: u32,
        len: u32,
    },
    /// The node of its first field.
    Struct(u32),
    /// Index of the next element.
    Next(u32),
}
