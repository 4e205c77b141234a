-- The tables that invariants/refunds.yaml reads, as PostgreSQL and SQLite both understand them; MariaDB and MySQL want
-- `key` in backticks. It holds no rows.
CREATE TABLE accounts (
    id varchar(32) PRIMARY KEY,
    credit_balance_eur numeric(12, 2) NOT NULL DEFAULT 0,
    version integer NOT NULL DEFAULT 0
);
CREATE TABLE credit_log (
    id integer PRIMARY KEY,
    account_id varchar(32) NOT NULL REFERENCES accounts (id),
    amount_eur numeric(12, 2) NOT NULL,
    created_at timestamp NOT NULL
);
CREATE TABLE disputes (
    id varchar(32) PRIMARY KEY,
    account_id varchar(32) NOT NULL REFERENCES accounts (id),
    amount_eur numeric(12, 2) NOT NULL,
    opened_at timestamp NOT NULL
);
CREATE TABLE refunds (
    id integer PRIMARY KEY,
    dispute_id varchar(32) NOT NULL REFERENCES disputes (id),
    amount_eur numeric(12, 2) NOT NULL,
    state varchar(16) NOT NULL,
    created_at timestamp NOT NULL
);
CREATE TABLE jobs (
    job_id varchar(32) PRIMARY KEY,
    state varchar(16) NOT NULL,
    lease_owner varchar(64),
    lease_until timestamp,
    created_at timestamp NOT NULL
);
CREATE TABLE receipts (
    key varchar(128) PRIMARY KEY,
    size_bytes integer NOT NULL DEFAULT 0,
    listed_at timestamp NOT NULL
);
CREATE TABLE invoices (
    id varchar(32) PRIMARY KEY,
    account_id varchar(32) NOT NULL REFERENCES accounts (id),
    amount_eur numeric(12, 2) NOT NULL,
    receipt_key varchar(128)
);
