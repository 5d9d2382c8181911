"""The environment in which peers run: made once in ``.cache/peers``, never in the developers' environment.

``GPUCF_PEERS_PYTHON`` may name a ready interpreter instead; nothing is installed in that one.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.harness import ROOT

RUN = ROOT / "bench" / "peers" / "run.py"
CACHE = ROOT / ".cache" / "peers"
PRODUCTS = ("oceanpy", "treecf")  # what pip calls them
OCEAN_PYTHON = (3, 12)  # the least that oceanpy takes


def ready() -> tuple[str, dict[str, str]]:
    """The interpreter, and by package of `PRODUCTS` why it could not be installed."""
    named = os.environ.get("GPUCF_PEERS_PYTHON")
    if named:
        if _python_version(named) is None:
            raise SystemExit(f"GPUCF_PEERS_PYTHON is {named!r}, which is no Python; name one, or unset the variable.")
        return named, {}
    stamp = CACHE / "environment.json"
    if not stamp.exists():
        CACHE.mkdir(parents=True, exist_ok=True)
        stamp.write_text(json.dumps(_make(CACHE / "venv")) + "\n")
    made = json.loads(stamp.read_text())
    return made["python"], made["failed"]


def _make(folder: Path) -> dict[str, object]:
    base = _newest_python()
    print(f"== making {folder} with {base} (once; delete {CACHE} to make it anew)", file=sys.stderr)
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([base, "-m", "venv", folder], check=True)
    python = str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")
    # Models go there and back in files of these libraries.
    same = {name: found for name in ("numpy", "scikit-learn", "xgboost-cpu", "xgboost") if (found := _installed(name))}
    same.setdefault("xgboost", same.get("xgboost-cpu", ""))
    constraints = CACHE / "same.txt"
    constraints.write_text("".join(f"{name}=={wanted}\n" for name, wanted in same.items() if wanted))
    failed = {}
    for product in PRODUCTS:
        if product == "oceanpy" and (_python_version(python) or (0, 0)) < OCEAN_PYTHON:
            failed[product] = f"it needs Python 3.12, and {base} is the newest here"
        elif reason := _install(python, constraints, product):
            failed[product] = reason
    # oceanpy brings its own OR-Tools and XGBoost; alone, a smaller XGBoost will do.
    wanted = [p for p in ("ortools", "scipy", "scikit-learn") if not _has(python, p)]
    wanted += [] if _has(python, "xgboost") else ["xgboost-cpu"]
    if wanted and (reason := _install(python, constraints, *wanted)):
        failed["ortools"] = reason
    return {"python": python, "failed": failed}


def _install(python: str, constraints: Path, *packages: str) -> str | None:
    """Why pip could not install them, in its last words; None if it could."""
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-c", str(constraints)]
    done = subprocess.run([*command, *packages], capture_output=True, text=True)
    if done.returncode == 0:
        return None
    errors = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
    return f"pip install {' '.join(packages)}: {errors[-1] if errors else done.stderr.strip()[-200:]}"


def _has(python: str, distribution: str) -> bool:
    code = f"import importlib.metadata as m; m.version({distribution!r})"
    return subprocess.run([python, "-c", code], capture_output=True).returncode == 0


def _newest_python() -> str:
    home = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    names = [sys.executable, "python3.14", "python3.13", "python3.12", *map(str, sorted(home.glob("3.1*/bin/python")))]
    found = [(v, name) for name in names if (v := _python_version(name))]
    # The packages' wheels come latest for the newest Python: the oldest that oceanpy takes is the safest.
    fitting = sorted(pair for pair in found if pair[0] >= OCEAN_PYTHON)
    return fitting[0][1] if fitting else max(found)[1]


def _python_version(name: str) -> tuple[int, int] | None:
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    try:
        done = subprocess.run([name, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
