"""Captures against a real PostgreSQL, Kafka Connect and Debezium."""
