"""Check an answer against sources, sentence by sentence."""

from miv.checking.answer_check import check
from miv.checking.results import CheckedAnswer, CheckedSentence, Citation, Source
from miv.checking.sentences import Sentence, split_sentences

__all__ = ["CheckedAnswer", "CheckedSentence", "Citation", "Sentence", "Source", "check", "split_sentences"]
