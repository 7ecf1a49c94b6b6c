"""Tables of other programs: CSV and Parquet."""
