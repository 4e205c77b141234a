"""decides what is to be said of a MariaDB or MySQL replica and what its login may do (pure)"""

from __future__ import annotations

from datetime import timedelta

from holdtrue.databases import MysqlFacts, Told
from holdtrue.inspection.findings import Finding, fine, of_clocks, of_link, of_untold, some, warning
from holdtrue.model import DatabaseConfig, Freshness, show_duration

_READING = frozenset(
    {
        "USAGE",
        "SELECT",
        "SHOW VIEW",
        "SHOW DATABASES",
        "PROCESS",
        "REPLICATION CLIENT",
        "BINLOG MONITOR",
        "SLAVE MONITOR",
    }
) | {"REPLICA MONITOR", "SHOW CREATE ROUTINE", "REPLICATION SLAVE", "REPLICATION REPLICA"}
_WRITING = frozenset(
    {"ALL", "ALL PRIVILEGES", "INSERT", "UPDATE", "DELETE", "CREATE", "DROP", "ALTER", "INDEX", "TRIGGER", "EVENT"}
) | {
    "REFERENCES",
    "LOCK TABLES",
    "CREATE VIEW",
    "CREATE ROUTINE",
    "ALTER ROUTINE",
    "CREATE TEMPORARY TABLES",
    "DELETE HISTORY",
}
_FILES = frozenset({"FILE", "ALL PRIVILEGES", "ALL"})
_USUAL_SILENCE = timedelta(seconds=60)
_OWN_LOGIN = (
    "give Holdtrue a login of its own that has SELECT and the right to see the replica's status, and nothing else"
)
_UNENCRYPTED = "write ssl_mode=verify_identity&ssl_ca=… in the URL, and let the server offer TLS"
_UNVERIFIED = "write ssl_mode=verify_identity&ssl_ca=… in the URL"


def of_mysql(told: Told, facts: MysqlFacts, config: DatabaseConfig) -> list[Finding]:
    """Versions, rights, freshness's blind spots, positions, clock and link."""
    offered = "10.3" if facts.flavour == "MariaDB" else "5.7.8"
    return [
        fine("versions", f"{facts.flavour} {facts.version} through {facts.link.driver}: offered ({offered} and newer)"),
        *_of_freshness(told, facts, config),
        *_of_positions(facts),
        *_of_rights(facts),
        *of_clocks(facts.clocks),
        *of_link(facts.link, _UNENCRYPTED, _UNVERIFIED),
        *_of_tables(facts),
        *of_untold(told, facts.missing),
    ]


def _of_freshness(told: Told, facts: MysqlFacts, config: DatabaseConfig) -> list[Finding]:
    found = []
    if not facts.status_visible:
        right = "SLAVE MONITOR" if facts.flavour == "MariaDB" else "REPLICATION CLIENT"
        said = "the login may not see the replica's status: a stopped replica cannot be told from a living one"
        found.append(warning("status_hidden", said, f"GRANT {right} ON *.* TO {facts.login}"))
    if told.position is None or told.position.role != "standby":
        return found
    if config.freshness is Freshness.STREAMING and facts.silence > max(_USUAL_SILENCE, config.max_lag):
        said = f"a link that died silently is noticed after {show_duration(facts.silence)} only (slave_net_timeout)"
        found.append(warning("slow_to_notice", said, "slave_net_timeout = 60 on the replica"))
    if not facts.read_only:
        said = "this replica may be written to (read_only is off): what it holds need not be what the primary holds"
        found.append(warning("writable_replica", said, "read_only = ON on the replica"))
    if config.freshness is Freshness.STREAMING:
        found.append(
            fine(
                "sender",
                "what is proven is the link to its source; a replica further up that is cut off does not show, and a link that"
                f" falls silent shows after {show_duration(facts.silence)} (slave_net_timeout)",
            )
        )
    return found


def _of_positions(facts: MysqlFacts) -> list[Finding]:
    found = []
    if not facts.gtid:
        said = "there is no GTID position: runs may go back in time unnoticed"
        found.append(warning("no_gtid", said, "replicate by GTID"))
    else:
        domain = f", domain {facts.gtid_domain}" if facts.gtid_domain else ""
        found.append(fine("gtid", f"a GTID position is kept{domain}: runs never go back"))
        if facts.gtid_domain == "0":
            said = "gtid_domain_id is 0, as it is everywhere by default: another family of servers cannot be told by it"
            found.append(fine("gtid_domain", said, "give each family of servers a gtid_domain_id of its own"))
    if facts.binlog and facts.binlog.upper() != "ROW":
        said = f"changes are written as {facts.binlog}, not as rows: a replica may come to other rows than its primary"
        found.append(warning("not_row_format", said, "binlog_format = ROW, on the primary first"))
    elif facts.binlog:
        found.append(fine("row_format", "changes are written as rows (binlog_format)"))
    return found


def _of_rights(facts: MysqlFacts) -> list[Finding]:
    found = []
    writing = sorted(facts.rights & _WRITING)
    if writing:
        said = (
            f"the login may write: {', '.join(writing)}; only the read-only session and the inspection of texts stop it"
        )
        found.append(warning("can_write", said, _OWN_LOGIN))
    if facts.rights & _FILES:
        said = "the login has FILE: a query reads the server's files (LOAD_FILE), and writes some if inspection were passed"
        found.append(warning("files", said, f"REVOKE FILE ON *.* FROM {facts.login}"))
    if "EXECUTE" in facts.rights:
        said = "the login has EXECUTE: a function does what its owner may"
        found.append(warning("dangerous_functions", said, f"REVOKE EXECUTE … FROM {facts.login}"))
    others = sorted(facts.rights - _READING - _WRITING - _FILES - {"EXECUTE"})
    if others:
        said = f"the login has rights that no reader needs: {', '.join(others)}"
        found.append(warning("administrates", said, _OWN_LOGIN))
    if not found and facts.roles:
        said = f"the login has roles ({', '.join(facts.roles)}), whose rights were not looked at"
        found.append(warning("roles", said, "grant what is needed to the login itself"))
    if not found and not facts.missing:
        found.append(fine("reads_only", f"the login {facts.login} can only read"))
    return found


def _of_tables(facts: MysqlFacts) -> list[Finding]:
    found = []
    if facts.other_engines.number:
        said = (
            f"{some(facts.other_engines, 'table')} not kept by InnoDB: they have no snapshot, a run may see them change"
        )
        found.append(warning("no_snapshot", said, "ALTER TABLE … ENGINE = InnoDB"))
    if not facts.zone_known:
        said = "the server does not know the declared time zone"
        found.append(
            warning("time_zones", said, "load the time zone tables (mariadb-tzinfo-to-sql), or use timezone: UTC")
        )
    return found
