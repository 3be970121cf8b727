//! Finds and masks secrets in the arguments of a command.

/// Words that mark a name as that of a secret.
const SECRET_WORDS: [&str; 8] =
    ["key", "token", "secret", "password", "passwd", "auth", "credential", "bearer"];
/// Replaces a secret in the output.
pub const MASK: &str = "…";
/// A word of letters and digits from this length on is more likely a key than a name.
const LONG_WORD: usize = 32;
/// The same for a segment of a URL's path.
const LONG_SEGMENT: usize = 16;
/// Shorter words of a secret reveal nothing by themselves.
const SHORTEST_WORD: usize = 6;

/// A part of an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part<'a> {
    Shown(&'a str),
    Secret(&'a str),
}

/// Masks the secrets in a command's arguments.
pub fn mask(command: &[String]) -> Vec<String> {
    let shown = |parts: Vec<Part<'_>>| {
        let text = |part| match part {
            Part::Shown(text) => text,
            Part::Secret(_) => MASK,
        };
        parts.into_iter().map(text).collect()
    };
    parts(command.iter().map(String::as_str)).map(shown).collect()
}

/// The secrets in a command's arguments, and the words that they consist of: a program may print
/// only the password of a URL, for example. Arguments that are command lines themselves are
/// searched too.
pub fn secrets(command: &[String]) -> Vec<String> {
    let mut secrets = Vec::new();
    collect(parts(command.iter().map(String::as_str)), &mut secrets);
    for line in command.iter().filter(|argument| argument.contains(char::is_whitespace)) {
        let words = line.split_whitespace().map(|word| word.trim_matches(['\'', '"', ';']));
        collect(parts(words), &mut secrets);
    }
    secrets
}

fn collect<'a>(parts: impl Iterator<Item = Vec<Part<'a>>>, secrets: &mut Vec<String>) {
    for part in parts.flatten() {
        let Part::Secret(secret) = part else { continue };
        secrets.push(secret.trim().to_owned());
        let ends = |c: char| c.is_whitespace() || ":=&@,".contains(c);
        let words = secret.split(ends).filter(|word| word.len() >= SHORTEST_WORD);
        secrets.extend(words.map(str::to_owned));
    }
}

fn parts<'a>(command: impl Iterator<Item = &'a str>) -> impl Iterator<Item = Vec<Part<'a>>> {
    let mut is_secret_next = false;
    command.map(move |argument| {
        let is_flag = argument.starts_with('-');
        let is_secret = std::mem::take(&mut is_secret_next) && !is_flag;
        is_secret_next = is_flag && !argument.contains('=') && sounds_secret(argument);
        if is_secret { vec![Part::Secret(argument)] } else { parts_of(argument) }
    })
}

pub(crate) fn sounds_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET_WORDS.iter().any(|word| name.contains(word))
}

fn parts_of(argument: &str) -> Vec<Part<'_>> {
    if let Some((scheme, rest)) = argument.split_once("://") {
        let (place, query) =
            rest.split_once('?').map_or((rest, None), |(place, query)| (place, Some(query)));
        let mut parts = vec![Part::Shown(scheme), Part::Shown("://")];
        match place.rsplit_once('@') {
            Some((user, host)) => {
                parts.extend([Part::Secret(user), Part::Shown("@"), Part::Shown(host)]);
            }
            None => parts.push(Part::Shown(place)),
        }
        parts.extend(query.into_iter().flat_map(|query| [Part::Shown("?"), Part::Secret(query)]));
        return parts;
    }
    let named = argument.find(['=', ':']).and_then(|at| argument.split_at_checked(at + 1));
    match named {
        Some((name, value)) if sounds_secret(name) && !value.is_empty() => {
            vec![Part::Shown(name), Part::Secret(value)]
        }
        _ if is_like_a_key(argument) => vec![Part::Secret(argument)],
        _ => vec![Part::Shown(argument)],
    }
}

pub(crate) fn is_like_a_key(word: &str) -> bool {
    word.len() >= LONG_WORD
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-+=".contains(&byte))
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_alphabetic())
}

/// Whether a segment of a URL's path looks like a key: long, and of letters and digits.
pub(crate) fn is_like_a_path_key(segment: &str) -> bool {
    let digits = segment.bytes().filter(u8::is_ascii_digit).count();
    segment.len() >= LONG_SEGMENT
        && digits >= 4
        && segment.bytes().any(|byte| byte.is_ascii_alphabetic())
}

#[cfg(test)]
mod tests {
    use super::{mask, secrets};

    fn command(arguments: &[&str]) -> Vec<String> {
        arguments.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn secrets_in_commands_are_masked() {
        let check = |arguments: &[&str], expected: &[&str]| {
            assert_eq!(mask(&command(arguments)), expected);
        };
        check(
            &["npx", "-y", "@scope/server", "/home/me"],
            &["npx", "-y", "@scope/server", "/home/me"],
        );
        check(
            &["x", "--api-key", "a", "--token=b", "--keys", "-v"],
            &["x", "--api-key", "…", "--token=…", "--keys", "-v"],
        );
        check(&["x", "Authorization: Bearer a"], &["x", "Authorization:…"]);
        check(&["x", "postgres://me:pw@host/db?sslkey=a"], &["x", "postgres://…@host/db?…"]);
        check(&["x", "0123456789abcdef0123456789abcdef"], &["x", "…"]);
    }

    #[test]
    fn secrets_are_found_with_their_words() {
        let check = |arguments: &[&str], expected: &[&str]| {
            assert_eq!(secrets(&command(arguments)), expected);
        };
        check(&["npx", "-y", "@scope/server", "/home/me"], &[]);
        check(&["x", "--api-key", "abcdef", "--token=b"], &["abcdef", "abcdef", "b"]);
        check(
            &["x", "http://me:password1@h/?k=value99"],
            &["me:password1", "password1", "k=value99", "value99"],
        );
        check(&["sh", "-c", "exec x --token 'abc-1'; true"], &["abc-1"]);
    }
}
