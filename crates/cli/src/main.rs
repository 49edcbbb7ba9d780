//! Where does the time go?
fn main() {}
