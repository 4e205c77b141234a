"""The incident that two settled refunds of one dispute are promoted to."""

from __future__ import annotations

from holdtrue.model import Incident, TableRows
from racy import schema

REFUND = ("id", "dispute_id", "amount_eur", "state")
TWO_REFUNDS = Incident(
    id="one_7",
    invariant="one_settled_refund_per_dispute",
    database="payments",
    engine="postgresql",
    sql=schema.ONE_SETTLED,
    returns="rows",
    seed=(
        TableRows("accounts", ("id", "credit_balance_eur", "version"), (("acc_1", "0.00", "0"),)),
        TableRows("disputes", ("id", "account_id", "amount_eur"), (("dsp_1", "acc_1", "40.00"),)),
    ),
    observed=(TableRows("refunds", REFUND, (("3", "dsp_1", "40.00", "settled"), ("4", "dsp_1", "40.00", "settled"))),),
)
