"""Schemas: a registry's client, compatibility, contracts, and a producer that keeps both."""

from penstock.registry.client import Registry
from penstock.registry.contract import Contract, Rule
from penstock.registry.producer import SchemaProducer
from penstock.registry.schema import Reference, Registered, Schema, read_schema

__all__ = ["Contract", "Reference", "Registered", "Registry", "Rule", "Schema", "SchemaProducer", "read_schema"]
