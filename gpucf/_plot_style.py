"""How all pictures look: colours that everybody can tell apart, sizes for notebooks."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from gpucf._errors import OptionError

# Okabe and Ito's colours, told apart with any kind of colour blindness, dark ones first.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8C6D31")
# With each colour a pattern of its own, so that print in grey can be read too.
LINES: tuple[Any, ...] = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2)))
REFUSED, ACCEPTED = "#F7D9B8", "#BBD9EE"
STYLE: Any = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica", "sans-serif"],
    "font.size": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "legend.frameon": False,
    "legend.fontsize": 8.5,
}


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def new_figure(width: float, height: float) -> tuple[Any, Any]:
    """A figure that no window system and no global state knows, and its axes."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise OptionError("pictures need matplotlib: pip install 'gpucf[plot]'.") from error
    from matplotlib import rc_context

    with rc_context(STYLE):
        figure = Figure(figsize=(width, height), dpi=120, layout="constrained")
        FigureCanvasAgg(figure)
        return figure, figure.add_subplot()
