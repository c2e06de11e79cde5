"""One outside system per file, source and sink together."""
