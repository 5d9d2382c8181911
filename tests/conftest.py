"""What all tests share: sizes, seeds, the numba cache, and an honest count of what was skipped."""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

# Before anything imports numba or a model library. The cache is shared by the workers and kept between runs.
os.environ.setdefault("NUMBA_CACHE_DIR", str(Path(__file__).parents[1] / ".cache" / "numba"))
# Two workers on two cores: threads inside the model libraries would only wait for each other.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import hypothesis
import pytest
import sizes

# Derandomised: the same examples in each run, so that a failure is never a matter of luck.
_common = {"derandomize": True, "deadline": None, "print_blob": True}
hypothesis.settings.register_profile("default", max_examples=30, **_common)
hypothesis.settings.register_profile("deep", max_examples=300, **_common)
hypothesis.settings.load_profile("deep" if sizes.DEEP else "default")


def _no_gpu() -> str | None:
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "no CUDA driver"
    n = ctypes.c_int(0)
    # Initialising the driver here would make a later fork unsafe; only GPU tests ask, and they run in this process.
    if cuda.cuInit(0) != 0 or cuda.cuDeviceGetCount(ctypes.byref(n)) != 0 or n.value == 0:
        return "no CUDA device"
    return None


def _no_compiler() -> str | None:
    return None if shutil.which("g++") else "no g++ (Debian, Ubuntu: apt-get install g++)"


def _no_browser() -> str | None:
    return None if shutil.which("chromium") else "no chromium (Debian, Ubuntu: apt-get install chromium)"


# Marker -> why the tests that carry it cannot run here, or None.
NEEDS: dict[str, Callable[[], str | None]] = {"gpu": _no_gpu, "compiler": _no_compiler, "browser": _no_browser}
REQUIRED = {name for name in os.environ.get("GPUCF_REQUIRE", "").split(",") if name}


def pytest_configure() -> None:
    if unknown := REQUIRED - NEEDS.keys():
        raise pytest.UsageError(f"GPUCF_REQUIRE names {sorted(unknown)}; it knows {sorted(NEEDS)}.")


@pytest.fixture(scope="session")
def deep() -> bool:
    """Whether this is a deep run (GPUCF_DEEP=1); modules import `sizes.DEEP` and `sizes.count` instead."""
    return sizes.DEEP


@pytest.fixture(scope="session")
def count() -> Callable[[int], int]:
    """`sizes.count` as a fixture."""
    return sizes.count


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, missing in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        reason = missing() if marked else None
        if reason is not None:
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"{marker}: {reason}"))


def _skipped(reporter: pytest.TerminalReporter) -> Iterator[tuple[str, int]]:
    for marker in NEEDS:
        yield marker, sum(marker in report.keywords for report in reporter.stats.get("skipped", []))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    counts = ", ".join(f"{marker} {n}" for marker, n in _skipped(terminalreporter))
    terminalreporter.write_line(f"skipped because the machine lacks something: {counts}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """GPUCF_REQUIRE=gpu,compiler makes a run fail in which such a test was skipped: it would prove nothing."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if reporter is None:  # a worker of pytest-xdist; the controller counts
        return
    lacking = [f"{n} {marker}" for marker, n in _skipped(reporter) if n and marker in REQUIRED]
    if lacking:
        reporter.write_line(f"\nGPUCF_REQUIRE: {', '.join(lacking)} test(s) skipped; the run fails.", red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
