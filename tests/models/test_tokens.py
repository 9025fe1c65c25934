"""Tokens: nothing is cut or padded that was not asked for, and windows cover everything."""

from __future__ import annotations

import pytest

from regard.errors import LimitError, TokenError
from regard.models.encoder import Encoder
from regard.models.folder import installed

pytestmark = pytest.mark.skipif(installed() is None, reason="the default model is not installed")

FEW = "The cat that lives next door chased three mice out of here"


@pytest.fixture(scope="module")
def model():
    return Encoder.open()


@pytest.mark.parametrize("words", [12, 400, 5000])
def test_nothing_is_cut_or_padded(model, words):
    text = " ".join((FEW.split() * 500)[:words])
    tokens = model.tokens(text)
    assert len(tokens) == words + 2
    assert tokens.names[0] == "[CLS]"
    assert tokens.names[-1] == "[SEP]"
    assert [i for i, special in enumerate(tokens.special) if special] == [0, words + 1]
    assert " ".join(text[a:b] for a, b in tokens.offsets[1:-1]) == text
    if words == 5000:
        with pytest.raises(LimitError, match="the text has 5002 tokens and all-MiniLM-L6-v2 has 512 positions"):
            model(tokens.ids)
    else:
        assert model(tokens.ids).shape == (words + 2, 384)


def test_windows_cover_everything(model):
    text = "an unbelievably long, electroencephalographically détaillé text " * 300
    whole, windows = model.tokens(text), model.windows(text)
    assert all(len(w) <= 512 for w in windows)
    assert all((w.names[0], w.names[-1]) == ("[CLS]", "[SEP]") for w in windows)
    inner = [(i, o) for w in windows for i, o in zip(w.ids[1:-1], w.offsets[1:-1], strict=True)]
    assert inner == list(zip(whole.ids[1:-1], whole.offsets[1:-1], strict=True))
    assert not any(w.names[1].startswith("##") for w in windows)  # words stay whole
    assert all(model(w.ids).shape == (len(w), 384) for w in windows[:1])


def test_a_word_longer_than_a_window(model):
    text = "x" * 90 + "y" * 9 + "1234567890" * 5 + " a"
    windows = model._tokenizer().windows(text)
    assert sum(len(w) - 2 for w in windows) == len(model.tokens(text)) - 2
    chinese = "猫追老鼠" * 300
    assert sum(len(w) - 2 for w in model.windows(chinese)) == 1200


def test_a_part(model):
    whole = model.tokens(FEW)
    part = model.tokens(FEW, start=4)
    assert part.names == ("[CLS]", *whole.names[5:])
    assert part.offsets[1:] == whole.offsets[5:]
    assert model.tokens(FEW, start=2, count=6).names == ("[CLS]", *whole.names[3:7], "[SEP]")
    with pytest.raises(
        TokenError, match="start is 12 and the text has 12 tokens without special ones, expected 0 to 11"
    ):
        model.tokens(FEW, start=12)


def test_no_words(model):
    assert model.tokens("").names == ("[CLS]", "[SEP]")
    assert [w.names for w in model.windows("")] == [("[CLS]", "[SEP]")]


def test_a_text_that_names_special_tokens(model):
    tokens = model.tokens("a [SEP] b")
    assert tokens.names == ("[CLS]", "a", "[SEP]", "b", "[SEP]")
    assert tokens.special == (True, False, False, False, True)
