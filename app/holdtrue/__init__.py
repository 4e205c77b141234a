"""Production invariant monitoring: rules as SQL, asked of read replicas, alerted on, and turned into tests."""

__version__ = "0.1.0"
