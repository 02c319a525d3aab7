"""Pictures, and one widget. Every function returns a matplotlib figure and shows nothing."""
