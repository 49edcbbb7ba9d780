//! Conditions as steps of a filter.

use pyrograph_event::values::{Check, MOST_CHECKS, Operator, Pattern};
use pyrograph_probe::{Comparison, Condition, Literal, Shape};
use pyrograph_syscall::error_name;

use super::asking::NamedValue;
use crate::error::PlaceError;

/// Returns the steps of a condition. `index` finds a value by its expression.
pub(super) fn checks(
    condition: &Condition,
    index: &dyn Fn(&str, bool) -> Option<usize>,
    named: &[NamedValue],
) -> Result<Vec<Check>, PlaceError> {
    let mut steps = Vec::new();
    add(condition, index, named, &mut steps)?;
    match steps.len() > MOST_CHECKS {
        true => Err(PlaceError::LongFilter { most: MOST_CHECKS }),
        false => Ok(steps),
    }
}

fn add(
    condition: &Condition,
    index: &dyn Fn(&str, bool) -> Option<usize>,
    named: &[NamedValue],
    steps: &mut Vec<Check>,
) -> Result<(), PlaceError> {
    match condition {
        Condition::And(first, second) | Condition::Or(first, second) => {
            add(first, index, named, steps)?;
            add(second, index, named, steps)?;
            steps.push(if matches!(condition, Condition::And(..)) {
                Check::And
            } else {
                Check::Or
            });
        }
        Condition::Not(of) => {
            add(of, index, named, steps)?;
            steps.push(Check::Not);
        }
        Condition::Compare { expression, by, with } => {
            let is_text = matches!(with, Literal::Text(_));
            let value = index(expression, is_text);
            let Some((value, of)) = value.and_then(|value| Some((value, named.get(value)?))) else {
                return Err(refused(expression, "it is not read"));
            };
            compare(value, of, expression, *by, with, steps)?;
        }
    }
    Ok(())
}

fn refused(expression: &str, why: &'static str) -> PlaceError {
    PlaceError::Value { expression: expression.to_owned(), why }
}

fn compare(
    value: usize,
    of: &NamedValue,
    expression: &str,
    by: Comparison,
    with: &Literal,
    steps: &mut Vec<Check>,
) -> Result<(), PlaceError> {
    if let Literal::Text(text) = with {
        if !matches!(of.shape, Shape::Text { .. }) {
            return Err(refused(expression, "it is a number, and is compared with a text"));
        }
        let wild = matches!(by, Comparison::Like | Comparison::Unlike);
        let pattern = Pattern::new(text, wild)
            .ok_or_else(|| refused(expression, "it is compared with more than 63 characters"))?;
        steps.push(Check::Text { value, pattern: Box::new(pattern) });
        if matches!(by, Comparison::Unequal | Comparison::Unlike) {
            steps.push(Check::Not);
        }
        return Ok(());
    }
    if matches!(of.shape, Shape::Text { .. }) {
        return Err(refused(expression, "it is a text, and is compared with a number"));
    }
    if matches!(of.shape, Shape::Float { .. }) {
        return Err(refused(expression, "floating-point numbers are not compared in the kernel"));
    }
    let number = number(with, &of.shape)
        .ok_or_else(|| refused(expression, "it is compared with a name that it does not have"))?;
    let signed =
        matches!(of.shape, Shape::Number { signed: true, .. } | Shape::Names { signed: true, .. });
    // What is beyond the numbers that the value can be is as far as they reach.
    let (least, most) = match signed {
        true => (i128::from(i64::MIN), i128::from(i64::MAX)),
        false => (0, i128::from(u64::MAX)),
    };
    let (operator, negated) = match by {
        Comparison::Equal => (Operator::Equal, false),
        Comparison::Unequal => (Operator::Equal, true),
        Comparison::Less => (Operator::Less, false),
        Comparison::AtLeast => (Operator::Less, true),
        Comparison::Greater => (Operator::Greater, false),
        Comparison::AtMost => (Operator::Greater, true),
        Comparison::Bits => (Operator::Bits, false),
        Comparison::Like | Comparison::Unlike => {
            return Err(refused(expression, "~ compares with a text"));
        }
    };
    if !(least..=most).contains(&number) {
        return Err(refused(expression, "it is compared with a number that it cannot be"));
    }
    // Cut to 64 bits, which both kinds of numbers have.
    let number = number as u64;
    steps.push(Check::Number { value, operator, number, signed });
    if negated {
        steps.push(Check::Not);
    }
    Ok(())
}

/// The number that a literal is for values of a shape: also by the name of an enumeration's value, or of an error.
fn number(literal: &Literal, shape: &Shape) -> Option<i128> {
    let (name, negated) = match literal {
        Literal::Number(number) => return Some(*number),
        Literal::Name { name, negated } => (name, *negated),
        Literal::Text(_) => return None,
    };
    let of_type = match shape {
        Shape::Names { names, .. } => {
            let last = |of: &str| of.rsplit("::").next().unwrap_or(of).to_owned();
            let is_it = |(_, known): &&(i64, String)| *known == *name || last(known) == last(name);
            names.iter().find(is_it).map(|(number, _)| i128::from(*number))
        }
        _ => None,
    };
    let known = match &**name {
        "true" => Some(1),
        "false" | "NULL" => Some(0),
        name => (1..4096).find(|error| error_name(*error) == Some(name)).map(i128::from),
    };
    of_type.or(known).map(|number| if negated { -number } else { number })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn steps(text: &str) -> Result<Vec<Check>, String> {
        let condition = Condition::parse(text).map_err(|error| error.to_string())?;
        let named = [
            ("len", Shape::Number { signed: false, bits: (0, 32) }),
            ("ret", Shape::Number { signed: true, bits: (0, 64) }),
            ("name", Shape::Text { length: None }),
            (
                "color",
                Shape::Names {
                    signed: false,
                    bits: (0, 32),
                    names: vec![(5, "shop::RED".to_owned())],
                },
            ),
            ("ratio", Shape::Float { size: 8 }),
        ];
        let named = named.map(|(name, shape)| NamedValue { name: name.to_owned(), shape });
        let index = |of: &str, _| named.iter().position(|known| known.name == of);
        checks(&condition, &index, &named).map_err(|error| error.to_string())
    }

    #[test]
    fn conditions_become_steps() {
        let number =
            |value, operator, number, signed| Check::Number { value, operator, number, signed };
        assert_eq!(
            steps("len >= 5 && ret == -ENOENT"),
            Ok(vec![
                number(0, Operator::Less, 5, false),
                Check::Not,
                number(1, Operator::Equal, (-2i64).cast_unsigned(), true),
                Check::And
            ])
        );
        assert_eq!(steps("color == RED"), Ok(vec![number(3, Operator::Equal, 5, false)]));
        let pattern = |text| Box::new(Pattern::new(text, true).expect("short"));
        assert_eq!(
            steps("!(name ~ 'a*' || len & 4)"),
            Ok(vec![
                Check::Text { value: 2, pattern: pattern("a*") },
                number(0, Operator::Bits, 4, false),
                Check::Or,
                Check::Not
            ])
        );
        for (text, why) in [
            ("len == 'x'", "compared with a text"),
            ("name == 5", "compared with a number"),
            ("color == BLUE", "a name that it does not have"),
            ("ratio > 1", "floating-point"),
            ("len == -1", "a number that it cannot be"),
            ("other == 1", "it is not read"),
        ] {
            let error = steps(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
        let long = ["len == 1"; 9].join(" || ");
        assert!(steps(&long).expect_err("too long").contains("16"));
    }
}
