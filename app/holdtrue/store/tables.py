"""the tables, private to the store; ``migrations`` makes them and ``check`` compares the two"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Date,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    UniqueConstraint,
    text,
)

from holdtrue.store.columns import Identity, Lasting, Moment, Words

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)

# The catalog in force is the row with the highest number (semantics 1.3).
generations = Table(
    "generations",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("content_hash", String(128), nullable=False),
    Column("texts", Words, nullable=False),
    Column("loaded_at", Moment, nullable=False),
    Column("loaded_by", Words, nullable=False),
)

# One (invariant, database) of the catalog, its due time and its lease. Whatever belongs to an entry (standing, spans, keys,
# episodes) is written only by a transaction that holds this row's lock: that is what keeps runs, the watch and people apart.
entries = Table(
    "entries",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("invariant", String(63), nullable=False),
    Column("database", Words, nullable=False),
    Column("since", Moment, nullable=False),
    Column("retired_at", Moment),
    Column("generation", Integer, nullable=False),
    Column("definition", String(128), nullable=False),
    Column("severity", String(16), nullable=False),
    Column("owner", Words, nullable=False),
    # What silences may match beside the episode's own labels (semantics 7.5).
    Column("tags", Words, nullable=False, server_default=""),
    Column("schedule_key", Words, nullable=False),
    Column("schedule_generation", Integer, nullable=False),
    # The due time that is next, and the first due time of a schedule that changed while that one was still owed.
    Column("next_due", Moment, nullable=False),
    Column("upcoming_due", Moment),
    Column("last_due", Moment),
    # When it may be claimed: its due time, a retry of it, or an extra run; NULL once retired.
    Column("claimable_at", Moment, index=True),
    Column("retry_at", Moment),
    Column("attempts", Integer, nullable=False),
    # When the first attempt at the unfinished due time ended.
    Column("tried_at", Moment),
    Column("extra_due", Moment),
    Column("extra_kind", String(16)),
    Column("extra_for", BigInteger),
    # The fence: the token only grows, and a result counts only under the newest one.
    Column("token", BigInteger, nullable=False),
    Column("lease_owner", Words),
    Column("lease_until", Moment),
    UniqueConstraint("invariant", "database"),
)

# What is known now of an entry, and what its ledger was made with.
standings = Table(
    "standings",
    metadata,
    Column("entry_id", Identity, ForeignKey("entries.id"), primary_key=True, autoincrement=False),
    Column("health", String(16), nullable=False),
    Column("good_run", BigInteger),
    Column("good_at", Moment),
    Column("good_outcome", String(16)),
    Column("good_count", BigInteger),
    Column("good_complete", Boolean, nullable=False),
    Column("good_definition", String(128), nullable=False),
    Column("good_new", BigInteger, nullable=False),
    Column("good_settling", BigInteger, nullable=False),
    Column("good_waived", BigInteger, nullable=False),
    Column("try_at", Moment),
    Column("try_outcome", String(16)),
    Column("try_reason", Words, nullable=False),
    Column("errors_in_a_row", Integer, nullable=False),
    Column("good_freshness_proven", Boolean, nullable=False),
    Column("good_position", Words),
    Column("complete_at", Moment),
    Column("complete_definition", String(128)),
    Column("complete_position", Words),
    Column("looked_before", Boolean, nullable=False),
    Column("secret_id", Words, nullable=False),
    Column("key_columns", Words, nullable=False),
    Column("timezone", Words, nullable=False),
    Column("horizon", Words),
    Column("span_id", BigInteger),
    # The newest answer of `population` that found something, under which definition, and its number if it was one.
    Column("populated_at", Moment),
    Column("populated_definition", String(128)),
    Column("populated_count", BigInteger),
)

runs = Table(
    "runs",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("entry_id", BigInteger, ForeignKey("entries.id"), nullable=False),
    Column("due_at", Moment, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("kind", String(16), nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("definition", String(128), nullable=False),
    Column("generation", Integer, nullable=False),
    Column("attempt", Integer, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("returned", BigInteger, nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("settling", BigInteger, nullable=False),
    Column("waived", BigInteger, nullable=False),
    Column("new", BigInteger, nullable=False),
    Column("known", BigInteger, nullable=False),
    Column("came_back", BigInteger, nullable=False),
    Column("fixed", BigInteger, nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("of_a_sample", Boolean, nullable=False),
    Column("rebaselined", Words, nullable=False),
    Column("failure_reason", String(32)),
    Column("failure_sentence", Words),
    Column("failure_sqlstate", String(8)),
    Column("failure_position", Integer),
    Column("position", Words),
    Column("duration", Lasting, nullable=False),
    Column("statement", Lasting, nullable=False),
    Column("instance", Words, nullable=False),
    Column("missed", Integer, nullable=False),
    Column("confirms", BigInteger),
    Column("again", BigInteger),
    Column("again_new", BigInteger, nullable=False, server_default="0"),
    Column("healed", BigInteger, nullable=False, server_default="0"),
    Column("suspicious", Words, nullable=False, server_default=""),
    # A due time is recorded once, whoever claimed it how often (semantics 8.1).
    UniqueConstraint("entry_id", "due_at"),
)

samples = Table(
    "samples",
    metadata,
    Column("run_id", Identity, primary_key=True, autoincrement=False),
    Column("taken_at", Moment, nullable=False, index=True),
    Column("body", Words, nullable=False),
)

spans = Table(
    "spans",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("entry_id", BigInteger, ForeignKey("entries.id"), nullable=False),
    Column("first_at", Moment, nullable=False),
    Column("last_at", Moment, nullable=False),
    Column("outcome", String(16), nullable=False),
    Column("counted", BigInteger, nullable=False),
    Column("definition", String(128), nullable=False),
    Column("complete", Boolean, nullable=False),
    Column("runs", Integer, nullable=False),
    Column("lowest", BigInteger, nullable=False),
    Column("highest", BigInteger, nullable=False),
    Column("first_run", BigInteger, nullable=False),
    Column("last_run", BigInteger, nullable=False),
    Column("thinned", Boolean, nullable=False),
    Index(None, "entry_id", "first_at"),
)

ledger_keys = Table(
    "ledger_keys",
    metadata,
    Column("entry_id", BigInteger, ForeignKey("entries.id"), primary_key=True, autoincrement=False),
    Column("key", Words, primary_key=True),
    Column("disposition", String(16), nullable=False),
    Column("novelty", String(16), nullable=False),
    Column("first_seen", Moment, nullable=False),
    Column("last_changed", Moment, nullable=False),
    Column("first_counted", Moment),
    Column("shown", Words, nullable=False),
    Column("present_since", Moment),
    Column("young_since", Moment),
)

evidence = Table(
    "evidence",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("entry_id", BigInteger, ForeignKey("entries.id"), nullable=False),
    Column("key", Words, nullable=False),
    Column("episode_id", BigInteger, index=True),
    Column("run_id", BigInteger, nullable=False),
    Column("taken_at", Moment, nullable=False, index=True),
    Column("body", Words, nullable=False),
    Column("last_good", Words),
    Column("last_good_at", Moment),
    UniqueConstraint("entry_id", "key"),
)

episodes = Table(
    "episodes",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("entry_id", BigInteger, ForeignKey("entries.id"), nullable=False),
    Column("subject", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("opened_at", Moment, nullable=False),
    Column("definition", String(128), nullable=False),
    Column("severity", String(16), nullable=False),
    Column("owner", Words, nullable=False),
    Column("fired_at", Moment),
    Column("ended_at", Moment),
    Column("ending", String(16)),
    Column("first_run", BigInteger),
    Column("last_run", BigInteger),
    Column("count", BigInteger, nullable=False),
    Column("count_complete", Boolean, nullable=False),
    Column("peak", BigInteger, nullable=False),
    Column("violated_in_a_row", Integer, nullable=False),
    Column("held_in_a_row", Integer, nullable=False),
    Column("told_count", BigInteger, nullable=False),
    Column("told_at", Moment),
    Column("new_since_told", BigInteger, nullable=False),
    Column("at_first_look", Boolean, nullable=False),
    Column("follows", BigInteger),
    Column("events", Integer, nullable=False),
    Column("acknowledged_by", Words, nullable=False),
    Column("acknowledged_at", Moment),
    Column("note", Words, nullable=False),
    # The invariant's name when it fired: an alert keeps its labels (semantics 7.6).
    Column("fired_as", Words, nullable=False, server_default=""),
    # A first reading that waits for a second one; there is none while `confirming_since` is NULL.
    Column("confirming_run", BigInteger),
    Column("confirming_since", Moment),
    Column("confirming_until", Moment),
    Column("confirming_due", Moment),
    Column("confirming_count", BigInteger),
    Column("confirming_new", BigInteger),
    Index(None, "entry_id", "subject", "id"),
    # One open episode per entry and subject, whatever races.
    Index(
        "uq_episodes_open",
        "entry_id",
        "subject",
        unique=True,
        sqlite_where=text("state != 'resolved'"),
        postgresql_where=text("state != 'resolved'"),
    ),
)

events = Table(
    "events",
    metadata,
    Column("episode_id", BigInteger, ForeignKey("episodes.id"), primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("name", Words, nullable=False),
    Column("at", Moment, nullable=False),
    Column("reason", String(16)),
    Column("marks", Words, nullable=False),
    Column("count", BigInteger, nullable=False),
    Column("detail", Words, nullable=False),
    Column("run", BigInteger),
)

# Owed in the transaction that changed the state (semantics 7.3); (episode, number, notifier) is a message's key.
messages = Table(
    "messages",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("episode_id", BigInteger, ForeignKey("episodes.id"), nullable=False),
    Column("number", Integer, nullable=False),
    Column("notifier", Words, nullable=False),
    Column("reason", String(16), nullable=False),
    Column("state", String(16), nullable=False),
    Column("owed_at", Moment, nullable=False),
    Column("marks", Words, nullable=False),
    Column("overtook", Words, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("lease_owner", Words),
    Column("lease_until", Moment),
    # Of a message that failed there is no next try: then it is when it was given up.
    Column("next_try_at", Moment),
    Column("sent_at", Moment),
    Column("problem", Words, nullable=False),
    # Which silence withheld it, and when the watch saw to it that its end lost nothing (semantics 7.5).
    Column("silence_id", BigInteger),
    Column("lifted_at", Moment),
    Column("took", Words, nullable=False, server_default=""),
    UniqueConstraint("episode_id", "number", "notifier"),
    Index(None, "state", "notifier", "owed_at"),
    Index(None, "silence_id"),
)

# Whoever silences says why and until when; an ended one stays, with what it withheld.
silences = Table(
    "silences",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("matchers", Words, nullable=False),
    Column("comment", Words, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("created_at", Moment, nullable=False),
    Column("starts_at", Moment, nullable=False),
    Column("ends_at", Moment, nullable=False, index=True),
    Column("ended_by", Words, nullable=False),
)

threads = Table(
    "threads",
    metadata,
    Column("episode_id", BigInteger, ForeignKey("episodes.id"), primary_key=True, autoincrement=False),
    Column("notifier", Words, primary_key=True),
    Column("channel", Words, nullable=False),
    Column("reference", Words, nullable=False),
)

costs = Table(
    "costs",
    metadata,
    Column("entry_id", BigInteger, ForeignKey("entries.id"), primary_key=True, autoincrement=False),
    Column("day", Date, primary_key=True),
    Column("runs", Integer, nullable=False),
    Column("errors", Integer, nullable=False),
    Column("statement", Lasting, nullable=False),
    Column("slowest", Lasting, nullable=False),
)

# Violations that people took as they are, until a date: the acts, and the keys that were there (semantics 5.4). The hashes of
# an act were made with its secret, key columns and time zone; under others they match nothing, and every row counts.
accepts = Table(
    "accepts",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("entry_id", BigInteger, ForeignKey("entries.id"), nullable=False, index=True),
    Column("reason", Words, nullable=False),
    Column("accepted_by", Words, nullable=False),
    Column("accepted_at", Moment, nullable=False),
    Column("until", Moment, nullable=False),
    Column("keys", Integer, nullable=False),
    Column("secret_id", Words, nullable=False),
    Column("key_columns", Words, nullable=False),
    Column("timezone", Words, nullable=False),
    Column("ended_at", Moment),
    Column("ended_by", Words, nullable=False),
    Column("meaning", Words, nullable=False, server_default=""),
    Column("redefined_in", Integer),
)

accepted_keys = Table(
    "accepted_keys",
    metadata,
    Column("accept_id", BigInteger, ForeignKey("accepts.id"), primary_key=True, autoincrement=False),
    Column("key", Words, primary_key=True),
)

# The ends of waivers and accepts that people were told of beforehand, each once (semantics 5.4).
told_ends = Table(
    "told_ends",
    metadata,
    Column("entry_id", BigInteger, ForeignKey("entries.id"), primary_key=True, autoincrement=False),
    Column("what", Words, primary_key=True),
    Column("until", Moment, nullable=False),
    Column("told_at", Moment, nullable=False),
)

# What pipelines told of; the same one told twice is one row.
deploys = Table(
    "deploys",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("service", Words, nullable=False),
    Column("version", Words, nullable=False),
    Column("at", Moment, nullable=False, index=True),
    Column("by", Words, nullable=False),
    Column("recorded_at", Moment, nullable=False),
    UniqueConstraint("service", "version", "at"),
)

# The server identity that people accepted for a database after another one appeared (semantics 2.3).
accepted_systems = Table(
    "accepted_systems",
    metadata,
    Column("database", Words, primary_key=True),
    Column("system", Words, nullable=False),
    Column("accepted_by", Words, nullable=False),
    Column("accepted_at", Moment, nullable=False),
)

# Leases that are no entry's: the watch, retention.
named_leases = Table(
    "named_leases",
    metadata,
    Column("name", String(63), primary_key=True),
    Column("owner", Words, nullable=False),
    Column("token", BigInteger, nullable=False),
    Column("lease_until", Moment, nullable=False),
)

instances = Table(
    "instances",
    metadata,
    Column("instance", Words, primary_key=True),
    Column("host", Words, nullable=False),
    Column("version", Words, nullable=False),
    Column("started_at", Moment, nullable=False),
    Column("last_seen", Moment, nullable=False),
    Column("reload_at", Moment),
    Column("reload_successful", Boolean),
    Column("reload_problems", Words, nullable=False),
    Column("reload_generation", Integer, nullable=False),
)

audit = Table(
    "audit",
    metadata,
    Column("id", Identity, primary_key=True),
    Column("at", Moment, nullable=False),
    Column("who", Words, nullable=False),
    Column("action", Words, nullable=False),
    Column("subject", Words, nullable=False),
    Column("detail", Words, nullable=False),
)

tickets = Table(
    "tickets",
    metadata,
    Column("id", String(128), primary_key=True),
    Column("episode_id", BigInteger, ForeignKey("episodes.id"), nullable=False, index=True),
    Column("created_at", Moment, nullable=False),
    Column("created_by", Words, nullable=False),
    Column("files", Words, nullable=False),
)
