"""What importers are made of: an open file, its entries, where they were measured, what is kept of them."""
