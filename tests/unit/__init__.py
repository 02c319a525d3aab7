"""The unit tests; a package, so that they can share modules."""
