"""turns an alert into a ticket: takes its evidence, writes the scaffold, owes the tracker a message"""

from holdtrue.promotion.drafts import Draft
from holdtrue.promotion.making import Rehearsal, preview, promote

__all__ = ["Draft", "Rehearsal", "preview", "promote"]
