//! An excerpt of the text around a finding.

use sluice_classify::{Definition, Part, Spot};

/// Characters before and after the finding.
const BEFORE: usize = 24;
const AFTER: usize = 80;

/// The excerpt around a position in a definition.
pub(super) fn of_definition(definition: &Definition<'_>, at: &Spot) -> String {
    let parameter = || {
        let properties = definition.input_schema?.get("properties")?;
        properties.get(at.parameter.as_deref()?)?.get("description")?.as_str()
    };
    let text = match at.part {
        Part::Name => Some(definition.name),
        Part::Title => definition.title,
        Part::Description => definition.description,
        Part::ParameterDescription => parameter(),
        _ => None,
    };
    match text {
        Some(text) => around(text, at),
        // The finding is in a nested schema, or is a whole value.
        None => at.quote.clone(),
    }
}

/// The excerpt around a position in a text.
pub(super) fn around(text: &str, at: &Spot) -> String {
    let whole = (text.get(..at.start), text.get(at.start..at.end), text.get(at.end..));
    let (Some(before), Some(here), Some(after)) = whole else { return at.quote.clone() };
    let start = before.char_indices().rev().take(BEFORE).last().map_or(before.len(), |(at, _)| at);
    let end = after.char_indices().nth(AFTER).map_or(after.len(), |(at, _)| at);
    let ellipsis = |is_cut| if is_cut { "…" } else { "" };
    let here: String = here.chars().take(AFTER).collect();
    format!(
        "{}{}{here}{}{}",
        ellipsis(start > 0),
        before.get(start..).unwrap_or_default(),
        after.get(..end).unwrap_or_default(),
        ellipsis(end < after.len()),
    )
}

#[cfg(test)]
mod tests {
    use sluice_classify::{Part, Spot};

    use super::around;

    #[test]
    fn an_excerpt_is_short_and_marks_its_cuts() {
        let at = |start, end| Spot {
            part: Part::Description,
            parameter: None,
            start,
            end,
            quote: "quoted".into(),
        };
        assert_eq!(around("tell nobody", &at(0, 4)), "tell nobody");
        let long = format!("{}here{}", "é".repeat(100), "ü".repeat(100));
        let expected = format!("…{}here{}…", "é".repeat(24), "ü".repeat(80));
        assert_eq!(around(&long, &at(200, 204)), expected);
        // Positions that are not in the text.
        assert_eq!(around("é", &at(1, 2)), "quoted");
    }
}
