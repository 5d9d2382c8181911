"""The session shown in README does what it shows."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from gpucf._cli import main

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")


def session() -> tuple[list[tuple[str, str]], str]:
    """Commands with what they print, and the lines typed into Python, of the indented block that begins with both."""
    blocks = re.findall(r"^    \$ gpucf demo\n(?:    .*\n)+", README, re.MULTILINE)
    assert len(blocks) == 1
    block = re.sub(r"^    ", "", blocks[0], flags=re.MULTILINE).replace("\\\n", " ")
    shell, _, python = block.partition("$ python\n")
    commands = [part.partition("\n")[::2] for part in shell.split("$ ")[1:]]
    return commands, python


def steady(text: str) -> str:
    """Without times, versions, and the word to be patient while code is compiled."""
    text = re.sub(r"gpucf: still preparing.*\n", "", text)
    return re.sub(r" in [0-9.]+ s;|(?<=xgboost )[0-9.]+", "...", text)


def test_the_session_in_the_readme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    commands, python = session()
    for command, shown in commands:
        program, *arguments = shlex.split(command)
        if program == "cd":
            monkeypatch.chdir(tmp_path / arguments[0])
            continue
        assert program == "gpucf" and main(arguments) == 0, command
        printed = capsys.readouterr()
        if shown:
            assert steady(printed.err + printed.out) == steady(shown)
    assert len(commands) == 3
    examples = doctest.DocTestParser().get_doctest(python, {}, "README", None, 0)
    assert len(examples.examples) == 6
    assert doctest.DocTestRunner().run(examples).failed == 0
