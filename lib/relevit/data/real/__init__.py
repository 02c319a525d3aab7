"""The papers' data sets as they come, read in fixed orders; nothing is downloaded and no unknown
pickle opened. `catalogue` lists them all; `decoding` makes batches of their pictures."""
