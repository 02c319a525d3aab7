"""Small replicas of the papers' data sets, in the true formats: for tests and for a rehearsal.

Pictures are drawn, not photographed; folders, files and names are those of the published archives.
"""
