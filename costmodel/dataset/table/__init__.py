"""The table in memory and in files."""
