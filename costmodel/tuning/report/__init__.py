"""What a search shows: sentences, tables, pictures, a page, tracked items."""
