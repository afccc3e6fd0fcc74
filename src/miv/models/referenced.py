"""One answer to a query of several references, from the answers to each."""

from miv.bags import Bags
from miv.decisions.reference_pairs import Pairs
from miv.decisions.reference_rule import ReferenceRule
from miv.models.verification import Verification


def combined(pairs: Pairs, found: Verification, bags: Bags, rule: ReferenceRule) -> Verification:
    """One answer per query from the answers to all pairs.

    Attention, score and the two vectors are those of the pairs, weighted like their logits.
    """
    logit = rule.combine(*pairs.logits(found.logit), pairs.references)
    share = pairs.shares(rule, found.logit)
    of_instance = pairs.bags.expand(share)
    by_head = found.attention_by_head
    if by_head is not None:
        by_head = pairs.summed(by_head * of_instance[:, None], bags)
    return Verification(
        logit=logit,
        probability=logit.sigmoid(),
        attention=None if by_head is None else by_head.mean(dim=1),
        attention_by_head=by_head,
        query_vector=pairs.by_query(found.query_vector * share[:, None]),
        bag_vector=pairs.by_query(found.bag_vector * share[:, None]),
        ptr=bags.ptr,
        score=None if found.score is None else pairs.summed(found.score * of_instance, bags),
    )
