"""Small replicas in the true formats, for tests and for a rehearsal of the paper preset: the
papers' data sets, and weights as their authors publish them.

Pictures are drawn, not photographed; folders, files and names are those of the published archives.
"""
