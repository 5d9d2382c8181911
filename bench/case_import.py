"""How long `import gpucf` takes in a fresh process, beside an empty process and beside numpy alone."""

from __future__ import annotations

from bench.harness import Rows, case, fresh_python, repeat


@case("import", "seconds of a fresh process that imports gpucf, and of its baselines")
def import_gpucf() -> Rows:
    for what in ["pass", "import numpy", "import gpucf", "import gpucf; gpucf.load_model"]:
        yield {"what": what, **repeat(lambda code=what: fresh_python(code), times=7)}
