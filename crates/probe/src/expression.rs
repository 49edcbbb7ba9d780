//! Expressions that name a value in a program: `request->len`, `*list[2].next`, `$retval`.

/// Maximum number of steps of an expression.
const MOST_STEPS: usize = 16;

/// An expression: what it begins with, and the steps from there, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expression {
    /// What it begins with.
    pub start: Start,
    /// The steps from there.
    pub steps: Vec<Access>,
}

/// The beginning of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Start {
    /// A variable.
    Variable(String),
    /// Return value of the function.
    Returned,
}

/// A step of an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    /// A member of a structure, or of what a pointer to one points to.
    Member(String),
    /// An element of an array, or behind a pointer.
    Element(i64),
    /// Target of a pointer.
    Target,
    /// The address of a value in memory.
    Address,
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// If it is none; the text says what is expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut rest = text.trim();
        // Operators before an expression apply to all of it, the innermost first.
        let mut before = Vec::new();
        loop {
            let step = match rest.chars().next() {
                Some('*') => Access::Target,
                Some('&') => Access::Address,
                _ => break,
            };
            before.push(step);
            rest = rest[1..].trim_start();
        }
        let (start, mut rest) = match rest.strip_prefix("$retval") {
            Some(rest) => (Start::Returned, rest),
            None => {
                let (name, rest) = split_name(rest, true);
                if name.is_empty() {
                    return Err(format!("'{text}': a name of a variable is expected"));
                }
                (Start::Variable(name.to_owned()), rest)
            }
        };
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let member = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.'));
            if let Some(after) = member {
                let (name, after) = split_name(after, false);
                if name.is_empty() {
                    return Err(format!(
                        "'{text}': a name of a member is expected before '{after}'"
                    ));
                }
                steps.push(Access::Member(name.to_owned()));
                rest = after;
            } else if let Some(after) = rest.strip_prefix('[') {
                let (number, after) =
                    after.split_once(']').ok_or_else(|| format!("'{text}': ']' is expected"))?;
                let number = number.trim().parse();
                let number =
                    number.map_err(|_| format!("'{text}': a number is expected within []"))?;
                steps.push(Access::Element(number));
                rest = after;
            } else {
                return Err(format!("'{text}': '->', '.' or '[' is expected before '{rest}'"));
            }
        }
        steps.extend(before.into_iter().rev());
        if steps.len() > MOST_STEPS {
            return Err(format!("'{text}': at most {MOST_STEPS} steps are followed"));
        }
        Ok(Self { start, steps })
    }
}

/// Splits a name from what follows it. With `scopes` it may have namespaces: `shop::total`.
fn split_name(text: &str, scopes: bool) -> (&str, &str) {
    let is_part = |character: char| character.is_alphanumeric() || character == '_';
    let mut end = 0;
    loop {
        end += text[end..].find(|character| !is_part(character)).unwrap_or(text.len() - end);
        if !(scopes && text[end..].starts_with("::")) {
            return text.split_at(end);
        }
        end += 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions() {
        let variable = |name: &str| Start::Variable(name.to_owned());
        let member = |name: &str| Access::Member(name.to_owned());
        let check = |text: &str, start: Start, steps: &[Access]| {
            let expect = Expression { start, steps: steps.to_vec() };
            assert_eq!(Expression::parse(text), Ok(expect), "{text}");
        };
        check("len", variable("len"), &[]);
        check("req->len", variable("req"), &[member("len")]);
        check("req->in.a", variable("req"), &[member("in"), member("a")]);
        check("list[2].next", variable("list"), &[Access::Element(2), member("next")]);
        check("*list[-1]", variable("list"), &[Access::Element(-1), Access::Target]);
        check("&*p", variable("p"), &[Access::Target, Access::Address]);
        check("shop::total", variable("shop::total"), &[]);
        check("pair.0", variable("pair"), &[member("0")]);
        check("$retval->id", Start::Returned, &[member("id")]);
        for bad in
            ["", "->a", "a->", "a.", "a[", "a[x]", "a b", "a+1", "*", "$retvals", "a]", "(a)"]
        {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
        assert!(Expression::parse(&"*".repeat(20)).is_err());
    }
}
