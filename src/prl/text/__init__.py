"""Text for people: durations and numbers, terminal escapes, masking of secrets. Imports nothing of this project."""
