"""words of SQL: what begins a statement, which functions write, which return many rows"""

from __future__ import annotations

from typing import Final

SELECTS: Final = frozenset({"select", "with", "values", "table"})

_STATEMENTS = """
alter analyze attach begin call checkpoint close cluster comment commit copy create deallocate declare delete
describe detach discard do drop execute explain fetch flush grant handler import insert install kill listen
load lock merge notify optimize pragma prepare refresh reindex release rename replace reset revoke rollback
savepoint security set show start truncate uninstall unlisten update use vacuum
"""
STATEMENTS: Final = frozenset(_STATEMENTS.split())

_WRITING_FUNCTIONS = """
dblink dblink_connect dblink_exec edit get_lock lo_creat lo_create lo_export lo_from_bytea lo_import lo_put
lo_unlink load_extension lowrite nextval pg_advisory_lock pg_advisory_lock_shared pg_advisory_unlock
pg_advisory_unlock_all pg_advisory_xact_lock pg_cancel_backend pg_create_logical_replication_slot
pg_create_restore_point pg_current_xact_id pg_drop_replication_slot pg_file_write pg_import_system_collations
pg_logical_emit_message pg_notify pg_promote pg_reload_conf pg_replication_slot_advance pg_rotate_logfile
pg_stat_reset pg_stat_statements_reset pg_switch_wal pg_terminate_backend pg_try_advisory_lock
pg_try_advisory_xact_lock pg_wal_replay_pause pg_wal_replay_resume release_lock set_config setval txid_current
writefile
"""
WRITING_FUNCTIONS: Final = frozenset(_WRITING_FUNCTIONS.split())

_SET_RETURNING = """
exploding_generate_series explodinggenerateseries generate_series generate_subscripts json_array_elements
json_array_elements_text json_each json_object_keys json_to_recordset jsonb_array_elements
jsonb_array_elements_text jsonb_each jsonb_each_text jsonb_object_keys jsonb_path_query jsonb_to_recordset
regexp_matches regexp_split_to_table string_to_table unnest
"""
SET_RETURNING: Final = frozenset(_SET_RETURNING.split())
