"""Kafka, Debezium, a schema registry and Spark Structured Streaming as one Python product."""

__all__ = ["__version__"]

__version__ = "0.1.0"
