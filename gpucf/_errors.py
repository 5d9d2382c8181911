"""The errors that gpucf raises on purpose; each says what was wrong, what was seen, and what to do."""

from __future__ import annotations


class GpucfError(ValueError):
    """Base of every error that gpucf raises about its input."""


class ModelError(GpucfError):
    """The model cannot be read, or cannot be read exactly."""

    @classmethod
    def unsupported(cls, what: str, why: str) -> ModelError:
        return cls(f"{what} is not supported: {why}")

    @classmethod
    def damaged(cls, source: str, why: str) -> ModelError:
        return cls(f"{source} is damaged or not a valid model: {why}")


class TableError(GpucfError):
    """The rows do not fit the engine."""


class OptionError(GpucfError):
    """A keyword, a name or a number given by the caller cannot be used."""

    @classmethod
    def unknown_names(cls, option: str, names: list[str], known: list[str]) -> OptionError:
        shown = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
        return cls(f"{option} names {', '.join(map(repr, names))}, which the model does not have; it has {shown}.")


class MapTooLargeError(GpucfError):
    """The region map of this model does not fit the budget."""

    def __init__(self, message: str, n_regions: int = 0, share_done: float = 0.0) -> None:
        super().__init__(message)
        self.n_regions = n_regions
        self.share_done = share_done


class ModelTooLargeError(GpucfError):
    """The tables of this model do not fit the memory that is set aside for them."""


class FileFormatError(GpucfError):
    """A file is damaged, foreign, or of another version."""


class VerificationError(RuntimeError):
    """An answer failed the re-check against the user's own model: a fault of gpucf, please report it."""
