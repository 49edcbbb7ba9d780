//! Expressions that name a value in a program: `request->len`, `*list[2].next`, `$retval`, `%di`.

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
    /// A register, by its number in DWARF.
    Register(u16),
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
    /// What is there is taken for a pointer to a type: by its name, and as many pointers.
    Cast(String, u8),
}

impl Expression {
    /// Parses an expression.
    ///
    /// # Errors
    ///
    /// If it is none; the text says what is expected where.
    pub fn parse(text: &str) -> Result<Self, String> {
        let (expression, rest) = operand(text, text.trim(), MOST_STEPS)?;
        if !rest.is_empty() {
            return Err(format!("'{text}': '->', '.' or '[' is expected before '{rest}'"));
        }
        if expression.steps.len() > MOST_STEPS {
            return Err(format!("'{text}': at most {MOST_STEPS} steps are followed"));
        }
        Ok(expression)
    }
}

/// Registers by their numbers in the DWARF of x86-64 (System V ABI, AMD64 supplement, 3.6.2), as the kernel's probes call them.
const REGISTERS: [&str; 17] = [
    "ax", "dx", "cx", "bx", "si", "di", "bp", "sp", "r8", "r9", "r10", "r11", "r12", "r13", "r14",
    "r15", "ip",
];

/// Number of a register in DWARF by its name, `di` or `rdi`.
fn register(name: &str) -> Option<u16> {
    let is_it = |known: &&str| name == *known || name.strip_prefix('r') == Some(known);
    let number = REGISTERS.iter().position(is_it)?;
    u16::try_from(number).ok()
}

/// Parses an operand with the operators before it, which apply to all of it, the innermost first. Returns what follows it, too.
/// `left`: operators and parentheses that may still be in it.
fn operand<'a>(text: &str, rest: &'a str, left: usize) -> Result<(Expression, &'a str), String> {
    let left = left
        .checked_sub(1)
        .ok_or_else(|| format!("'{text}': at most {MOST_STEPS} steps are followed"))?;
    let before = match rest.chars().next() {
        Some('*') => Some((Access::Target, &rest[1..])),
        Some('&') => Some((Access::Address, &rest[1..])),
        Some('(') => match cast(rest) {
            Some((cast, rest)) => Some((cast, rest)),
            None => return in_parentheses(text, rest, left),
        },
        _ => None,
    };
    if let Some((step, rest)) = before {
        let (mut expression, rest) = operand(text, rest.trim_start(), left)?;
        expression.steps.push(step);
        return Ok((expression, rest));
    }
    let (start, rest) = match (rest.strip_prefix("$retval"), rest.strip_prefix('%')) {
        (Some(rest), _) => (Start::Returned, rest),
        (None, Some(rest)) => {
            let (name, rest) = split_name(rest, false);
            let number = register(name).ok_or_else(|| {
                format!(
                    "'{text}': there is no register %{name}; there are {}",
                    REGISTERS.join(", ")
                )
            })?;
            (Start::Register(number), rest)
        }
        (None, None) => {
            let (name, rest) = split_name(rest, true);
            if name.is_empty() {
                return Err(format!("'{text}': a name of a variable is expected"));
            }
            (Start::Variable(name.to_owned()), rest)
        }
    };
    steps(text, Expression { start, steps: Vec::new() }, rest)
}

/// Parses `(expression)` with the steps behind it.
fn in_parentheses<'a>(
    text: &str,
    rest: &'a str,
    left: usize,
) -> Result<(Expression, &'a str), String> {
    let (inner, rest) = operand(text, rest[1..].trim_start(), left)?;
    let rest = rest.trim_start();
    let rest = rest.strip_prefix(')').ok_or_else(|| format!("'{text}': ')' is expected"))?;
    steps(text, inner, rest)
}

/// Parses `(struct req *)`, which makes a pointer of what follows it.
fn cast(rest: &str) -> Option<(Access, &str)> {
    let (inner, rest) = rest.strip_prefix('(')?.split_once(')')?;
    let name = inner.trim_end_matches(['*', ' ']);
    let stars = inner[name.len()..].matches('*').count();
    let is_part =
        |of: char| of.is_alphanumeric() || matches!(of, '_' | ' ' | ':' | '<' | '>' | ',');
    let is_type = stars > 0 && !name.is_empty() && name.chars().all(is_part);
    is_type.then(|| {
        (Access::Cast(name.trim().to_owned(), u8::try_from(stars).unwrap_or(u8::MAX)), rest)
    })
}

/// Parses the steps behind an operand.
fn steps<'a>(
    text: &str,
    mut expression: Expression,
    mut rest: &'a str,
) -> Result<(Expression, &'a str), String> {
    loop {
        let member = rest.strip_prefix("->").or_else(|| rest.strip_prefix('.'));
        if let Some(after) = member {
            let (name, after) = split_name(after, false);
            if name.is_empty() {
                return Err(format!("'{text}': a name of a member is expected before '{after}'"));
            }
            expression.steps.push(Access::Member(name.to_owned()));
            rest = after;
        } else if let Some(after) = rest.strip_prefix('[') {
            let (number, after) =
                after.split_once(']').ok_or_else(|| format!("'{text}': ']' is expected"))?;
            let number = number.trim().parse();
            let number = number.map_err(|_| format!("'{text}': a number is expected within []"))?;
            expression.steps.push(Access::Element(number));
            rest = after;
        } else {
            return Ok((expression, rest));
        }
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
        check("(*p).a", variable("p"), &[Access::Target, member("a")]);
        check("*(p)", variable("p"), &[Access::Target]);
        check("%di", Start::Register(5), &[]);
        check("%rax", Start::Register(0), &[]);
        check("%r15", Start::Register(15), &[]);
        let cast = |name: &str, stars| Access::Cast(name.to_owned(), stars);
        check(
            "((struct req *)data)->len",
            variable("data"),
            &[cast("struct req", 1), member("len")],
        );
        check(
            "*(unsigned long**)p.a",
            variable("p"),
            &[member("a"), cast("unsigned long", 2), Access::Target],
        );
        for bad in [
            "",
            "->a",
            "a->",
            "a.",
            "a[",
            "a[x]",
            "a b",
            "a+1",
            "*",
            "$retvals",
            "%",
            "%eax",
            "%r16",
            "a]",
            "(a",
            "(a)b",
            "(struct x)a",
            "()a",
            "(*)a",
        ] {
            assert!(Expression::parse(bad).is_err(), "{bad}");
        }
        assert!(Expression::parse(&"*".repeat(20)).is_err());
        assert!(Expression::parse(&("(".repeat(50_000) + "a")).is_err());
    }
}
