// A text by value, by reference, and a long one.
#[inline(never)]
fn greet(plain: String, reference: &str) -> usize {
    let long_one = "long ".repeat(20);
    let numbers: &[i16] = &[3, -4, 5];
    let sum = plain.len() + reference.len(); // here
    sum + long_one.len() + numbers.len()
}

fn main() {
    println!("{}", greet("hi".to_owned(), "you there"));
}
