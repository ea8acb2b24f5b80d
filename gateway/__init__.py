"""thinkgate's service: HTTP in, HTTP out. The only package that does I/O."""

__version__ = "0.1.0"
