"""The console lines of a run: how this project writes them (``console``) and how anybody's are read."""
