//! Flags as users of other shells type them: `-csv`, `-readonly`, `-cmd SQL`.
//!
//! A long flag may have one dash, and the name of a mode is a flag. Both are rewritten before the command line is read.

use std::ffi::OsString;

use clap::Command;

use crate::output::Mode;

/// `arguments` with two dashes before each long flag of `definition`, and `--format` for modes.
pub fn rewritten(definition: &Command, arguments: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let takes_value = |flag: &str| {
        definition.get_arguments().any(|argument| {
            let long = flag
                .strip_prefix("--")
                .is_some_and(|name| argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&name)));
            let short = flag
                .strip_prefix('-')
                .is_some_and(|name| argument.get_short().is_some_and(|short| name.chars().eq(std::iter::once(short))));
            (long || short) && argument.get_action().takes_values()
        })
    };
    let mut rewritten = Vec::new();
    let mut is_value = true;
    let mut is_over = false;
    for argument in arguments {
        let new = match argument.to_str() {
            Some(text) if !is_value && !is_over => flag(definition, text).map(OsString::from),
            _ => None,
        };
        let argument = new.unwrap_or(argument);
        is_over |= !is_value && argument == "--";
        is_value = !is_value && argument.to_str().is_some_and(takes_value);
        rewritten.push(argument);
    }
    rewritten
}

/// What the flag `text` is called here, if it has another name.
fn flag(definition: &Command, text: &str) -> Option<String> {
    let name = text.strip_prefix('-')?;
    let name = name.strip_prefix('-').unwrap_or(name);
    if let Some(mode) = Mode::named(name).filter(|_| name.len() > 1) {
        return Some(format!("--format={}", mode.name()));
    }
    let word = name.split('=').next().unwrap_or(name);
    let is_long = ["help", "version"].contains(&word)
        || definition
            .get_arguments()
            .any(|argument| argument.get_long_and_visible_aliases().is_some_and(|names| names.contains(&word)));
    (is_long && word.len() > 1 && !text.starts_with("--")).then(|| format!("--{name}"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::args::Cli;

    fn of(arguments: &[&str]) -> Vec<String> {
        let arguments = std::iter::once("ogee").chain(arguments.iter().copied()).map(OsString::from);
        let texts = rewritten(&Cli::command(), arguments).into_iter().skip(1);
        texts.map(|text| text.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn long_flags_may_have_one_dash() {
        assert_eq!(
            of(&["-readonly", "-cmd", "-csv", "-init=x", "-c", "-json"]),
            ["--readonly", "--cmd", "-csv", "--init=x", "-c", "-json"]
        );
        assert_eq!(
            of(&["-csv", "--json", "-ndjson", "-x", "--", "-box"]),
            ["--format=csv", "--format=json", "--format=jsonlines", "-x", "--", "-box"]
        );
        assert_eq!(of(&["-cSELECT 1", "-separator", "-", "-version"]), ["-cSELECT 1", "--separator", "-", "--version"]);
    }
}
