"""Plans over one or several quantities of a hypothetical device."""
