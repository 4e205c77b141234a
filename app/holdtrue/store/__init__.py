"""our own database: tables (private), reads and writes that speak model types, migrations"""
