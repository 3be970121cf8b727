//! Hints for arguments that clap cannot read: what the user probably meant.

use clap::error::{ContextKind, ContextValue, ErrorKind};

/// Words that users of other programs try, and ours.
const OTHER_WORDS: [(&str, &str); 14] = [
    ("server delete", "sluice server remove NAME"),
    ("server rm", "sluice server remove NAME"),
    ("server create", "sluice server add NAME"),
    ("server ls", "sluice server list"),
    ("policy delete", "sluice policy remove SERVER NAME"),
    ("policy rm", "sluice policy remove SERVER NAME"),
    ("policy add", "sluice policy put SERVER NAME FILE"),
    ("policy create", "sluice policy put SERVER NAME FILE"),
    ("policy validate", "sluice policy check FILE"),
    ("grant delete", "sluice grant revoke ID"),
    ("grant remove", "sluice grant revoke ID"),
    ("grant add", "sluice grant create SERVER LABEL --policy NAME"),
    ("run", "sluice up"),
    ("start", "sluice up"),
];

/// What to type instead, if that can be guessed. The words are those of the command line.
pub(super) fn find(error: &clap::Error, words: &[String]) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let is_said = |word: &str| words.iter().any(|one| one == word);
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let wrong = text(ContextKind::InvalidSubcommand)?;
            let place = words.iter().position(|word| word == wrong)?;
            let before = place.checked_sub(1).and_then(|place| words.get(place));
            let typed = before.map(|before| format!("{before} {wrong}"));
            let is_it = |known: &str| known == wrong || Some(known) == typed.as_deref();
            let (_, ours) = OTHER_WORDS.iter().find(|(known, _)| is_it(known))?;
            Some(format!("did you mean `{ours}`?"))
        }
        ErrorKind::UnknownArgument => {
            let stray = text(ContextKind::InvalidArg).filter(|word| !word.starts_with('-'))?;
            if ["scan", "wrap", "add"].into_iter().any(is_said) {
                let is_url = stray.starts_with("http://") || stray.starts_with("https://");
                return Some(if is_url {
                    "put `--url` before the address".into()
                } else {
                    "put `--` before the command; `gemini mcp add` takes one away: write `sluice -- wrap … -- COMMAND`".into()
                });
            }
            let is_object = is_said("call") && stray.starts_with(['{', '[']);
            is_object.then(|| "put `--args` before the tool's arguments".into())
        }
        _ => None,
    }
}
