//! Forms that come again and again: the database keeps them apart from the log, so
//! that a row need only name them by their number.
//!
//! A form goes with the pruning of the records that have it, some records later: so
//! that not every row has to note that it uses one, that is noted now and then, and a
//! form is kept for some more records than were noted. Whoever wants to name it after
//! those has to see first that it is still there.

use super::MOST_RECORDS;

/// Forms that are remembered here.
const MOST: usize = 64;
/// Bytes of a form that may be kept.
const LONGEST: usize = 4_096;
/// Records after the one that was noted for which a form is kept in any case.
pub(crate) const KEPT_FOR: i64 = 4 * MOST_RECORDS;

#[derive(Debug)]
struct Known {
    form: String,
    kept: Option<Kept>,
    /// Whether its use is to be noted.
    is_wanted: bool,
}

/// That the database has a form.
#[derive(Debug, Clone, Copy)]
struct Kept {
    number: i64,
    /// The record that was noted.
    noted: i64,
}

impl Kept {
    /// Whether a row that follows a record may name the form.
    fn is_sure(&self, newest: i64) -> bool {
        newest.saturating_add(MOST_RECORDS) <= self.noted.saturating_add(KEPT_FOR)
    }
}

/// The forms that were used last, the newest first.
#[derive(Debug, Default)]
pub(super) struct Forms {
    known: Vec<Known>,
    is_any_wanted: bool,
}

impl Forms {
    /// The number by which a row that follows the record `newest` may name a form. One
    /// that comes a second time is worth being kept.
    pub(super) fn number(&mut self, form: &str, newest: i64) -> Option<i64> {
        if form.len() > LONGEST {
            return None;
        }
        let Some(place) = self.known.iter().position(|known| known.form == form) else {
            self.known.truncate(MOST - 1);
            self.known.insert(0, Known { form: form.to_owned(), kept: None, is_wanted: false });
            return None;
        };
        let known = self.known.get_mut(..=place)?;
        known.rotate_right(1);
        let known = known.first_mut()?;
        let number = known.kept.filter(|kept| kept.is_sure(newest)).map(|kept| kept.number);
        known.is_wanted = number.is_none();
        self.is_any_wanted |= known.is_wanted;
        number
    }

    /// Has forms kept that are worth it, as ones that the record `newest` uses.
    pub(super) fn keep<E>(
        &mut self,
        newest: i64,
        mut keep: impl FnMut(&str) -> Result<i64, E>,
    ) -> Result<(), E> {
        if !std::mem::take(&mut self.is_any_wanted) {
            return Ok(());
        }
        for known in self.known.iter_mut().filter(|known| known.is_wanted) {
            known.kept = Some(Kept { number: keep(&known.form)?, noted: newest });
            known.is_wanted = false;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{Forms, KEPT_FOR, LONGEST, MOST, MOST_RECORDS};

    fn keep(forms: &mut Forms, newest: i64, number: i64) -> Vec<String> {
        let mut kept = Vec::new();
        let one = |form: &str| {
            kept.push(form.to_owned());
            Ok::<_, ()>(number)
        };
        forms.keep(newest, one).unwrap();
        kept
    }

    #[test]
    fn what_comes_twice_is_kept_and_named() {
        let mut forms = Forms::default();
        assert_eq!(forms.number("a", 0), None);
        assert_eq!(keep(&mut forms, 1, 7), [] as [&str; 0]);
        assert_eq!(forms.number("b", 1), None);
        assert_eq!(forms.number("a", 1), None);
        assert_eq!(keep(&mut forms, 2, 7), ["a"]);
        assert_eq!((forms.number("a", 2), forms.number("b", 2)), (Some(7), None));
        assert_eq!(keep(&mut forms, 3, 8), ["b"]);
        assert_eq!((forms.number("a", 3), forms.number("b", 3)), (Some(7), Some(8)));
    }

    #[test]
    fn after_a_while_it_is_noted_again_before_it_is_named() {
        let mut forms = Forms::default();
        forms.number("a", 0);
        forms.number("a", 0);
        keep(&mut forms, 10, 7);
        let last = 10 + KEPT_FOR - MOST_RECORDS;
        assert_eq!(forms.number("a", last), Some(7));
        assert_eq!(forms.number("a", last + 1), None);
        assert_eq!(keep(&mut forms, last + 2, 9), ["a"]);
        assert_eq!(forms.number("a", last + 2), Some(9));
    }

    #[test]
    fn few_are_remembered_and_none_that_is_long() {
        let mut forms = Forms::default();
        let long = "x".repeat(LONGEST + 1);
        for _ in 0..3 {
            assert_eq!(forms.number(&long, 0), None);
        }
        for _ in 0..3 {
            for number in 0..=MOST {
                assert_eq!(forms.number(&number.to_string(), 0), None);
            }
            assert_eq!(keep(&mut forms, 1, 7), [] as [&str; 0]);
        }
        assert_eq!(forms.known.len(), MOST);
    }
}
