"""Changes out of databases: a declared capture becomes a Debezium connector on Kafka Connect."""

from penstock.cdc.capture import Capture, find_capture
from penstock.cdc.captures import Captures

__all__ = ["Capture", "Captures", "find_capture"]
