"""The public names: what `regard.` offers, and nothing else."""

from __future__ import annotations

import inspect
import pickle
import types

import pytest

import regard
from regard import errors, lens

PUBLIC = [
    "AttentionMatrix",
    "Mask",
    "RegardError",
    "additive",
    "alibi",
    "attention",
    "causal",
    "cost",
    "dot",
    "general",
    "mask",
    "matrix",
    "open",
    "padding",
    "prefix",
    "recording",
    "segments",
    "softcap",
    "threads",
    "trace",
    "window",
]


def test_the_names_are_these() -> None:
    assert sorted([*regard.__all__, "open"]) == PUBLIC  # a star import would hide Python's own
    assert regard.__all__ == sorted(regard.__all__)
    assert all(hasattr(regard, name) for name in PUBLIC)


def test_nothing_else_is_offered() -> None:
    offered = {name for name in dir(regard) if not name.startswith("_")}
    modules = {name for name in offered if isinstance(getattr(regard, name), types.ModuleType)}
    assert offered - modules == set(PUBLIC)
    # Modules of the house appear in the package by being imported; none of another house may.
    assert all(getattr(regard, name).__name__ == f"regard.{name}" for name in modules)


def test_a_function_hides_its_module_on_purpose() -> None:
    assert callable(regard.attention)
    assert callable(regard.matrix)
    assert not isinstance(regard.threads, types.ModuleType)
    assert isinstance(regard.recording, types.FunctionType)


@pytest.mark.parametrize("name", PUBLIC)
def test_every_callable_says_what_it_does(name: str) -> None:
    thing = getattr(regard, name)
    if callable(thing):
        text = inspect.getdoc(thing if inspect.isroutine(thing) or inspect.isclass(thing) else type(thing))
        assert text
        first = text.splitlines()[0]
        assert first.endswith((".", "]")), first
        assert len(first) < 121


def test_the_signature() -> None:
    arguments = inspect.signature(regard.attention).parameters
    keywords = ["score", "scale", "modify", "bias", "mask", "sinks", "return_lse", "out"]
    assert list(arguments) == ["q", "k", "v", *keywords]
    assert all(arguments[name].kind is inspect.Parameter.KEYWORD_ONLY for name in keywords)
    defaults = [arguments[name].default for name in keywords]
    assert defaults == [regard.dot, None, None, None, None, None, False, None]


def test_the_signature_of_matrix() -> None:
    arguments = inspect.signature(regard.matrix).parameters
    keywords = ["v", "score", "scale", "modify", "bias", "mask", "sinks", "lse", "tokens", "key_tokens"]
    assert list(arguments) == ["q", "k", *keywords]
    assert all(arguments[name].kind is inspect.Parameter.KEYWORD_ONLY for name in keywords)
    assert [arguments[name].default for name in keywords] == [None, regard.dot, *[None] * 8]


ARRAY = ["shape", "ndim", "size", "dtype", "T", "scores", "lse", "build", "ask", "output", "without"]
METHODS = {
    "entropy": [],
    "effective": [],
    "peak": [],
    "top": ["k"],
    "received": ["queries", "per", "group", "pool"],
    "by_distance": ["per"],
    "distance": [],
    "between": ["query_groups", "key_groups", "per"],
    "mass": ["where"],
    "cells": ["above", "limit"],
    "heatmap": ["rows", "columns", "pool", "of", "region"],
    "summary": [],
}


def test_what_a_matrix_offers() -> None:
    assert all(hasattr(regard.AttentionMatrix, name) for name in ARRAY)


@pytest.mark.parametrize("name", METHODS)
def test_the_questions_of_a_matrix(name: str) -> None:
    method = getattr(regard.AttentionMatrix, name)
    arguments = inspect.signature(method).parameters
    assert list(arguments) == ["self", *METHODS[name], "progress"]
    assert arguments["progress"].kind is inspect.Parameter.KEYWORD_ONLY
    assert inspect.getdoc(method)


QUESTIONS = [
    "Between", "ByDistance", "Cells", "Distance", "Effective", "Entropy", "Heatmap", "Mass", "Peak", "Received", "Top",
    "Total", "Visible",
]  # fmt: skip


def test_the_questions_have_names() -> None:
    assert lens.__all__ == sorted(lens.__all__)
    assert {*QUESTIONS, "Block", "Layout", "Question", "over", "put"} <= set(lens.__all__)
    assert all(inspect.getdoc(getattr(lens, name)) for name in lens.__all__)


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_question_is_create_update_merge_finalize(name: str) -> None:
    kind = getattr(lens, name)
    for step, arguments in (
        ("create", ["layout"]),
        ("update", ["state", "block"]),
        ("merge", ["a", "b"]),
        ("finalize", ["state", "layout"]),
    ):
        assert list(inspect.signature(getattr(kind, step)).parameters) == ["self", *arguments]


def test_the_version_is_that_of_the_package() -> None:
    from importlib.metadata import version

    assert regard.__version__ == version("regard")


TREE = {
    "ShapeError": ValueError,
    "DtypeError": TypeError,
    "DeviceError": ValueError,
    "GradientError": RuntimeError,
    "TraceError": TypeError,
    "TargetError": RuntimeError,
    "LimitError": ValueError,
    "TokenError": LookupError,
    "QuestionError": TypeError,
    "ModelError": ValueError,
    "RecordingError": ValueError,
    "MissingError": ImportError,
}


@pytest.mark.parametrize("name", TREE)
def test_the_tree_of_errors(name: str) -> None:
    kind = getattr(errors, name)
    assert kind.__bases__ == (regard.RegardError, TREE[name])
    assert f"── {name} " in (errors.__doc__ or "")
    assert str(pickle.loads(pickle.dumps(kind("a sentence")))) == "a sentence"


def test_the_tree_is_drawn_whole() -> None:
    kinds = {name for name, x in vars(errors).items() if inspect.isclass(x) and issubclass(x, errors.RegardError)}
    assert kinds == {"RegardError", *TREE}
