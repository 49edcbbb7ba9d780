// A text by value, by reference, and a long one.
#[inline(never)]
fn greet(plain: String, reference: &str) -> usize {
    let long_one = "long ".repeat(20);
    let numbers: &[i16] = &[3, -4, 5];
    let maybe = plain.len().checked_sub(1);
    let sum = plain.len() + reference.len(); // here
    sum + long_one.len() + numbers.len() + maybe.unwrap_or(0)
}

fn main() {
    println!("{}", greet("hi".to_owned(), "you there"));
}
