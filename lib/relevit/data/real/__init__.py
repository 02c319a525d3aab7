"""The papers' data sets as they come, read in fixed orders.

Nothing is downloaded, and no unknown pickle is opened. `catalogue` lists them all; `decoding` makes
batches of their pictures. It may import what `relevit.data` may, and `relevit.data` itself.
"""
