//! Lists of parameters at the end of names.

/// The name without a whole list of parameters at its end, and what may follow it: qualifiers, a clone's name, or a JVM
/// result type. `std::function<void ()>`, `operator()`, `f(int)::{lambda(int)#1}`, `(anonymous namespace)::f` and Go's
/// `pkg.(*T).Method` stay what they are.
///
/// ```
/// # use pyrograph_names::without_parameters;
/// assert_eq!(without_parameters("C::f(int (*)(char)) const &"), "C::f");
/// assert_eq!(without_parameters("f(int) [same code as g(int), h(char)]"), "f");
/// ```
pub fn without_parameters(symbol: &str) -> &str {
    split(symbol).map_or(crate::without_others(symbol), |(name, _)| name)
}

/// The name and its parameters, without their brackets, if it has such a list.
pub(crate) fn split(symbol: &str) -> Option<(&str, &str)> {
    let body = without_qualifiers(symbol);
    let inner = body.strip_suffix(')')?;
    let mut depth = 1;
    for (at, byte) in inner.bytes().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => continue,
        }
        if depth == 0 {
            let (name, inside) = (&inner[..at], &inner[at + 1..]);
            return is_parameter_list(name, inside).then_some((name, inside));
        }
    }
    None
}

/// True if what stands in the last brackets, after `name`, is a list of parameters.
fn is_parameter_list(name: &str, inside: &str) -> bool {
    let Some(&last) = name.as_bytes().last() else { return false };
    // `Function (anonymous)`, `pkg.(*T)`.
    if matches!(last, b' ' | b'.') || inside == "anonymous namespace" {
        return false;
    }
    // `operator()` itself, but not `myoperator()`.
    match name.strip_suffix("operator") {
        Some(before) => {
            before.bytes().last().is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_')
        }
        None => true,
    }
}

fn without_qualifiers(symbol: &str) -> &str {
    let mut body = crate::without_others(symbol.trim_ascii_end());
    if body.ends_with(']')
        && let Some(at) = body.find(" [clone ")
    {
        body = &body[..at];
    }
    loop {
        let shorter = [" const", " volatile", " &&", " &", " noexcept"]
            .iter()
            .find_map(|qualifier| body.strip_suffix(qualifier));
        match shorter {
            Some(shorter) => body = shorter,
            None => return without_jvm_result(body),
        }
    }
}

/// `java/lang/String.indexOf(II)I` is `java/lang/String.indexOf(II)`.
fn without_jvm_result(body: &str) -> &str {
    let Some(close) = body.rfind(')') else { return body };
    let result = body[close + 1..].trim_start_matches('[');
    let is_class = || {
        result.starts_with('L')
            && result.find(';') == Some(result.len() - 1)
            && !result.contains(' ')
    };
    let is_result =
        matches!(result, "B" | "C" | "D" | "F" | "I" | "J" | "S" | "Z" | "V") || is_class();
    if is_result { &body[..=close] } else { body }
}
