"""reads YAML into a fully validated Catalog; every problem with file, line and column"""

from holdtrue.catalog.aliases import table_aliases
from holdtrue.catalog.building import CONFIG, Examination, build_catalog, content_hash, examine, read_config
from holdtrue.catalog.computing import computed_columns, unsafe_columns
from holdtrue.catalog.definitions import definition_hash
from holdtrue.catalog.folder import examine_files, folder_of, is_catalog_file, load_catalog, read_texts
from holdtrue.catalog.nodes import TEXT_LIMIT
from holdtrue.catalog.packages import package_for
from holdtrue.catalog.rules import ended_waivers
from holdtrue.catalog.schema import json_schema
from holdtrue.catalog.secrets import missing_of, resolve_secret
from holdtrue.catalog.shapes import nearest
from holdtrue.catalog.sql import Inspection, SqlProblem, inspect_sql

__all__ = [
    "CONFIG",
    "TEXT_LIMIT",
    "Examination",
    "Inspection",
    "SqlProblem",
    "build_catalog",
    "computed_columns",
    "content_hash",
    "definition_hash",
    "ended_waivers",
    "examine",
    "examine_files",
    "folder_of",
    "inspect_sql",
    "is_catalog_file",
    "json_schema",
    "load_catalog",
    "missing_of",
    "nearest",
    "package_for",
    "read_config",
    "read_texts",
    "resolve_secret",
    "table_aliases",
    "unsafe_columns",
]
