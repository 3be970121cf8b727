//! "Did you mean" suggestions for misspelt words.

/// The most similar name, if any is similar enough.
pub fn nearest<'n>(word: &str, names: impl IntoIterator<Item = &'n str>) -> Option<&'n str> {
    // Nobody misspells a short word as a long one, and comparing takes time.
    if word.len() > 64 {
        return None;
    }
    let plain = word.to_lowercase().replace(['-', ' '], "_");
    let squeezed = plain.replace('_', "");
    names
        .into_iter()
        .filter_map(|name| {
            let distance = strsim::damerau_levenshtein(&plain, name)
                .min(strsim::damerau_levenshtein(&squeezed, &name.replace('_', "")));
            // A third of a word may be wrong; a longer prefix or a plural counts too.
            let extended = plain.len() >= 3
                && (name.starts_with(&plain) || (name.len() >= 3 && plain.starts_with(name)));
            let near = distance <= (name.len() / 3).max(1) && distance < name.len();
            (near || extended).then_some((distance, name))
        })
        .min()
        .map(|(_, name)| name)
}

pub fn did_you_mean(name: Option<&str>) -> Option<String> {
    name.map(|name| format!("did you mean `{name}`?"))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    fn check(word: &str, names: &[&str], expected: Option<&str>) {
        assert_eq!(nearest(word, names.iter().copied()), expected, "{word}");
    }

    #[test]
    fn similar_words_are_suggested_and_others_are_not() {
        let keys = ["require", "deny_if", "limits", "rate_limit", "approval", "validate_args"];
        check("requires", &keys, Some("require"));
        check("denyIf", &keys, Some("deny_if"));
        check("limit", &keys, Some("limits"));
        check("ratelimit", &keys, Some("rate_limit"));
        check("colour", &keys, None);
        check("min", &["minute", "hour", "day"], Some("minute"));
        check("hourly", &["minute", "hour", "day"], Some("hour"));
        check("x", &["a", "b"], None);
    }
}
