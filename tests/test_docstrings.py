"""The examples in the docstrings do what they say."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import gpucf

MODULES = sorted(m.name for m in pkgutil.walk_packages(gpucf.__path__, "gpucf.") if m.name != "gpucf.__main__")


@pytest.mark.parametrize("name", ["gpucf", *MODULES])
def test_examples(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(name)
    failed, _ = doctest.testmod(module, optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)
    assert failed == 0
