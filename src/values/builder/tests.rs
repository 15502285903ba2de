use std::sync::Arc;

use arrow_array::{Array, Int32Array, ListArray, StringArray, StructArray, cast::AsArray};
use arrow_schema::{DataType, Field, Fields};

use super::{Builder, SHORT, Text};
use crate::values::fault::{Cause, Undecoded};

fn list_of_text() -> DataType {
    DataType::List(Arc::new(Field::new("item", DataType::Utf8, true)))
}

fn row(builder: &mut Builder, number: i32, texts: &[&str]) {
    let Builder::Struct(row) = builder else {
        panic!("no struct")
    };
    let [Builder::Int32(numbers), Builder::List(list)] = row.children() else {
        panic!("other children")
    };
    numbers.push(number);
    for text in texts {
        let Builder::Bytes(items) = list.item() else {
            panic!("no text")
        };
        items.push(text.as_bytes()).unwrap();
    }
    list.close().unwrap();
    row.close();
}

#[test]
fn a_row_that_was_not_ended_is_removed() {
    let fields = vec![
        Field::new("n", DataType::Int32, true),
        Field::new("texts", list_of_text(), true),
    ];
    let fields = Fields::from(fields);
    let mut builder = Builder::try_new(&DataType::Struct(fields)).unwrap();
    for _ in 0..2 {
        row(&mut builder, 1, &["a", "bc"]);
        builder.push_null();
        // Half of a row: a number, and an item of a list without its end.
        let Builder::Struct(half) = &mut builder else {
            panic!("no struct")
        };
        let [Builder::Int32(numbers), Builder::List(list)] = half.children() else {
            panic!("other children")
        };
        numbers.push(9);
        let Builder::Bytes(items) = list.item() else {
            panic!("no text")
        };
        items.push(b"lost").unwrap();
        builder.truncate(2);
        row(&mut builder, 2, &["d"]);
        assert_eq!(builder.len(), 3);

        let array = builder.finish().unwrap();
        let rows: &StructArray = array.as_struct();
        assert_eq!(
            rows.nulls().unwrap().iter().collect::<Vec<_>>(),
            [true, false, true]
        );
        let numbers: &Int32Array = rows.column(0).as_primitive();
        assert_eq!((numbers.value(0), numbers.value(2)), (1, 2));
        let lists: &ListArray = rows.column(1).as_list();
        let items: &StringArray = lists.values().as_string();
        assert_eq!(items.iter().flatten().collect::<Vec<_>>(), ["a", "bc", "d"]);
        assert_eq!(lists.value_offsets(), [0, 2, 2, 3]);
    }
}

#[test]
fn repeated_values_are_those_before_the_last() {
    let Builder::Bytes(mut texts) = Builder::try_new(&DataType::Utf8).unwrap() else {
        panic!("text");
    };
    texts.push(b"a").unwrap();
    for text in ["b", "c", "b", "", "a", "c", ""] {
        let mut start = [b'x'; SHORT];
        start[..text.len()].copy_from_slice(text.as_bytes());
        texts.push_short(&start, text.len()).unwrap();
    }
    assert_eq!(texts.repeated(1), [0, 1, 3]);
    assert_eq!(texts.repeated(5), [0_usize; 0]);
    assert_eq!(texts.repeated(9), [0_usize; 0]);
    let column = Builder::Bytes(texts).finish().unwrap();
    let texts: Vec<_> = column.as_string::<i32>().iter().flatten().collect();
    assert_eq!(texts, ["a", "b", "c", "b", "", "a", "c", ""]);
}

/// Texts appended at once: short ones beside long ones, so that room is used, left over and made again.
#[test]
fn texts_at_once_are_those_one_by_one() {
    let start = b"0123456789abcdef";
    let long = "Žofie Nováková, a name of more than sixteen bytes ".repeat(20);
    let text = |n: usize| match n % 7 {
        0 => None,
        1 => Some(Text::Long(long.get(..n * 9).unwrap_or(&long).as_bytes())),
        _ => Some(Text::Short(start, n % 17)),
    };
    let mut builder = Builder::try_new(&DataType::Utf8).unwrap();
    for step in 1..40 {
        let Builder::Bytes(texts) = &mut builder else {
            panic!("no text")
        };
        for n in 0..step {
            match text(n) {
                Some(text) => texts.push_text(text).unwrap(),
                None => texts.push_null(),
            }
        }
        let singly = builder.finish().unwrap();
        let Builder::Bytes(texts) = &mut builder else {
            panic!("no text")
        };
        let mut all: Vec<usize> = (0..step).collect();
        for block in all.chunks_mut(13) {
            texts.push_all(block, |n| Ok(text(*n))).unwrap();
            let rows = texts.len();
            let fault = || Undecoded::new(Cause::Truncated, "");
            let done = texts.push_all(block, |n| text(*n).map(Some).ok_or_else(fault));
            assert_eq!(done.is_err(), block.iter().any(|n| n % 7 == 0));
            texts.truncate(rows);
        }
        assert_eq!(&builder.finish().unwrap(), &singly, "{step}");
    }
}
