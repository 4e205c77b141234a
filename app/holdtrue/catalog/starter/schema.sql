-- The tables that the invariants of database `app` read: what `holdtrue test` makes a scratch database of.
-- `holdtrue pull-schema app --out schema.sql` writes it from the database itself.
CREATE TABLE orders (
    id integer PRIMARY KEY,
    total_cents integer,
    state text,
    created_at text
);
