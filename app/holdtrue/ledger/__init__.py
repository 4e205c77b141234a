"""decides dispositions and novelties of rows (pure)"""

from holdtrue.ledger.acceptance import Covered, NotAccepted, covered, why_not
from holdtrue.ledger.comparison import compare, why_other_hashes, with_novelties
from holdtrue.ledger.dispositions import NOTHING_BEFORE, Clock, Dispositions, Past
from holdtrue.ledger.healing import Healing, healing
from holdtrue.ledger.judgement import Judgement, judge
from holdtrue.ledger.keys import KeyHasher, canonical, rank
from holdtrue.ledger.readings import Again, counted_again, rejoined
from holdtrue.ledger.suspicion import Suspicion, suspicion
from holdtrue.ledger.tally import KEY_LIMIT, NULL_SENTENCE, SAMPLE_SIZE, Tally

__all__ = [
    "KEY_LIMIT",
    "NOTHING_BEFORE",
    "NULL_SENTENCE",
    "SAMPLE_SIZE",
    "Again",
    "Clock",
    "Covered",
    "Dispositions",
    "Healing",
    "Judgement",
    "KeyHasher",
    "NotAccepted",
    "Past",
    "Suspicion",
    "Tally",
    "canonical",
    "compare",
    "counted_again",
    "covered",
    "healing",
    "judge",
    "rank",
    "rejoined",
    "suspicion",
    "why_not",
    "why_other_hashes",
    "with_novelties",
]
