"""The examples in docs/*.md do what they say: each fenced `python` block with prompts, in order, in one namespace."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted((ROOT / "docs").glob("*.md"))
_BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples(page: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = page.read_text(encoding="utf-8")
    # Everything but the blocks becomes blank lines, so that line numbers in messages are those of the page.
    code, at = [], 0
    for block in _BLOCK.finditer(text):
        code.append("\n" * text.count("\n", at, block.start(1)) + block[1])
        at = block.end(1)
    examples = doctest.DocTestParser().get_doctest("".join(code), {}, page.name, str(page), 0)
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    assert doctest.DocTestRunner(optionflags=flags).run(examples).failed == 0
