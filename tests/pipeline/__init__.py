"""The tests of the pipeline; a package, so that they can share modules."""
