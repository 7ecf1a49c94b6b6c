"""A plan: a graph before and after what-if transforms, as tables, pictures, a trace and a page."""
