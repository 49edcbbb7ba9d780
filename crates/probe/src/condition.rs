//! Conditions on values: `len > 100 && name ~ "GET*"`.

/// Maximum number of comparisons.
const MOST_COMPARISONS: usize = 16;

/// Maximum depth of parentheses and negations.
const MOST_DEPTH: usize = 32;

/// A condition on values of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Condition {
    /// A value is compared.
    Compare {
        /// Expression of the value.
        expression: String,
        /// How it is compared.
        by: Comparison,
        /// Right-hand side of the comparison.
        with: Literal,
    },
    /// Both are true.
    And(Box<Self>, Box<Self>),
    /// One of them is true.
    Or(Box<Self>, Box<Self>),
    /// It is not true.
    Not(Box<Self>),
}

/// Comparisons.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// `==`
    Equal,
    /// `!=`
    Unequal,
    /// `<`
    Less,
    /// `<=`
    AtMost,
    /// `>`
    Greater,
    /// `>=`
    AtLeast,
    /// `&`: one of the bits is set.
    Bits,
    /// `~`: a text matches a pattern.
    Like,
    /// `!~`: it does not.
    Unlike,
}

/// Right-hand sides of comparisons.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A number.
    Number(i128),
    /// A text.
    Text(String),
    /// A name: of an enumeration, of an error; `true` and `false`. With a minus sign before it, it is negated.
    Name {
        /// The name.
        name: String,
        /// True behind a minus sign.
        negated: bool,
    },
}

impl Condition {
    /// Parses a condition: comparisons (`== != < <= > >= & ~ !~`) of expressions with numbers, texts and names, joined by
    /// `&&`, `||`, `!` and parentheses. An expression alone is compared with 0.
    ///
    /// # Errors
    ///
    /// If the text is no condition; says what is expected where.
    pub fn parse(text: &str) -> Result<Self, crate::Error> {
        let mut parser = Parser { text, at: 0, comparisons: 0, depth: 0 };
        let parsed = parser.either().and_then(|condition| match parser.rest().trim_start() {
            "" => Ok(condition),
            _ => Err(parser.expected("&&, || or the end")),
        });
        parsed.map_err(|why| crate::Error::Expression { why })
    }

    /// The expressions that are compared, each with true if it is compared with a text.
    pub fn expressions(&self) -> Vec<(&str, bool)> {
        match self {
            Self::Compare { expression, with, .. } => {
                vec![(expression, matches!(with, Literal::Text(_)))]
            }
            Self::And(first, second) | Self::Or(first, second) => {
                [first.expressions(), second.expressions()].concat()
            }
            Self::Not(of) => of.expressions(),
        }
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    comparisons: usize,
    depth: usize,
}

impl<'a> Parser<'a> {
    fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    /// Skips blanks, and the word behind them if it is there.
    fn takes(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let behind = rest.trim_start();
        let is_it = behind.starts_with(word);
        if is_it {
            self.at += rest.len() - behind.len() + word.len();
        }
        is_it
    }

    fn expected(&self, what: &str) -> String {
        match self.rest().trim() {
            "" => format!("'{}': {what} is expected at the end", self.text),
            rest => format!("'{}': {what} is expected before '{rest}'", self.text),
        }
    }

    fn either(&mut self) -> Result<Condition, String> {
        let mut first = self.both()?;
        while self.takes("||") {
            first = Condition::Or(Box::new(first), Box::new(self.both()?));
        }
        Ok(first)
    }

    fn both(&mut self) -> Result<Condition, String> {
        let mut first = self.one()?;
        while self.takes("&&") {
            first = Condition::And(Box::new(first), Box::new(self.one()?));
        }
        Ok(first)
    }

    fn one(&mut self) -> Result<Condition, String> {
        self.depth += 1;
        if self.depth > MOST_DEPTH {
            return Err(format!("'{}': too many parentheses", self.text));
        }
        let condition = if self.takes("!") {
            Condition::Not(Box::new(self.one()?))
        } else if self.takes("(") {
            let inner = self.either()?;
            if !self.takes(")") {
                return Err(self.expected("')'"));
            }
            inner
        } else {
            self.compare()?
        };
        self.depth -= 1;
        Ok(condition)
    }

    fn compare(&mut self) -> Result<Condition, String> {
        self.comparisons += 1;
        if self.comparisons > MOST_COMPARISONS {
            return Err(format!("'{}': at most {MOST_COMPARISONS} comparisons", self.text));
        }
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        let len = expression_len(self.rest());
        if len == 0 {
            return Err(self.expected("a value"));
        }
        let expression = self.rest()[..len].to_owned();
        self.at += len;
        let Some(by) = self.comparison() else {
            return Ok(Condition::Compare {
                expression,
                by: Comparison::Unequal,
                with: Literal::Number(0),
            });
        };
        let with = self.literal()?;
        let of_texts = matches!(by, Comparison::Like | Comparison::Unlike);
        let of_both = matches!(by, Comparison::Equal | Comparison::Unequal);
        match (&with, of_texts) {
            (Literal::Text(_), false) if !of_both => {
                Err(format!("'{}': texts are compared by ==, !=, ~ and !~", self.text))
            }
            (Literal::Number(_) | Literal::Name { .. }, true) => {
                Err(format!("'{}': ~ compares with a text: {expression} ~ \"GET*\"", self.text))
            }
            _ => Ok(Condition::Compare { expression, by, with }),
        }
    }

    fn comparison(&mut self) -> Option<Comparison> {
        const ALL: [(&str, Comparison); 9] = [
            ("==", Comparison::Equal),
            ("!=", Comparison::Unequal),
            ("!~", Comparison::Unlike),
            ("<=", Comparison::AtMost),
            (">=", Comparison::AtLeast),
            ("<", Comparison::Less),
            (">", Comparison::Greater),
            ("~", Comparison::Like),
            ("&", Comparison::Bits),
        ];
        if self.rest().trim_start().starts_with("&&") {
            return None;
        }
        ALL.iter().find(|(word, _)| self.takes(word)).map(|(_, by)| *by)
    }

    fn literal(&mut self) -> Result<Literal, String> {
        for quote in ["\"", "'"] {
            if !self.takes(quote) {
                continue;
            }
            let Some(end) = self.rest().find(quote) else {
                return Err(format!("'{}': a closing {quote} is expected", self.text));
            };
            let text = self.rest()[..end].to_owned();
            self.at += end + 1;
            return Ok(Literal::Text(text));
        }
        let negated = self.takes("-");
        let rest = self.rest();
        self.at += rest.len() - rest.trim_start().len();
        let rest = self.rest();
        let is_part = |of: char| of.is_alphanumeric() || of == '_' || of == ':';
        let len = rest.find(|of| !is_part(of)).unwrap_or(rest.len());
        let word = &rest[..len];
        if word.is_empty() {
            return Err(self.expected("a number, a text in quotes or a name"));
        }
        self.at += len;
        if !word.starts_with(|of: char| of.is_ascii_digit()) {
            return Ok(Literal::Name { name: word.to_owned(), negated });
        }
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => word.parse(),
        };
        let number = number.map_err(|_| format!("'{}': {word} is no number", self.text))?;
        Ok(Literal::Number(if negated { -i128::from(number) } else { number.into() }))
    }
}

/// Length of the expression at the beginning of a text: `*p`, `req->name[2].x`, `$retval`, `%di`, `shop::total`.
fn expression_len(text: &str) -> usize {
    let begin = text.len() - text.trim_start_matches(['*', '&', ' ']).len();
    let mut end = begin;
    let bytes = text.as_bytes();
    loop {
        let rest = &text[end..];
        if rest.starts_with("->") || rest.starts_with("::") {
            end += 2;
        } else if rest.starts_with(['.', '$', '%']) {
            end += 1;
        } else if rest.starts_with('[') {
            let Some(close) = rest.find(']') else { return if end > begin { end } else { 0 } };
            end += close + 1;
        } else if let Some(len) = word_len(rest) {
            end += len;
        } else if bytes.get(end) == Some(&b':') && rest[1..].starts_with("string") {
            end += ":string".len();
        } else {
            return if end > begin { end } else { 0 };
        }
    }
}

/// Length of the word at the beginning of a text.
fn word_len(text: &str) -> Option<usize> {
    let len = text.find(|of: char| !(of.is_alphanumeric() || of == '_')).unwrap_or(text.len());
    (len > 0).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compare(expression: &str, by: Comparison, with: Literal) -> Condition {
        Condition::Compare { expression: expression.to_owned(), by, with }
    }

    fn parsed(text: &str) -> Condition {
        Condition::parse(text).unwrap_or_else(|error| panic!("{error}"))
    }

    #[test]
    fn conditions() {
        use Comparison::{AtLeast, Bits, Equal, Greater, Less, Like, Unequal, Unlike};
        let text = |text: &str| Literal::Text(text.to_owned());
        let name = |name: &str, negated| Literal::Name { name: name.to_owned(), negated };
        assert_eq!(parsed("len > 100"), compare("len", Greater, Literal::Number(100)));
        assert_eq!(parsed("%di > 100"), compare("%di", Greater, Literal::Number(100)));
        assert_eq!(parsed("req->len>=0x10"), compare("req->len", AtLeast, Literal::Number(16)));
        assert_eq!(parsed("*p[2].x<-5"), compare("*p[2].x", Less, Literal::Number(-5)));
        assert_eq!(parsed("$retval == -EAGAIN"), compare("$retval", Equal, name("EAGAIN", true)));
        assert_eq!(parsed("c == shop::RED"), compare("c", Equal, name("shop::RED", false)));
        assert_eq!(parsed("name ~ \"GET *\""), compare("name", Like, text("GET *")));
        assert_eq!(parsed("p->name:string != 'x'"), compare("p->name:string", Unequal, text("x")));
        assert_eq!(parsed("a !~ 'b'"), compare("a", Unlike, text("b")));
        assert_eq!(parsed("flags & 4"), compare("flags", Bits, Literal::Number(4)));
        assert_eq!(parsed("flags"), compare("flags", Unequal, Literal::Number(0)));
        let one = |of: &str| Box::new(compare(of, Unequal, Literal::Number(0)));
        // `&&` binds more than `||`.
        assert_eq!(
            parsed("a || b && !c"),
            Condition::Or(
                one("a"),
                Box::new(Condition::And(one("b"), Box::new(Condition::Not(one("c")))))
            )
        );
        assert_eq!(
            parsed("(a||b)&&c"),
            Condition::And(Box::new(Condition::Or(one("a"), one("b"))), one("c"))
        );
        let condition = parsed("a == 1 && (b ~ 'x' || !c)");
        assert_eq!(condition.expressions(), [("a", false), ("b", true), ("c", false)]);
    }

    #[test]
    fn what_is_no_condition_is_refused_with_the_place() {
        for (text, why) in [
            ("", "a value is expected at the end"),
            ("len >", "a number, a text in quotes or a name is expected at the end"),
            ("len > 1 2", "&&, || or the end is expected before '2'"),
            ("(len > 1", "')' is expected at the end"),
            ("len > 1 &&", "a value is expected at the end"),
            ("name ~ 5", "~ compares with a text"),
            ("name < 'x'", "texts are compared by"),
            ("name == 'x", "a closing ' is expected"),
            ("len == 12x", "12x is no number"),
            ("len == 99999999999999999999", "is no number"),
            ("= 1", "a value is expected before '= 1'"),
        ] {
            let error = Condition::parse(text).expect_err(text).to_string();
            assert!(error.contains(why), "{error}");
        }
        assert!(Condition::parse(&"(".repeat(1000)).is_err());
        assert!(Condition::parse(&"!".repeat(100_000)).is_err());
        assert!(Condition::parse(&vec!["a"; 17].join(" && ")).is_err());
    }
}
