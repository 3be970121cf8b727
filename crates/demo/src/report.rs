//! A small expression language for reports over the notes and the ledger.
//!
//! ```text
//! sum     := product (("+" | "-") product)*
//! product := value ("*" value)*
//! value   := number | "-" value | "(" sum ")" | "balance" | "last"
//!          | ("count" | "sum" | "min" | "max") "(" rows ")"
//! rows    := "notes" | "invoices" | "invoices.open" | "invoices.paid"
//! ```
//! Arithmetic is exact; there is no division, because its results are not.

use crate::{State, decimal::Decimal, ledger::Invoice};

/// The longest expression, in characters.
pub(crate) const LONGEST_EXPRESSION: usize = 200;
const DEEPEST: usize = 20;

/// Evaluates the expression over the current state.
pub(crate) fn evaluate(expression: &str, state: &State) -> Result<Decimal, String> {
    let tokens = tokens(expression)?;
    let mut reader = Reader { tokens: tokens.into_iter().peekable(), state, depth: 0 };
    let value = reader.sum()?;
    match reader.tokens.next() {
        None => Ok(value),
        Some(token) => Err(format!("unexpected `{token}` after the expression")),
    }
}

/// Splits the expression into words, numbers and signs.
fn tokens(expression: &str) -> Result<Vec<&str>, String> {
    let mut tokens = Vec::new();
    let mut rest = expression.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_part = |character: char| character.is_ascii_alphanumeric() || character == '.';
        let length = match first {
            '+' | '-' | '*' | '(' | ')' => 1,
            _ if is_part(first) => rest.find(|other| !is_part(other)).unwrap_or(rest.len()),
            _ => return Err(format!("`{first}` means nothing in an expression")),
        };
        let (token, after) = rest.split_at(length);
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

struct Reader<'e, 's> {
    tokens: std::iter::Peekable<std::vec::IntoIter<&'e str>>,
    state: &'s State,
    depth: usize,
}

impl Reader<'_, '_> {
    fn sum(&mut self) -> Result<Decimal, String> {
        let mut total = self.product()?;
        while let Some(sign) = self.tokens.next_if(|token| matches!(*token, "+" | "-")) {
            let value = self.product()?;
            let value = if sign == "-" { value.negate() } else { Some(value) };
            total = value.and_then(|value| total.plus(value)).ok_or_else(too_many_digits)?;
        }
        Ok(total)
    }

    fn product(&mut self) -> Result<Decimal, String> {
        let mut total = self.value()?;
        while self.tokens.next_if_eq(&"*").is_some() {
            total = total.times(self.value()?).ok_or_else(too_many_digits)?;
        }
        Ok(total)
    }

    fn value(&mut self) -> Result<Decimal, String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("the expression is nested deeper than {DEEPEST}"));
        }
        let token = self.tokens.next().ok_or("the expression ends where a value is expected")?;
        let value = match token {
            "-" => self.value()?.negate().ok_or_else(too_many_digits)?,
            "(" => {
                let value = self.sum()?;
                self.expect(")")?;
                value
            }
            "balance" => self.state.ledger.balance().as_decimal(),
            "last" => self.state.last,
            "count" | "sum" | "min" | "max" => self.function(token)?,
            number => read_number(number)?,
        };
        self.depth -= 1;
        Ok(value)
    }

    fn function(&mut self, name: &str) -> Result<Decimal, String> {
        self.expect("(")?;
        let rows = self.tokens.next().unwrap_or_default();
        let values = self.rows(rows)?;
        self.expect(")")?;
        if name == "count" {
            return i128::try_from(values.len()).map(Decimal::whole).map_err(|_| too_many_digits());
        }
        let hundredths = values.into_iter();
        let value = match name {
            "sum" => Some(hundredths.sum()),
            "min" => hundredths.min(),
            _ => hundredths.max(),
        };
        value
            .map(Decimal::hundredths)
            .ok_or_else(|| format!("`{rows}` is empty, so it has no `{name}`"))
    }

    /// One value per row, in hundredths; for a note it is the number of its characters.
    fn rows(&self, name: &str) -> Result<Vec<i64>, String> {
        let invoices = self.state.ledger.invoices().iter();
        let open = |invoice: &&Invoice| invoice.amount_owed().cents() > 0;
        let begun = |invoice: &&Invoice| invoice.amount_paid().cents() > 0;
        Ok(match name {
            "notes" => {
                let lengths = self.state.notes.lengths();
                lengths.filter_map(|length| i64::try_from(length * 100).ok()).collect()
            }
            "invoices" => invoices.map(|invoice| invoice.amount().cents()).collect(),
            "invoices.open" => {
                invoices.filter(open).map(|open| open.amount_owed().cents()).collect()
            }
            "invoices.paid" => {
                invoices.filter(begun).map(|begun| begun.amount_paid().cents()).collect()
            }
            _ => {
                return Err(format!(
                    "`{name}` is not a set of rows: \
                     expected `notes`, `invoices`, `invoices.open` or `invoices.paid`"
                ));
            }
        })
    }

    fn expect(&mut self, sign: &str) -> Result<(), String> {
        match self.tokens.next() {
            Some(token) if token == sign => Ok(()),
            Some(token) => Err(format!("expected `{sign}`, found `{token}`")),
            None => Err(format!("expected `{sign}`, found the end")),
        }
    }
}

fn read_number(token: &str) -> Result<Decimal, String> {
    let is_number = token.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
        && token.starts_with(|first: char| first.is_ascii_digit())
        && !token.ends_with('.')
        && token.matches('.').count() <= 1;
    if !is_number {
        return Err(format!(
            "`{token}` is not a value: expected a number, `balance`, `last`, \
             or `count`, `sum`, `min` or `max` of some rows"
        ));
    }
    Decimal::read(token).ok_or_else(too_many_digits)
}

fn too_many_digits() -> String {
    "a number in the expression has too many digits".to_owned()
}
