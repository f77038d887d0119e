"""The text of tokens: which tokenizer a run used, and a decoder of its ``tokenizer.json``."""
