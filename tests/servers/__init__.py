"""Real servers for tests, started from what the dependencies bring, on loopback, on free ports."""
