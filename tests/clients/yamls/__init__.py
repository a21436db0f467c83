"""Job files as people write them: corpus.py."""
