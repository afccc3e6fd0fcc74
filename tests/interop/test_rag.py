"""Answers are checked in LangChain, LlamaIndex and Haystack, with the real libraries."""

import asyncio
import os
import pickle
import sys
from typing import Any

import pytest

pytest.importorskip("sentencex", reason="needs sentencex, of the extra text")

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"

from miv.errors import MIVError, MIVWarning
from miv.interop import rag
from tests.checking.words import word_verifier

ANSWER = "Bees make sweet honey. Cats play the piano. Yes."
CONTEXT = "Bees live in hives. All bees make sweet honey."
ABSENT = "not in the sources"


def test_an_answer_without_contexts_or_without_a_sentence() -> None:
    checker = rag.Checker(word_verifier())
    nothing: tuple[Any, ...] = ([], None, ["", " \n"], {})
    for contexts in nothing:
        checked = checker.check(ANSWER, contexts)
        assert [one.outcome for one in checked.sentences] == [ABSENT, ABSENT, "not checked"]
        assert (rag.score(checked), bool(checked)) == (0.0, False)
    assert [rag.score(checker.check(answer, [CONTEXT])) for answer in ("", "Yes.", ANSWER)] == [0.0, 0.0, 0.5]
    replies = ["Hives.", "1898.", "---", ""]
    answered = [checker.check(answer, [CONTEXT], "Where do bees live?") for answer in replies]
    assert [len(rag.statements(one)) for one in answered] == [1, 1, 0, 0]
    assert checker.check(ANSWER, ["", CONTEXT]).citations[0].source == "source 2"
    with pytest.warns(MIVWarning, match="source 1 is HTML"):
        assert checker.check(ANSWER, ["<!doctype html><p>Bees.", CONTEXT]).citations[0].source == "source 2"
    with pytest.raises(MIVError, match="list of texts"):
        checker.check(ANSWER, CONTEXT)


@pytest.mark.parametrize(
    ("adapter", "library", "extra"),
    [
        ("LangChainCheck", "langchain_core.runnables", "langchain"),
        ("LlamaIndexEvaluator", "llama_index.core.evaluation", "llamaindex"),
        ("HaystackEvaluator", "haystack", "haystack"),
    ],
)
def test_a_missing_library(monkeypatch: pytest.MonkeyPatch, adapter: str, library: str, extra: str) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(vars(rag), adapter, raising=False)
    with pytest.raises(MIVError, match=rf"pip install 'miv\[{extra}\]'"):
        getattr(rag, adapter)


def test_langchain() -> None:
    runnables = pytest.importorskip("langchain_core.runnables")
    documents = [pytest.importorskip("langchain_core.documents").Document(page_content=CONTEXT)]
    check = rag.LangChainCheck(word_verifier())
    chain = runnables.RunnableLambda(lambda question: {"input": question, "context": documents, "answer": ANSWER})
    output = chain.assign(check=check).invoke("What do bees make?")
    assert (output["answer"], output["check"]["score"], output["check"]["passing"]) == (ANSWER, 0.5, False)
    assert output["check"]["citations"][0]["text"] == "All bees make sweet honey."
    inputs: list[dict[str, Any]] = [{"answer": ANSWER, "context": []}, {"answer": ANSWER, "context": CONTEXT}]
    assert [one["score"] for one in check.batch(inputs)] == [0.0, 0.5]
    assert asyncio.run(check.ainvoke(inputs[1]))["score"] == 0.5
    assert pickle.loads(pickle.dumps(rag.LangChainCheck())).verifier == "miv/judge"
    with pytest.raises(MIVError, match="Expected answer and context"):
        check.invoke({"answer": ANSWER})


def test_llamaindex() -> None:
    pytest.importorskip("llama_index.core")
    from llama_index.core.base.response.schema import Response
    from llama_index.core.evaluation import BaseEvaluator
    from llama_index.core.schema import NodeWithScore, TextNode

    evaluator = rag.LlamaIndexEvaluator(word_verifier())
    assert isinstance(evaluator, BaseEvaluator)
    response = Response(ANSWER, source_nodes=[NodeWithScore(node=TextNode(text=CONTEXT))])
    result = evaluator.evaluate_response("", response)
    assert (result.score, result.passing, result.contexts, result.invalid_result) == (0.5, False, [CONTEXT], False)
    assert "[1]" in result.feedback
    assert asyncio.run(evaluator.aevaluate("", "Bees make sweet honey.", [CONTEXT])).passing
    assert evaluator.evaluate("", ANSWER, []).score == 0
    assert evaluator.evaluate("", "", [CONTEXT]).invalid_result


def test_haystack() -> None:
    pipelines = pytest.importorskip("haystack")
    pipeline = pipelines.Pipeline()
    pipeline.add_component("check", rag.HaystackEvaluator(word_verifier()))
    inputs = {"questions": ["", ""], "contexts": [[CONTEXT], []], "predicted_answers": [ANSWER, ANSWER]}
    output = pipeline.run({"check": inputs})["check"]
    assert (output["score"], output["individual_scores"]) == (0.25, [0.5, 0.0])
    first, second = output["results"]
    assert first["statements"] == ["Bees make sweet honey.", "Cats play the piano."]
    assert first["statement_scores"] == [1, 0]
    assert (second["outcomes"], second["status"]) == ([ABSENT, ABSENT], "evaluated")
    evaluator = rag.HaystackEvaluator(word_verifier())
    assert evaluator.run(questions=[], contexts=[], predicted_answers=[])["score"] == 0.0
    with pytest.raises(MIVError, match="as many of each"):
        evaluator.run(questions=[""], contexts=[], predicted_answers=[ANSWER])
    saved = pipelines.Pipeline()
    saved.add_component("check", rag.HaystackEvaluator(threshold=0.5))
    again = pipelines.Pipeline.loads(saved.dumps(), allowed_modules=["miv.interop.rag"])
    assert again.get_component("check").threshold == 0.5
