//! The ogee shell: SQL from the command line, a file, standard input or a prompt; results as tables, CSV, JSON or Markdown.
//!
//! Exit codes: 0 good, 1 a statement failed, 2 wrong usage, 128 + n ended by signal n.
//!
//! Not here: SQL. The shell reads, hands over and prints.

mod allocator;
mod args;
mod commands;
mod demo;
mod interactive;
mod lineitem;
mod output;
mod session;
mod signals;
mod splitter;

use std::io::{self, IsTerminal, Write};

use args::{Command, Script, ShellArgs};
use output::Sink;
use session::{RunError, Session};
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
        RunError::Closed | RunError::Quit => {}
        RunError::Interrupted(_) => eprintln!("Interrupted"),
        RunError::Failed(message) => eprintln!("{message}"),
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
    let mut session = match Session::new(args, interrupts, sink) {
        Ok(session) => session,
        Err(error) => return usage_or_failure(2, &format!("Error [{}]: {error}", error.code())),
    };
    if scripts.is_empty() && io::stdin().is_terminal() {
        return interactive::run(&mut session);
    }
    let result = if scripts.is_empty() {
        session.script(io::stdin())
    } else {
        scripts.iter().try_for_each(|script| match script {
            Script::Text(text) => session.script(text.as_bytes()),
            Script::File(path) => session.script_file(path),
        })
    };
    let flushed = session.sink.flush().map_err(RunError::from);
    match result.and(flushed) {
        Ok(()) => 0,
        Err(error) => report(&error),
    }
}
