"""The whole platform on one machine: real services, no containers."""
