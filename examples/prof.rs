//! x
#![allow(
    dead_code,
    clippy::allow_attributes,
    clippy::allow_attributes_without_reason
)]
mod inc {
    include!("/tmp/exinc/readbench_inc.rs");
    pub fn go(topic: &str, layout: Layout, rows: usize, times: usize) {
        let r = ranges(topic);
        let four = [
            Column::Offset,
            Column::Timestamp,
            Column::Key,
            Column::Value,
        ];
        for _ in 0..times {
            read(&r, layout, &four, rows, 1);
        }
    }
    pub fn l(s: &str) -> Layout {
        if s == "view" {
            Layout::View
        } else {
            Layout::Binary
        }
    }
}
fn main() {
    let a: Vec<String> = std::env::args().collect();
    inc::go(&a[1], inc::l(&a[2]), 8192, a[3].parse().unwrap());
}
