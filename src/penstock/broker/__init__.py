"""Kafka and nothing above it."""

from penstock.broker.consumer import Consumer
from penstock.broker.partitions import java_partition, murmur2, partition_by
from penstock.broker.producer import Producer, TransactionalProducer
from penstock.broker.record import Record
from penstock.broker.replay import EARLIEST, LATEST, Start, fold, read
from penstock.broker.topics import Topics

__all__ = [
    "EARLIEST",
    "LATEST",
    "Consumer",
    "Producer",
    "Record",
    "Start",
    "Topics",
    "TransactionalProducer",
    "fold",
    "java_partition",
    "murmur2",
    "partition_by",
    "read",
]
