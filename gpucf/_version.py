"""The version, in this one place: the wheel's metadata is read from here."""

__version__ = "0.1.0"
