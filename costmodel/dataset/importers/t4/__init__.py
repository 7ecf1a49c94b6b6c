"""T4 files, in the format that the auto-tuning community agreed on."""
