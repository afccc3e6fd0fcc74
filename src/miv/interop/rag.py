"""Check answers in LangChain, LlamaIndex and Haystack, without a language model.

``LangChainCheck``, ``LlamaIndexEvaluator`` and ``HaystackEvaluator`` are made when they are imported, which imports
their library. All take the arguments of ``Checker``.
"""

import asyncio
import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from miv.checking.answer_check import MOST_CITATIONS, VERIFIER, check
from miv.checking.results import BACKED, CheckedAnswer, CheckedSentence
from miv.checking.sources import is_markup, read_answer, read_sources
from miv.errors import MIVError, MIVWarning, needs_extra
from miv.verifier.network import Verifier


class Checker:
    """``miv.check`` for many answers: the verifier is loaded once, and no answer or context is an error.

    Args:
        verifier: a verifier of texts, or its folder or name.
        citations: maximum number of source sentences listed per sentence.
        threshold: one threshold from 0 to 1 instead of those of the verifier.
    """

    def __init__(
        self,
        verifier: Verifier | str | Path = VERIFIER,
        citations: int = MOST_CITATIONS,
        threshold: float | None = None,
    ) -> None:
        self.verifier, self.citations, self.threshold = verifier, citations, threshold

    @cached_property
    def loaded(self) -> Verifier:
        """The verifier, loaded on first use."""
        return self.verifier if isinstance(self.verifier, Verifier) else Verifier.from_pretrained(self.verifier)

    def check(
        self, answer: str, contexts: Iterable[str] | Mapping[str, str] | None, question: str | None = None
    ) -> CheckedAnswer:
        """Check an answer against contexts; without any text in them, its sentences are not in the sources.

        With a question, answers of a few words are checked together with it.
        """
        if not isinstance(answer, str) or isinstance(contexts, str):
            got = f"an answer of type {type(answer).__name__} and contexts of type {type(contexts).__name__}"
            raise MIVError(f"Got {got}. Expected a text and a list of texts.")
        if not isinstance(contexts, Mapping):
            contexts = {f"source {number}": text for number, text in enumerate(contexts or (), 1)}
        question = question if question and question.strip() else None
        sentences = read_answer(answer, may_be_empty=True)
        sources: dict[str, str] = {}
        for name, text in contexts.items():
            if isinstance(text, str) and is_markup(text):  # one page must not stop the check of all answers
                warnings.warn(f"{name} is HTML, PDF or RTF, not text; it was left out.", MIVWarning, stacklevel=2)
            elif not isinstance(text, str) or text.strip():
                sources[name] = text
        options: dict[str, Any] = {"citations": self.citations, "threshold": self.threshold, "question": question}
        return check(sentences, read_sources(sources), verifier=self.loaded, **options)


def statements(checked: CheckedAnswer) -> list[CheckedSentence]:
    """The sentences that were checked."""
    return [sentence for sentence in checked.sentences if sentence.probability is not None]


def score(checked: CheckedAnswer) -> float:
    """The share of the checked sentences that are supported; 0 if there is none."""
    return sum(map(checked.count, BACKED)) / max(1, len(statements(checked)))


def summary(checked: CheckedAnswer) -> dict[str, Any]:
    """``score``, ``passing``, and the check as text and as plain values, for JSON."""
    return {"score": score(checked), "passing": bool(checked), "text": str(checked), **checked.document()}


def _langchain() -> type:
    with needs_extra("langchain", "LangChainCheck", "langchain-core"):
        from langchain_core.runnables import Runnable

    class LangChainCheck(Checker, Runnable[Mapping[str, Any], dict[str, Any]]):
        """Checks what a retrieval chain returns: a dict with ``answer`` and ``context``, texts or Documents.

        With ``question`` in it, answers of a few words are checked together with it.

        ``chain.assign(check=LangChainCheck())`` adds the check (see ``summary``) to the output of a chain.
        """

        def invoke(self, input: Mapping[str, Any], config: Any = None, **_: Any) -> dict[str, Any]:  # noqa: A002
            """Check one answer."""
            return self._call_with_config(self._checked, input, config)

        def _checked(self, output: Mapping[str, Any]) -> dict[str, Any]:
            if not {"answer", "context"} <= output.keys():
                raise MIVError(f"The input has {', '.join(output) or 'no keys'}. Expected answer and context.")
            context = output["context"] or ()
            texts = [getattr(one, "page_content", one) for one in ([context] if isinstance(context, str) else context)]
            return summary(self.check(output["answer"], texts, output.get("question")))

    return LangChainCheck


def _llamaindex() -> type:
    with needs_extra("llamaindex", "LlamaIndexEvaluator", "llama-index-core"):
        from llama_index.core.evaluation import BaseEvaluator, EvaluationResult

    class LlamaIndexEvaluator(Checker, BaseEvaluator):
        """Evaluates whether a response is backed by its contexts, in the place of ``FaithfulnessEvaluator``.

        ``score`` is the share of the checked sentences that are supported, ``feedback`` the answer with citations.
        """

        def evaluate(
            self, query: str | None = None, response: str | None = None, contexts: Any = None, **_: Any
        ) -> EvaluationResult:
            """Check one response."""
            checked = self.check(response or "", contexts, query)
            empty = not statements(checked)
            return EvaluationResult(
                query=query,
                response=response,
                contexts=None if contexts is None else list(contexts),
                passing=bool(checked),
                score=score(checked),
                feedback=str(checked),
                invalid_result=empty,
                invalid_reason="The response has no sentence to check." if empty else None,
            )

        async def aevaluate(self, *asked: Any, **named: Any) -> EvaluationResult:
            """Check one response in a thread."""
            return await asyncio.to_thread(self.evaluate, *asked, **named)

        def _get_prompts(self) -> dict[str, Any]:
            return {}

        def _update_prompts(self, prompts_dict: Any) -> None: ...

    return LlamaIndexEvaluator


def _haystack() -> type:
    with needs_extra("haystack", "HaystackEvaluator", "haystack-ai"):
        from haystack import component

    @component
    class HaystackEvaluator(Checker):
        """Evaluates answers with the inputs and outputs of ``FaithfulnessEvaluator``.

        Each of ``results`` also has the ``outcomes`` of its statements and the ``check`` as plain values.
        """

        @component.output_types(score=float, individual_scores=list[float], results=list[dict[str, Any]])
        def run(self, questions: list[str], contexts: list[list[str]], predicted_answers: list[str]) -> dict[str, Any]:
            """Check each answer against its contexts."""
            if not len(questions) == len(contexts) == len(predicted_answers):
                raise MIVError(
                    f"There are {len(questions)} questions, {len(contexts)} contexts and {len(predicted_answers)} "
                    "predicted_answers. Expected as many of each."
                )
            asked = zip(predicted_answers, contexts, questions, strict=True)
            results = [_result(self.check(*one)) for one in asked]
            scores = [result["score"] for result in results]
            return {"score": sum(scores) / max(1, len(scores)), "individual_scores": scores, "results": results}

    return HaystackEvaluator


def _result(checked: CheckedAnswer) -> dict[str, Any]:
    sentences = statements(checked)
    return {
        "statements": [sentence.text for sentence in sentences],
        "statement_scores": [int(sentence.outcome in BACKED) for sentence in sentences],
        "outcomes": [sentence.outcome for sentence in sentences],
        "score": score(checked),
        "status": "evaluated",
        "check": checked.document(),
    }


_CLASSES: dict[str, Callable[[], type]] = {
    "LangChainCheck": _langchain,
    "LlamaIndexEvaluator": _llamaindex,
    "HaystackEvaluator": _haystack,
}


def __getattr__(name: str) -> Any:
    """Make an adapter on first use, and keep it as if it were written at the top of this file."""
    if name not in _CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = adapter = _CLASSES[name]()
    adapter.__qualname__ = name  # for pickle
    return adapter
