"""turns an alert into a ticket: takes its evidence, writes the scaffold, owes the tracker a message"""

from holdtrue.promotion.drafts import Draft
from holdtrue.promotion.making import Rehearsal, preview, promote
from holdtrue.promotion.wanted import Wanted

__all__ = ["Draft", "Rehearsal", "Wanted", "preview", "promote"]
