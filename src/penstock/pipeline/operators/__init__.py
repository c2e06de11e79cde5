"""What Spark lacks over streams, as plain functions from DataFrame to DataFrame, one per file."""
