//! Formats that are read and written, on files that other tools wrote.

mod circles;
mod established;
mod fixtures;
mod folded_columns;
mod foreign;
mod formats;
mod nameless;
mod one_line;
mod reports;
mod round_trip;
