//! The ledger: a balance, and the invoices that are paid from it.

use std::fmt;

use sluice_builtin::ToolResult;
use sluice_wire::json::Quoted;

use crate::decimal::Decimal;

/// An amount of money in whole cents, so that no sum is ever rounded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Money(i64);

/// The largest single payment; sums of payments stay far within [`Money`].
pub(crate) const LARGEST_PAYMENT: Money = Money::of(1_000_000, 0);

impl Money {
    pub(crate) const ZERO: Money = Money(0);

    const fn of(whole: i64, cents: i64) -> Self {
        Money(whole * 100 + cents)
    }

    pub(crate) fn from_cents(cents: i64) -> Self {
        Money(cents)
    }

    pub(crate) fn cents(self) -> i64 {
        self.0
    }

    pub(crate) fn as_decimal(self) -> Decimal {
        Decimal::hundredths(self.0)
    }

    fn less(self, other: Money) -> Money {
        Money(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Money {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:02}", self.0 / 100, self.0 % 100)
    }
}

/// INVARIANT: the balance and the amounts owed never fall below zero.
#[derive(Debug)]
pub(crate) struct Ledger {
    balance: Money,
    invoices: [Invoice; 3],
}

#[derive(Debug)]
pub(crate) struct Invoice {
    id: &'static str,
    payee: &'static str,
    amount: Money,
    owed: Money,
}

impl Invoice {
    fn new(id: &'static str, payee: &'static str, amount: Money) -> Self {
        Invoice { id, payee, amount, owed: amount }
    }

    pub(crate) fn amount(&self) -> Money {
        self.amount
    }

    pub(crate) fn amount_owed(&self) -> Money {
        self.owed
    }

    pub(crate) fn amount_paid(&self) -> Money {
        self.amount.less(self.owed)
    }
}

impl Ledger {
    pub(crate) fn with_sample_data() -> Self {
        Ledger {
            balance: Money::of(1000, 0),
            invoices: [
                Invoice::new("INV-1001", "Beanery", Money::of(42, 50)),
                Invoice::new("INV-1002", "Harbour Hosting", Money::of(180, 0)),
                Invoice::new("INV-1003", "Plank & Sons", Money::of(1250, 0)),
            ],
        }
    }

    pub(crate) fn balance(&self) -> Money {
        self.balance
    }

    pub(crate) fn invoices(&self) -> &[Invoice] {
        &self.invoices
    }

    /// Pays all or a part of an invoice. `to` guards against paying the wrong invoice.
    pub(crate) fn pay(
        &mut self,
        id: &str,
        amount: Money,
        to: Option<&str>,
    ) -> Result<ToolResult, String> {
        let known = self.invoices.each_ref().map(|invoice| invoice.id);
        let invoice = self.invoices.iter_mut().find(|invoice| invoice.id == id);
        let invoice = invoice.ok_or_else(|| {
            format!("there is no invoice `{id}`: expected one of `{}`", known.join("`, `"))
        })?;
        let (payee, owed) = (invoice.payee, invoice.owed);
        if to.is_some_and(|to| to != payee) {
            return Err(format!("`{id}` is owed to `{payee}`: leave `to` out, or name them"));
        }
        if amount > owed {
            return Err(format!("only {owed} is owed on `{id}`, less than {amount}"));
        }
        if amount > self.balance {
            return Err(format!("the balance of {} does not cover {amount}", self.balance));
        }
        invoice.owed = owed.less(amount);
        self.balance = self.balance.less(amount);
        let (id, owed, balance) = (Quoted(invoice.id), invoice.owed, self.balance);
        let text =
            format!("paid {amount} to {payee} on {}; {owed} still owed, balance {balance}", id.0);
        let json =
            format!("{{\"invoice\":{id},\"paid\":{amount},\"owed\":{owed},\"balance\":{balance}}}");
        Ok(ToolResult::text(text).with_structured(json))
    }
}
