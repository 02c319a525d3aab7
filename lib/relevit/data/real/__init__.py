"""The papers' data sets as they come, one reader each; nothing is downloaded."""
