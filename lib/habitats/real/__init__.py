"""The papers' data sets as they come, read in fixed orders.

Nothing is downloaded, and no pickle is run. `catalogue` lists them all and reads them.
"""
