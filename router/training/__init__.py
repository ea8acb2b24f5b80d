"""Training of the shipped head, with sentence-transformers. Needs the extra `train`; the service never imports it."""
