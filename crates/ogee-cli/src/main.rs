//! The ogee shell: SQL from the command line, a file, standard input or a prompt; results as tables, CSV, JSON and more.
//!
//! Exit codes: 0 good, 1 a statement failed, 2 wrong usage, 128 + n ended by signal n.
//!
//! Not here: SQL. The shell reads, hands over and prints.

mod allocator;
mod args;
mod dashes;
mod demo;
mod dot;
mod editor;
mod errors;
mod interactive;
mod lineitem;
mod output;
mod pager;
mod progress;
mod script;
mod session;
mod signals;
mod sizes;
mod splitter;
mod startup;
mod terminal;

use std::io::{self, IsTerminal, Write};

use args::{Command, Script, ShellArgs};
use errors::RunError;
use output::Sink;
use session::Session;
use signals::Interrupts;

fn main() {
    allocator::configure();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        // The statement tells which file is damaged.
        if !ogee::is_reading() {
            hook(panic);
        }
    }));
    let code = run();
    // Nothing may be lost in a buffer, and nobody may be there to read it.
    let _ = io::stdout().flush();
    std::process::exit(code);
}

fn run() -> i32 {
    let (cli, scripts) = args::parse();
    if let Some(Command::DemoData(args)) = &cli.command {
        return match lineitem::generate(args.scale, &args.out, &mut io::stdout()) {
            Ok(()) => 0,
            Err(error) => usage_or_failure(1, &format!("Error: cannot write the data: {error}")),
        };
    }
    let interrupts = match Interrupts::install() {
        Ok(interrupts) => interrupts,
        Err(error) => {
            return usage_or_failure(1, &format!("Error: cannot listen for signals: {error}"));
        }
    };
    let result = match &cli.command {
        Some(Command::Demo(args)) => demo::demo(args, &interrupts),
        _ => return shell(&cli.shell, &scripts, interrupts),
    };
    match result {
        Ok(()) => 0,
        Err(error) => report(&error),
    }
}

fn usage_or_failure(code: i32, message: &str) -> i32 {
    eprintln!("{message}");
    code
}

fn report(error: &RunError) -> i32 {
    match error {
        RunError::Closed | RunError::Quit(_) => {}
        RunError::Interrupted(_) => eprintln!("Interrupted"),
        RunError::Failed(message) | RunError::Command(message) => eprintln!("{message}"),
    }
    error.exit_code()
}

fn shell(args: &ShellArgs, scripts: &[Script], interrupts: Interrupts) -> i32 {
    if let Some(database) = args.database.as_deref().filter(|name| *name != ":memory:") {
        return usage_or_failure(
            2,
            &format!("Error: {database}: database files come later; leave DATABASE out or give :memory:"),
        );
    }
    let sink = match &args.output {
        None => Sink::stdout(),
        Some(path) => match Sink::file(path) {
            Ok(sink) => sink,
            Err(error) => {
                return usage_or_failure(2, &format!("Error: cannot write {}: {error}", path.display()));
            }
        },
    };
    let mut session = match Session::new(&args.limits, interrupts, sink) {
        Ok(session) => session,
        Err(error) => return usage_or_failure(2, &format!("Error [{}]: {error}", error.code())),
    };
    let is_typed = args.interactive || scripts.is_empty() && !args.batch && io::stdin().is_terminal();
    session.settings.interactive = is_typed;
    if let Err(error) = begin(&mut session, args, scripts, is_typed) {
        let _ = session.sink.flush();
        return report(&error);
    }
    match is_typed {
        true => interactive::run(&mut session),
        false => i32::from(session.has_failed),
    }
}

/// Runs what the command line asks for, before there is a prompt.
fn begin(session: &mut Session, args: &ShellArgs, scripts: &[Script], is_typed: bool) -> Result<(), RunError> {
    startup::run(session, args)?;
    args.cmd.iter().try_for_each(|text| script::run(session, text.as_bytes()))?;
    if scripts.is_empty() && !is_typed {
        script::run(session, io::stdin())?;
    }
    scripts.iter().try_for_each(|script| match script {
        Script::Text(text) => script::run(session, text.as_bytes()),
        Script::File(path) => script::file(session, path),
    })?;
    Ok(session.sink.flush()?)
}
