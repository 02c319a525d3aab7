"""Text: BERT-type encoders, their documents and tests."""
