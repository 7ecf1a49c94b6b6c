"""Description of a published dataset: card, pictures, summaries, differences."""
