"""decides dispositions and novelties of rows (pure)"""

from holdtrue.ledger.comparison import compare, with_novelties
from holdtrue.ledger.judgement import Judgement, judge
from holdtrue.ledger.keys import KeyHasher, canonical, rank
from holdtrue.ledger.tally import KEY_LIMIT, NULL_SENTENCE, SAMPLE_SIZE, Tally

__all__ = [
    "KEY_LIMIT",
    "NULL_SENTENCE",
    "SAMPLE_SIZE",
    "Judgement",
    "KeyHasher",
    "Tally",
    "canonical",
    "compare",
    "judge",
    "rank",
    "with_novelties",
]
