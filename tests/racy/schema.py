"""The refunds schema on both engines, the rows that are there before, and the two rules."""

from __future__ import annotations

from sqlalchemy import create_engine

POSTGRESQL = """
CREATE TABLE accounts (id text PRIMARY KEY, credit_balance_eur numeric(12,2) NOT NULL, version int NOT NULL DEFAULT 0);
CREATE TABLE credit_log (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
                         account_id text NOT NULL REFERENCES accounts, amount_eur numeric(12,2) NOT NULL);
CREATE TABLE disputes (id text PRIMARY KEY, account_id text NOT NULL REFERENCES accounts, amount_eur numeric(12,2) NOT NULL);
CREATE TABLE refunds (id integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, dispute_id text NOT NULL REFERENCES disputes,
                      amount_eur numeric(12,2) NOT NULL, state text NOT NULL);
"""
SQLITE = """
CREATE TABLE accounts (id text PRIMARY KEY, credit_balance_eur integer NOT NULL, version integer NOT NULL DEFAULT 0);
CREATE TABLE credit_log (id integer PRIMARY KEY AUTOINCREMENT, account_id text NOT NULL REFERENCES accounts,
                         amount_eur integer NOT NULL);
CREATE TABLE disputes (id text PRIMARY KEY, account_id text NOT NULL REFERENCES accounts, amount_eur integer NOT NULL);
CREATE TABLE refunds (id integer PRIMARY KEY AUTOINCREMENT, dispute_id text NOT NULL REFERENCES disputes,
                      amount_eur integer NOT NULL, state text NOT NULL);
"""
MARIADB = """
CREATE TABLE accounts (id varchar(20) PRIMARY KEY, credit_balance_eur decimal(12,2) NOT NULL, version int NOT NULL DEFAULT 0);
CREATE TABLE credit_log (id int AUTO_INCREMENT PRIMARY KEY, account_id varchar(20) NOT NULL, amount_eur decimal(12,2) NOT NULL,
                         FOREIGN KEY (account_id) REFERENCES accounts (id));
CREATE TABLE disputes (id varchar(20) PRIMARY KEY, account_id varchar(20) NOT NULL, amount_eur decimal(12,2) NOT NULL,
                       FOREIGN KEY (account_id) REFERENCES accounts (id));
CREATE TABLE refunds (id int AUTO_INCREMENT PRIMARY KEY, dispute_id varchar(20) NOT NULL, amount_eur decimal(12,2) NOT NULL,
                      state varchar(20) NOT NULL, FOREIGN KEY (dispute_id) REFERENCES disputes (id));
"""
MARIADB_UNIQUE = (
    "ALTER TABLE refunds ADD settled varchar(20) AS (IF(state = 'settled', dispute_id, NULL)) VIRTUAL,"
    " ADD UNIQUE INDEX one_settled (settled)"
)
UNIQUE = "CREATE UNIQUE INDEX one_settled ON refunds (dispute_id) WHERE state = 'settled'"
ROWS = (
    "INSERT INTO accounts VALUES ('acc_1', 0, 0)",
    "INSERT INTO disputes VALUES ('dsp_1', 'acc_1', 40)",
)
ONE_SETTLED = (
    "SELECT dispute_id, count(*) AS refunds FROM refunds "
    "WHERE state = 'settled' GROUP BY dispute_id HAVING count(*) > 1"
)
BALANCE = """
SELECT a.id, a.credit_balance_eur, l.total FROM accounts a
JOIN (SELECT account_id, sum(amount_eur) AS total FROM credit_log GROUP BY account_id) l ON l.account_id = a.id
WHERE a.credit_balance_eur <> l.total
"""


def build(url: str, *, unique: bool = False) -> None:
    """The schema with its rows, on the engine of the URL."""
    engine = create_engine(url)
    texts = {"sqlite": SQLITE, "mysql": MARIADB, "mariadb": MARIADB}
    text = texts.get(engine.dialect.name, POSTGRESQL)
    index = MARIADB_UNIQUE if text is MARIADB else UNIQUE
    statements = [one for one in text.split(";") if one.strip()]
    with engine.begin() as connection:
        for statement in (*statements, *ROWS, *([index] if unique else [])):
            connection.exec_driver_sql(statement)
    engine.dispose()


def build_unique(url: str) -> None:
    """The same with the index that refuses a second settled refund."""
    build(url, unique=True)
