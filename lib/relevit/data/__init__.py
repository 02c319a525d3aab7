"""Images with masks: the embedded benchmark."""
