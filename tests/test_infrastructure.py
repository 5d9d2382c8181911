"""What is shipped and how it is set up: the wheel, the import, the pinned versions, the messages of ./run."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path, PurePosixPath

import pytest

import gpucf

ROOT = Path(__file__).parents[1]
HEAVY = ["numba", "llvmlite", "numpy", "pandas", "polars", "pyarrow", "sklearn", "xgboost", "lightgbm", "catboost",
         "matplotlib", "cupy", "dask", "rich"]  # fmt: skip


@pytest.fixture(scope="module")
def wheel():
    """Name -> bytes of the files in the wheel that `./run test` built."""
    if "GPUCF_WHEEL" not in os.environ:
        pytest.skip("no wheel was built; `./run test` builds and names one")
    with zipfile.ZipFile(os.environ["GPUCF_WHEEL"]) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def run_python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=True, **options).stdout


def sources(folder):
    return [p for p in (ROOT / folder).rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def test_the_tests_import_the_wheel(wheel):
    assert ROOT / "gpucf" not in Path(gpucf.__file__).parents
    found = run_python("-c", "import gpucf; print(gpucf.__file__)", cwd=ROOT).strip()
    assert found == gpucf.__file__


def test_the_wheel_holds_the_whole_package_and_the_kernels(wheel):
    expected = {p.relative_to(ROOT).as_posix() for p in sources("gpucf")}
    expected |= {"gpucf/_kernels/" + p.relative_to(ROOT / "kernels").as_posix() for p in sources("kernels")}
    package = {name for name in wheel if name.startswith("gpucf/")}
    assert package == {name for name in expected if "compas" not in name.lower()}
    assert {"gpucf/py.typed", "gpucf/_kernels/README.md"} <= package


def test_the_wheel_holds_nothing_else(wheel):
    tops = {PurePosixPath(name).parts[0] for name in wheel}
    assert tops == {"gpucf", f"gpucf-{gpucf.__version__}.dist-info"}
    assert any(name.endswith("licenses/LICENSE") for name in wheel)


def test_compas_is_not_in_the_wheel(wheel):
    for name, content in wheel.items():
        assert "compas" not in name.lower()
        if not name.endswith((".py", ".md", "METADATA")):  # prose may speak of it
            assert b"compas" not in content.lower(), name
            assert not (b"PriorsCount" in content and b"ChargeDegree" in content), name


def test_version_is_that_of_the_metadata(wheel):
    assert importlib.metadata.version("gpucf") == gpucf.__version__


def test_the_changelog_knows_the_version():
    headings = re.findall(r"^## \[([\w.]+)\]", (ROOT / "CHANGELOG.md").read_text(), flags=re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert headings[1:2] in ([], [gpucf.__version__])  # nothing is released yet


def test_import_loads_no_dependency():
    code = f"import sys, json, gpucf; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert json.loads(run_python("-c", code)) == []


def test_every_public_name_can_be_had_and_is_listed():
    assert sorted(gpucf.__all__) == dir(gpucf)
    for name in gpucf.__all__:
        assert getattr(gpucf, name) is not None
    with pytest.raises(AttributeError, match="no_such_name"):
        gpucf.no_such_name  # noqa: B018


def pins(file):
    return dict(re.findall(r"^([\w.-]+)==([\w.]+)", (ROOT / file).read_text(), flags=re.MULTILINE))


def test_the_demo_needs_a_part_of_what_developers_need():
    demo, dev = pins("requirements-demo.txt"), pins("requirements-dev.txt")
    assert demo.items() < dev.items()


def test_every_core_dependency_is_pinned_and_none_is_for_gpus():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    core = {re.match(r"[\w-]+", d)[0] for d in project["dependencies"]}
    assert core == {"numba", "numpy", "pyarrow", "pyyaml", "rich"}
    assert core <= pins("requirements-demo.txt").keys()
    everything = (ROOT / "requirements-dev.txt").read_text()
    assert not re.search(r"^(nvidia|cupy|cudf|cuda|numba-cuda|rmm)", everything, flags=re.MULTILINE)


@pytest.fixture
def fresh_run(tmp_path):
    """`./run` in a folder of its own, under a Python that answers only what the test lets it answer."""

    def call(*arguments, python=None):
        for name in ["run", "requirements-demo.txt", "requirements-dev.txt"]:
            shutil.copy(ROOT / name, tmp_path)
        env = {"PATH": os.environ["PATH"]}
        if python is not None:
            fake = tmp_path / "fake-python"
            fake.write_text("#!/bin/sh\n" + python)
            fake.chmod(0o755)
            env["GPUCF_PYTHON"] = str(fake)
        return subprocess.run([tmp_path / "run", *arguments], capture_output=True, text=True, env=env)

    return call


def test_run_without_a_command_says_what_there_is(fresh_run):
    done = fresh_run()
    assert done.returncode == 0
    for command in ["demo", "test", "test deep", "lint", "bench", "wheel"]:
        assert f"\n  {command} " in done.stdout


def test_run_refuses_an_unknown_command(fresh_run):
    done = fresh_run("tset")
    assert done.returncode != 0
    assert "no command 'tset'" in done.stderr


def test_run_refuses_an_old_python(fresh_run):
    done = fresh_run("demo", python='case "$2" in *version_info*) exit 1;; *) echo Python 3.9.2;; esac\n')
    assert done.returncode != 0
    assert "Python 3.9.2" in done.stderr
    assert "needs Python 3.11" in done.stderr


def test_run_says_how_to_get_venv(fresh_run):
    done = fresh_run("demo", python='case "$2" in *ensurepip*) exit 1;; esac\n')
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr


@pytest.fixture
def run_with_browser_test(tmp_path):
    """Run a test that needs a browser, where there is none, under this folder's conftest."""
    (tmp_path / "tests").mkdir()
    for name in ["pyproject.toml", "tests/conftest.py", "tests/sizes.py"]:
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "tests/test_it.py").write_text(
        "import pytest\n@pytest.mark.browser\ndef test_a(): assert False\ndef test_b(): pass\n"
    )

    def call(*arguments, **env):
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *arguments]
        env = {"PATH": str(tmp_path), **env}
        return subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=env)

    return call


def test_a_skipped_browser_test_is_counted_and_can_be_forbidden(run_with_browser_test):
    done = run_with_browser_test("-n", "1", GPUCF_REQUIRE="gpu")
    assert done.returncode == 0, done.stdout
    assert "gpu 0, compiler 0, browser 1" in done.stdout
    assert "apt-get install chromium" in done.stdout
    done = run_with_browser_test("-n", "1", GPUCF_REQUIRE="gpu,browser")
    assert done.returncode == 1
    assert "GPUCF_REQUIRE: 1 browser test(s) skipped" in done.stdout
    assert "1 passed, 1 skipped" in done.stdout.splitlines()[-1]


def test_a_misspelt_requirement_is_refused(run_with_browser_test):
    done = run_with_browser_test(GPUCF_REQUIRE="browsers")
    assert done.returncode != 0
    assert "browsers" in done.stderr


def test_benchmarks_write_raw_files_with_the_machine(tmp_path, monkeypatch):
    spec = importlib.util.spec_from_file_location("bench_harness", ROOT / "bench" / "harness.py")
    harness = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "bench_harness", harness)
    spec.loader.exec_module(harness)
    monkeypatch.setattr(harness, "RESULTS", tmp_path)

    @harness.case("mine", "an example")
    def mine():
        yield {"what": "nothing", **harness.repeat(lambda: None, times=3)}

    with pytest.raises(ValueError, match="mine"):
        harness.case("mine", "again")(mine)
    path = harness.write("mine", list(mine()), harness.machine(), label="here")
    content = json.loads(path.read_text())
    assert path.name == "mine.here.json"
    assert len(content["rows"][0]["times_s"]) == 3
    assert content["machine"]["packages"]["numba"] in harness.machine_line(content["machine"])
    assert content["machine"]["cores"] >= 1


def test_a_cache_is_of_the_text_of_all_that_a_module_imports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from gpucf import _jit

    def digests() -> list[str]:
        _jit.source_digest.cache_clear()
        _jit._text_and_imports.cache_clear()
        return [_jit.source_digest(tmp_path / name) for name in ("kernel.py", "other.py")]

    monkeypatch.setattr(_jit, "_PACKAGE", tmp_path)
    (tmp_path / "deep").mkdir()
    texts = {
        "kernel.py": "import numpy\nif True:\n    from gpucf.keys import (\n        a,\n    )\n",
        "keys.py": "from gpucf import deep, cells\n",
        "deep/__init__.py": "from gpucf.deep.end import b\n",
        "deep/end.py": "from gpucf.kernel import c\n",
        "cells.py": "",
        "other.py": "from numpy import array\n",
    }
    try:
        for name, text in texts.items():
            (tmp_path / name).write_text(text)
        kernel, other = digests()
        for name in texts.keys() - {"other.py"}:
            (tmp_path / name).write_text(texts[name] + "d = 1\n")
            assert digests()[0] != kernel, name
            assert digests()[1] == other
            (tmp_path / name).write_text(texts[name])
        assert digests() == [kernel, other]
    finally:
        _jit.source_digest.cache_clear()
        _jit._text_and_imports.cache_clear()


def test_a_cache_of_another_text_is_not_opened() -> None:
    """Its index may name classes that are gone, so that unpickling it would raise."""
    import pickle

    from gpucf._jit import _Cache
    from gpucf._keys import best_code

    cache_file = _Cache(best_code.py_func)._cache_file
    path = Path(cache_file._index_path)
    kept = path.read_bytes() if path.exists() else None
    path.parent.mkdir(parents=True, exist_ok=True)
    try:
        version, digest = cache_file._version
        for other in (version, (version, "0" * len(digest))):
            path.write_bytes(pickle.dumps(other) + b"cgpucf._gone\nGone\n.")
            assert cache_file._load_index() == {}
        path.write_bytes(pickle.dumps((version, digest)) + b"cgpucf._gone\nGone\n.")
        with pytest.raises(ModuleNotFoundError):  # what the version keeps from happening
            cache_file._load_index()
    finally:
        path.unlink()
        if kept is not None:
            path.write_bytes(kept)
