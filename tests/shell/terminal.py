#!/usr/bin/env python3
"""The shell in a terminal: prompt, keys, completion, colours, wide results, Ctrl-C, progress, pager.

Each test starts the binary in a pseudo-terminal of its own (`pexpect`) and looks at the screen that its output makes (`pyte`). It types, and then waits
until the screen shows what it should, however long that takes on a slow machine; nothing depends on time but the patience of `Terminal.wait`.

Not here: what statements answer, and what the shell does without a terminal (`crates/ogee-cli/tests`).
"""

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback

import pexpect
import pyte

PATIENCE = 120
PROMPT = "ogee>"
UP, RIGHT, LEFT, HOME, TAB, CTRL_C, CTRL_D = "\x1b[A", "\x1b[C", "\x1b[D", "\x1b[H", "\t", "\x03", "\x04"
# Never over.
ENDLESS = "SELECT count(*) FROM range(10000000) a(i), range(10000000) b(j) WHERE (i * 7 + j) % 11 = 3;"


class Terminal:
    """A shell and its screen."""

    def __init__(self, shell, home, rows=40, columns=100, arguments=(), **environment):
        self.screen = pyte.HistoryScreen(columns, rows, history=1000)
        self.stream = pyte.ByteStream(self.screen)
        known = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "PAGER", "OGEE_PAGER", "XDG_DATA_HOME")}
        settings = {"HOME": home, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **environment}
        self.child = pexpect.spawn(
            shell, ["--threads", "2", *arguments], cwd=home, env={**known, **settings}, dimensions=(rows, columns), timeout=PATIENCE
        )
        self.at_prompt()

    def read(self):
        try:
            self.stream.feed(self.child.read_nonblocking(1 << 16, timeout=0.05))
        except pexpect.TIMEOUT:
            pass

    def lines(self):
        return [line.rstrip() for line in self.screen.display]

    def text(self):
        return "\n".join(self.lines()).rstrip()

    def wait(self, holds, what):
        """Reads until `holds` of the screen."""
        until = time.monotonic() + PATIENCE
        while not holds(self):
            if time.monotonic() > until:
                raise AssertionError(f"{what}; the screen shows:\n{self.text()}")
            try:
                self.read()
            except pexpect.EOF:
                raise AssertionError(f"{what}; the shell has ended, and the screen shows:\n{self.text()}") from None

    def wait_for(self, text):
        self.wait(lambda terminal: text in terminal.text(), f"{text!r} is not shown")

    def box(self):
        """The lines of drawn tables."""
        return [line for line in self.lines() if line.startswith(("┌", "│", "├", "└"))]

    def line_of_cursor(self):
        return self.lines()[self.screen.cursor.y]

    def at_prompt(self, typed=""):
        """Waits for the prompt, with this behind it."""
        line = f"{PROMPT} {typed}".rstrip()
        self.wait(lambda terminal: terminal.line_of_cursor() == line, f"{line!r} is not the line of the cursor")

    def type(self, text):
        self.child.send(text)

    def run(self, statement, look=lambda: None):
        """Runs a statement and waits for the prompt behind its result; calls `look` whenever the screen may have changed."""
        before = self.prompts()

        def ended(terminal):
            look()
            return terminal.prompts() > before and terminal.line_of_cursor() == PROMPT

        self.type(statement + "\r")
        self.wait(ended, f"{statement} does not end")

    def prompts(self):
        """Prompts on the screen and above it."""
        above = sum(1 for line in self.screen.history.top if "".join(line[at].data for at in range(len(PROMPT))) == PROMPT)
        return above + sum(1 for line in self.lines() if line.startswith(PROMPT))

    def colour(self, text):
        """The colour of the first letter of `text` on the screen."""
        for number, line in enumerate(self.screen.display):
            if text in line:
                return self.screen.buffer[number][line.index(text)].fg
        raise AssertionError(f"{text!r} is not shown:\n{self.text()}")

    def resize(self, rows, columns):
        self.screen.resize(rows, columns)
        self.child.setwinsize(rows, columns)

    def end(self):
        """Waits for the end of the shell; gives its exit code."""
        until = time.monotonic() + PATIENCE
        while True:
            try:
                self.read()
            except pexpect.EOF:
                break
            assert time.monotonic() < until, f"the shell does not end:\n{self.text()}"
        self.child.close()
        return self.child.exitstatus


def expect(condition, terminal):
    assert condition, f"the screen shows:\n{terminal.text()}"


def wide(columns):
    return "SELECT " + ", ".join(f"{number} AS column_{number}" for number in range(columns)) + ";"


def the_prompt_runs_statements(shell, home):
    terminal = Terminal(shell, home)
    expect(terminal.lines()[0].startswith("ogee "), terminal)
    terminal.run("SELECT 1 AS a, 'x' AS b;")
    expected = [
        "ogee> SELECT 1 AS a, 'x' AS b;",
        "┌───────┬─────────┐",
        "│   a   │    b    │",
        "│ int64 │ varchar │",
        "├───────┼─────────┤",
        "│     1 │ x       │",
        "└───────┴─────────┘",
        "ogee>",
    ]
    at = terminal.lines().index(expected[0])
    expect([line.replace("int32", "int64") for line in terminal.lines()[at : at + 8]] == expected, terminal)
    terminal.run("SELECT nothing;")
    expect("Error [OGEE_" in terminal.text(), terminal)


def a_statement_has_several_lines(shell, home):
    terminal = Terminal(shell, home)
    terminal.type("SELECT 40 + 2\r")
    terminal.wait(lambda terminal: terminal.screen.cursor.x == 0, "there is no new line")
    terminal.type("AS answer\r")
    terminal.wait_for("AS answer")
    expect("int" not in terminal.text(), terminal)
    terminal.type(";\r")
    terminal.wait_for("│     42 │")
    terminal.at_prompt()
    # A command ends with its line, and quotes hold semicolons.
    terminal.run(".mode csv")
    terminal.type("SELECT 'a;\rb' AS t;\r")
    terminal.wait_for('"a;')
    terminal.wait_for('b"')
    terminal.at_prompt()


def statements_are_remembered(shell, home):
    terminal = Terminal(shell, home)
    terminal.run("SELECT 1 AS first;")
    terminal.run("SELECT 2 AS second;")
    terminal.type(UP)
    terminal.at_prompt("SELECT 2 AS second;")
    terminal.type(UP)
    terminal.at_prompt("SELECT 1 AS first;")
    terminal.type(CTRL_C)
    terminal.at_prompt()
    terminal.type("exit\r")
    assert terminal.end() == 0
    terminal = Terminal(shell, home)
    terminal.type(UP + UP)
    terminal.at_prompt("SELECT 2 AS second;")


def names_are_completed(shell, home):
    with open(os.path.join(home, "measurements.csv"), "w") as file:
        file.write("a\n1\n")
    terminal = Terminal(shell, home)
    terminal.run("CREATE TABLE shipments (shipped_on DATE, weight_of_all INTEGER);")
    for typed, completed in [
        ("SELE", "SELECT"),
        ("sele", "select"),
        ("SELECT * FROM shipm", "SELECT * FROM shipments"),
        ("SELECT weight_", "SELECT weight_of_all"),
        ("SELECT shipments.ship", "SELECT shipments.shipped_on"),
        ("SELECT date_tru", "SELECT date_trunc("),
        ("FROM 'meas", "FROM 'measurements.csv"),
        (".tim", ".timer"),
        (".mode duck", ".mode duckbox"),
        (".read meas", ".read measurements.csv"),
    ]:
        terminal.type(typed + TAB)
        terminal.at_prompt(completed)
        terminal.type(CTRL_C)
        terminal.at_prompt()
    # Several: all are listed, and what they share is completed.
    terminal.type(".ma" + TAB)
    terminal.wait(lambda terminal: ".maxrows" in terminal.text() and ".maxwidth" in terminal.text(), "not all are listed")
    terminal.at_prompt(".max")


def hints_come_from_history(shell, home):
    terminal = Terminal(shell, home)
    terminal.run("SELECT 42 AS the_answer;")
    terminal.type("SELECT 4")
    terminal.at_prompt("SELECT 42 AS the_answer;")
    expect(terminal.screen.cursor.x == len("ogee> SELECT 4"), terminal)
    line = terminal.screen.buffer[terminal.screen.cursor.y]
    expect(line[len("ogee> SELECT 42 AS")].fg != line[len("ogee> ")].fg, terminal)
    terminal.type(RIGHT)
    terminal.wait(lambda terminal: terminal.screen.cursor.x == len("ogee> SELECT 42 AS the_answer;"), "the hint is not taken")
    terminal.type("\r")
    terminal.wait(lambda terminal: terminal.text().count("│         42 │") == 2, "the hint does not run")


def colours_change_no_letter(shell, home):
    terminal = Terminal(shell, home, columns=50)
    text = "SELECT 'täxt', (1 + 23), \"n\" /* c */ FROM range(3)"
    terminal.type(text)
    # The line is longer than the terminal is wide.
    shown = f"{PROMPT} {text}"
    terminal.wait(lambda terminal: shown in "".join(terminal.screen.display), "the text is not shown")
    colours = {part: terminal.colour(part) for part in ["SELECT", "'täxt'", "23", "/* c */", "+"]}
    expect(colours["SELECT"] == "green" and colours["+"] == "default" and colours["'täxt'"] == colours["23"], terminal)
    expect(len(set(colours.values())) == 4, terminal)
    # A letter in the middle.
    terminal.type(LEFT * len(" FROM range(3)") + "!")
    shown = f"{PROMPT} {text[:-14]}!{text[-14:]}"
    terminal.wait(lambda terminal: shown in "".join(terminal.screen.display), "the letter is not shown")
    terminal.type("\x7f" + HOME + "EXPLAIN ")
    shown = f"{PROMPT} EXPLAIN {text}"
    terminal.wait(lambda terminal: shown in "".join(terminal.screen.display), "the word is not shown")


def wide_results_are_elided(shell, home):
    for columns in (60, 200):
        terminal = Terminal(shell, home, columns=columns, rows=60)
        terminal.run(wide(30))
        box = terminal.box()
        expect(len(box) == 6 and all(len(line) <= columns for line in box), terminal)
        expect("│ … │" in box[1] and "column_0 " in box[1] and "column_29" in box[1] and "int" in box[2], terminal)
        shown = box[1].count("column_")
        expect(f"1 row" in terminal.text() and f"30 columns ({shown} shown)" in terminal.text(), terminal)
        expect(3 <= shown <= 5 if columns == 60 else 12 <= shown <= 18, terminal)
        terminal.run(f"SELECT repeat('long ', 100) AS t, 7 AS n;")
        expect(any(line.startswith("│ long long") and line.endswith("│") and "… │" in line for line in terminal.lines()), terminal)
        terminal.type("exit\r")
        assert terminal.end() == 0


def long_results_show_their_ends(shell, home):
    terminal = Terminal(shell, home, rows=80)
    terminal.run("SELECT i FROM range(1000) r(i);")
    expect("│    19 │" in terminal.text() and "│   980 │" in terminal.text() and "│    ·  │" in terminal.text(), terminal)
    expect("1000 rows (40 shown)" in terminal.text(), terminal)


def the_size_may_change(shell, home):
    terminal = Terminal(shell, home, columns=200)
    terminal.run(wide(14))
    expect("column_7" in terminal.text().split(";", 1)[1], terminal)
    terminal.resize(40, 70)
    terminal.run(".print resized")
    terminal.run(wide(14))
    box = terminal.box()[-6:]
    expect(all(len(line) <= 70 for line in box) and "│ … │" in box[1], terminal)


def ctrl_c_forgets_what_was_typed(shell, home):
    terminal = Terminal(shell, home)
    terminal.type("SELECT 'never run'")
    terminal.at_prompt("SELECT 'never run'")
    terminal.type(CTRL_C)
    terminal.at_prompt()
    terminal.run("SELECT 5 AS five;")
    expect("│     5 │" in terminal.text() and "│ never run" not in terminal.text(), terminal)


def ctrl_c_ends_a_statement(shell, home):
    terminal = Terminal(shell, home)
    terminal.run("CREATE TABLE kept AS SELECT 7 AS n;")
    terminal.type(ENDLESS + "\r")
    terminal.wait_for("spilled")
    terminal.type(CTRL_C)
    terminal.wait_for("Interrupted")
    terminal.at_prompt()
    expect("spilled" not in terminal.text(), terminal)
    terminal.run("SELECT n FROM kept;")
    expect("│     7 │" in terminal.text(), terminal)
    terminal.type("exit\r")
    assert terminal.end() == 0


def watched(terminal, statement):
    """Whether progress was shown while a statement ran."""
    seen = []
    terminal.run(
        statement, lambda: seen.append(any(" rows" in line and "  memory " in line and line.endswith(" spilled") for line in terminal.lines()))
    )
    expect("spilled" not in terminal.text(), terminal)
    return any(seen)


def progress_is_shown_and_removed(shell, home):
    terminal = Terminal(shell, home, columns=120)
    # However fast the machine is, one of them takes more than a second, and on a slow one the first that does not many.
    for rows in (2_000 << times for times in range(16)):
        long = f"SELECT count(*) AS pairs FROM range({rows}) a(i), range(10000) b(j) WHERE (i * 7 + j) % 11 = 3;"
        is_shown = watched(terminal, long)
        expect(f"│ {rows * 909 + (rows + 8) // 11} │" in terminal.text(), terminal)
        if is_shown:
            break
    expect(is_shown, terminal)
    # A statement that makes no rows, too, and none where it is off.
    expect(watched(terminal, f"CREATE TABLE t AS {long}"), terminal)
    terminal.run(".progress off")
    expect(not watched(terminal, long), terminal)


def tall_results_go_to_the_pager(shell, home):
    terminal = Terminal(shell, home, rows=20, OGEE_PAGER="head -n 4; echo the pager was here")
    terminal.run(".mode csv")
    terminal.run("SELECT i AS n FROM range(12) r(i);")
    expect("the pager" not in terminal.text(), terminal)
    terminal.run(".pager on")
    # What fits is written as it is.
    terminal.run("SELECT i AS n FROM range(12) r(i);")
    expect("the pager" not in terminal.text(), terminal)
    # The pager leaves in the middle, and so the statement ends: quietly.
    terminal.run("SELECT i AS n FROM range(100000000000) r(i);")
    expect(terminal.lines()[terminal.screen.cursor.y - 5 : terminal.screen.cursor.y] == ["n", "0", "1", "2", "the pager was here"], terminal)
    terminal.run(".pager off")
    terminal.run("SELECT i AS n FROM range(30) r(i);")
    expect(terminal.lines()[terminal.screen.cursor.y - 1] == "29", terminal)
    if shutil.which("less"):
        terminal.run('.pager "less -SRX"')
        terminal.type("SELECT i AS n FROM range(500) r(i);\r")
        terminal.wait(lambda terminal: terminal.line_of_cursor() == ":", "less does not wait for a key")
        terminal.type(CTRL_C)
        terminal.type("G")
        terminal.wait(lambda terminal: "499" in terminal.lines(), "less does not go to the end")
        terminal.type("q")
        terminal.at_prompt()
        terminal.run("SELECT 8 AS eight;")
        expect(terminal.lines()[terminal.screen.cursor.y - 1] == "8", terminal)


def the_shell_is_left(shell, home):
    for typed, code in [("exit\r", 0), ("QUIT;\r", 0), (".quit\r", 0), (".exit 3\r", 3), (CTRL_D, 0)]:
        terminal = Terminal(shell, home)
        terminal.type(typed)
        assert terminal.end() == code, typed


def settings_come_from_a_file(shell, home):
    with open(os.path.join(home, ".ogeerc"), "w") as file:
        file.write(".mode csv\nCREATE TABLE prepared AS SELECT 1 AS a;\n.nonsense\n.mode json\n")
    terminal = Terminal(shell, home)
    expect(".ogeerc:3: Error: no command .nonsense" in terminal.text().replace("\n", ""), terminal)
    terminal.run("SELECT a FROM prepared;")
    expect(terminal.lines()[terminal.screen.cursor.y - 2 : terminal.screen.cursor.y] == ["a", "1"], terminal)
    terminal = Terminal(shell, home, arguments=["-no-init", "-readonly"])
    terminal.run("SELECT a FROM prepared;")
    expect("Error [OGEE_" in terminal.text(), terminal)
    terminal.run("CREATE TABLE t (a INTEGER);")
    expect("-readonly" in terminal.text(), terminal)


def another_command_has_the_terminal(shell, home):
    terminal = Terminal(shell, home)
    terminal.type(".shell echo started; cat\r")
    terminal.wait(lambda terminal: "started" in terminal.lines(), "the command does not start")
    terminal.type(CTRL_C)
    terminal.at_prompt()
    terminal.run("SELECT 6 AS six;")
    expect("│     6 │" in terminal.text(), terminal)


TESTS = [
    the_prompt_runs_statements,
    a_statement_has_several_lines,
    statements_are_remembered,
    names_are_completed,
    hints_come_from_history,
    colours_change_no_letter,
    wide_results_are_elided,
    long_results_show_their_ends,
    the_size_may_change,
    ctrl_c_forgets_what_was_typed,
    ctrl_c_ends_a_statement,
    progress_is_shown_and_removed,
    tall_results_go_to_the_pager,
    the_shell_is_left,
    settings_come_from_a_file,
    another_command_has_the_terminal,
]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shell", default="target/debug/ogee", help="the ogee binary")
    parser.add_argument("--only", default="", help="run the tests whose names contain this")
    arguments = parser.parse_args()
    shell = os.path.abspath(arguments.shell)
    failed = 0
    for test in TESTS:
        if arguments.only not in test.__name__:
            continue
        with tempfile.TemporaryDirectory() as home:
            try:
                test(shell, home)
                print(f"ok      {test.__name__}", flush=True)
            except Exception:
                failed += 1
                print(f"failed  {test.__name__}\n{traceback.format_exc()}", flush=True)
    print(f"{failed} failed" if failed else "all good")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
