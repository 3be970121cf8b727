//! The whole command line as clap sees it: the commands of the derives, with examples, candidates
//! for completion, and without options that do nothing.

mod candidates;
mod examples;
mod man;

use std::path::PathBuf;

use clap::{
    Arg, Command, CommandFactory as _, FromArgMatches as _,
    error::{ContextKind, ContextValue},
    value_parser,
};
use clap_complete::engine::ArgValueCandidates;

use self::candidates::COMPLETED;
use super::Arguments;

pub(super) use man::Man;

/// The variable in which a shell asks for completions.
pub(crate) const COMPLETE: &str = "SLUICE_COMPLETE";

/// The version with what the program was built from and with.
const LONG_VERSION: &str = concat!(
    env!("CARGO_PKG_VERSION"),
    "\ncommit: ",
    env!("SLUICE_BUILD_COMMIT"),
    "\nfeatures: ",
    env!("SLUICE_BUILD_FEATURES"),
    "\nbuilt for: ",
    env!("SLUICE_BUILD_TARGET"),
);

/// Commands that read no data directory. `--data` is accepted everywhere, but shown only where it
/// does something.
const WITHOUT_DATA: [&str; 12] = [
    "init",
    "pharo",
    "scan",
    "classify",
    "completions",
    "policy test",
    "policy explain",
    "policy import",
    "policy diff",
    "policy schema",
    "man",
    "supervise",
];

/// The arguments of this process.
pub(crate) fn read() -> Result<Arguments, clap::Error> {
    let mut command = command_line();
    let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
    Arguments::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
}

/// The command line, with everything that the derives cannot say.
fn command_line() -> Command {
    let mut command = Arguments::command().long_version(LONG_VERSION);
    for (path, lines) in examples::EXAMPLES {
        let text = format!("Examples:\n  {}", lines.join("\n  "));
        command = at(command, path, &|command| command.after_help(text.clone()));
    }
    for (path, argument, kind) in COMPLETED {
        // `mut_arg` would put a positional argument behind the others.
        command = at(command, path, &|command| {
            command.mut_args(|arg| {
                if arg.get_id() != argument {
                    return arg;
                }
                arg.add(ArgValueCandidates::new(move || candidates::find(kind)))
            })
        });
    }
    for path in WITHOUT_DATA {
        command = at(command, path, &|command| command.arg(hidden_data()));
    }
    command
}

/// What a shell may complete. Hidden commands are not in it, because completion would offer one as
/// soon as nothing else begins like the word.
pub(crate) fn completed_line() -> Command {
    copy_shown(&command_line())
}

/// A copy of the command with what completion needs, and without hidden commands.
fn copy_shown(command: &Command) -> Command {
    let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(copy_shown);
    Command::new(command.get_name().to_owned())
        .about(command.get_about().cloned().unwrap_or_default())
        .args(command.get_arguments().cloned())
        .subcommands(shown)
}

/// An example of the command that these words begin with.
pub(super) fn example(words: &[String]) -> Option<&'static str> {
    let mut command = command_line();
    let mut path = String::new();
    for word in words {
        let Some(inner) = command.find_subcommand(word).cloned() else { continue };
        path = format!("{path} {word}");
        command = inner;
    }
    let (_, lines) = examples::EXAMPLES.iter().find(|(named, _)| *named == path.trim())?;
    lines.first().copied()
}

/// Takes commands that are for the program itself out of an error's suggestions.
pub(super) fn forget_hidden(error: &mut clap::Error) {
    let Some(ContextValue::Strings(similar)) = error.get(ContextKind::SuggestedSubcommand) else {
        return;
    };
    let command = command_line();
    let is_hidden = |name: &String| command.find_subcommand(name).is_some_and(Command::is_hide_set);
    let shown: Vec<_> = similar.iter().filter(|name| !is_hidden(name)).cloned().collect();
    error.insert(ContextKind::SuggestedSubcommand, ContextValue::Strings(shown));
}

/// Changes the command at a path such as `policy put`; the empty path is the program.
fn at(command: Command, path: &str, change: &dyn Fn(Command) -> Command) -> Command {
    let Some((first, rest)) = path.split_once(' ').or((!path.is_empty()).then_some((path, "")))
    else {
        return change(command);
    };
    command.mut_subcommand(first, |inner| at(inner, rest, change))
}

/// `--data`, as the program declares it for all commands, but not shown.
fn hidden_data() -> Arg {
    Arg::new("data")
        .long("data")
        .value_name("DIR")
        .value_parser(value_parser!(PathBuf))
        .global(true)
        .hide(true)
}

#[cfg(test)]
mod tests {
    use clap::Command;

    use super::{COMPLETED, WITHOUT_DATA, command_line, examples::EXAMPLES};

    /// The command at a path.
    fn find<'c>(command: &'c Command, path: &str) -> Option<&'c Command> {
        path.split_whitespace().try_fold(command, |command, name| command.find_subcommand(name))
    }

    /// The paths of all commands that are shown, but not of `help`.
    fn paths(command: &Command, above: &str) -> Vec<String> {
        let shown = command.get_subcommands().filter(|sub| !sub.is_hide_set());
        let mut found = Vec::new();
        for sub in shown.filter(|sub| sub.get_name() != "help") {
            let path = format!("{above} {}", sub.get_name()).trim().to_owned();
            found.extend(paths(sub, &path));
            found.push(path);
        }
        found
    }

    /// The words of a command as a shell splits them, up to a pipe or a redirection.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        let mut is_quoted = false;
        for letter in line.chars() {
            match letter {
                '\'' => is_quoted = !is_quoted,
                '|' | '>' if !is_quoted => break,
                ' ' if !is_quoted => words.push(String::new()),
                letter => words.last_mut().unwrap().push(letter),
            }
        }
        words.retain(|word| !word.is_empty());
        words
    }

    #[test]
    fn each_command_has_examples_that_are_understood() {
        for path in paths(&command_line(), "").into_iter().chain([String::new()]) {
            assert!(EXAMPLES.iter().any(|(named, _)| *named == path), "`{path}` has no examples");
        }
        for (path, lines) in EXAMPLES {
            for line in lines {
                let matches = command_line()
                    .try_get_matches_from(words(line))
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut named = Vec::new();
                let mut inner = &matches;
                while let Some((name, next)) = inner.subcommand() {
                    named.push(name);
                    inner = next;
                }
                assert!(named.join(" ").starts_with(path), "{line} is not an example of `{path}`");
            }
        }
    }

    #[test]
    fn what_is_said_of_commands_is_about_commands_that_exist() {
        let mut command = command_line();
        command.build();
        for (path, argument, _) in COMPLETED {
            let found = find(&command, path).unwrap_or_else(|| panic!("`{path}`"));
            assert!(found.get_arguments().any(|arg| arg.get_id() == argument), "{path} {argument}");
        }
        for path in WITHOUT_DATA {
            let found = find(&command, path).unwrap_or_else(|| panic!("`{path}`"));
            let data = found.get_arguments().find(|arg| arg.get_id() == "data").unwrap();
            assert!(data.is_hide_set(), "{path}");
            // It is still understood, before the command and after it.
        }
        let matches = command_line().try_get_matches_from(["sluice", "classify", "--data", "x"]);
        assert!(matches.unwrap().get_one::<std::path::PathBuf>("data").is_some());
        command_line().debug_assert();
    }
}
