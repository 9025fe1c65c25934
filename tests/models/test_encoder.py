"""Hidden states, and what each layer is asked, beside transformers' BertModel."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import regard
from regard.errors import DtypeError, LimitError, ModelError, ShapeError, TokenError
from regard.models.encoder import Encoder
from regard.models.folder import installed
from tests.models.making import SMALL, folder, random_weights, sizes

NEAR = 1e-4  # in hidden states that are of size 1


@pytest.fixture(scope="module")
def torch():
    found = pytest.importorskip("torch")
    found.set_num_threads(1)
    return found


def theirs(torch, path, ids, mask=None):
    from transformers import BertModel

    model = BertModel.from_pretrained(path, attn_implementation="sdpa").eval()
    with torch.no_grad():
        found = model(torch.from_numpy(ids), attention_mask=None if mask is None else torch.from_numpy(mask))
    return found[0].numpy()


@pytest.fixture(scope="module")
def default():
    if installed() is None:
        pytest.skip("the default model is not installed")
    return Encoder.open()


WORDS = "The old cat that lives next door chased the smaller grey mouse"


@pytest.mark.parametrize("text", [WORDS, " ".join([WORDS] * 33)], ids=["12 words", "400 tokens"])
def test_the_default_model(torch, default, text):
    ids = default.tokens(text).ids
    assert len(ids) == (14 if text is WORDS else 398)
    np.testing.assert_allclose(default(ids), theirs(torch, installed(), ids[None])[0], atol=NEAR, rtol=0)


def test_a_batch_with_padding(torch, default):
    rng = np.random.default_rng(0)
    ids, lengths = rng.integers(1000, 20000, (4, 37)), np.array([37, 5, 20, 1])
    there = np.arange(37) < lengths[:, None]  # (batch, n)
    want = theirs(torch, installed(), ids, there.astype(np.int64))
    found = default(ids, lengths)
    np.testing.assert_allclose(found[there], want[there], atol=NEAR, rtol=0)
    assert np.isfinite(found).all()
    other = np.where(there, ids, 7)  # what stands in the padding disturbs nobody, to the last bit
    assert np.array_equal(default(other, lengths)[there], found[there])


@pytest.mark.parametrize("activation", ["gelu", "gelu_new"])
def test_other_sizes(torch, tmp_path, activation):
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(**SMALL | {"hidden_act": activation})
    BertModel(config, add_pooling_layer=False).save_pretrained(tmp_path)
    model, rng = Encoder.open(tmp_path), np.random.default_rng(0)
    assert (model.layers, model.heads, model.d_model, model.positions) == (2, 3, 21, 40)
    for shape in ((1, 1), (2, 7), (3, 40)):
        ids = rng.integers(0, 50, shape)
        np.testing.assert_allclose(model(ids), theirs(torch, tmp_path, ids), atol=NEAR, rtol=0)


@pytest.fixture(scope="module")
def small():
    return Encoder("small", sizes(SMALL), random_weights(SMALL))


def test_what_each_layer_is_given_is_its_attention(small):
    ids, lengths, met = np.random.default_rng(0).integers(0, 50, (3, 11)), [11, 4, 7], []

    def each(layer, q, k, v, mask, lse):
        assert q.shape == k.shape == v.shape == (3, 3, 11, 7)
        assert lse.dtype == np.float64
        z, again = regard.attention(q, k, v, mask=mask, return_lse=True)
        np.testing.assert_allclose(lse, again, rtol=1e-6, atol=1e-6)
        assert z.shape == q.shape
        met.append(layer)

    with_each = small(ids, lengths, each)
    assert met == [0, 1]
    assert np.array_equal(with_each, small(ids, lengths))  # being looked at changes nothing


def test_a_text_alone_and_in_a_batch(small):
    ids = np.random.default_rng(0).integers(0, 50, (5, 12))
    found = small(ids)
    assert found.shape == (5, 12, 21)
    assert small(ids[3]).shape == (12, 21)
    np.testing.assert_allclose(small(ids[3]), found[3], atol=1e-5)
    assert np.array_equal(small(ids, [12] * 5), found)


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0)])
def test_nothing(small, shape):
    assert small(np.zeros(shape, np.int64)).shape == (*shape, 21)


def test_the_same_bits_on_any_number_of_threads(small):
    ids = np.random.default_rng(0).integers(0, 50, (40, 40))
    found = []
    try:
        for count in (1, 2, 3):
            regard.threads(count)
            found.append(small(ids))
    finally:
        regard.threads(0)
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


@pytest.mark.parametrize(
    ("ids", "lengths", "kind", "words"),
    [
        (np.zeros(41, int), None, LimitError, "the text has 41 tokens and small has 40 positions"),
        (np.zeros((1, 1, 4), int), None, ShapeError, "ids has shape"),
        (np.zeros(4), None, DtypeError, "ids has dtype float64"),
        ([3, 50], None, TokenError, "ids has 50, expected 0 to 49"),
        ([3, -1], None, TokenError, "ids has -1, expected 0 to 49"),
        ([3, 1], [1, 2], ShapeError, "lengths came as int64 of shape (2,)"),
        ([3, 1], [3], ShapeError, "lengths go from 3 to 3, expected 0 to 2"),
        ([3, 1], [0.5], ShapeError, "lengths came as float64"),
    ],
)
def test_what_is_refused(small, ids, lengths, kind, words):
    with pytest.raises(kind) as caught:
        small(ids, lengths)
    assert words in str(caught.value)


def test_text_needs_a_tokenizer(small):
    with pytest.raises(ModelError, match="without a tokenizer"):
        small.tokens("a")


def test_weights_under_another_name(tmp_path, small):
    path = folder(tmp_path / "there", prefix="bert.")
    ids = np.arange(12)
    assert np.array_equal(Encoder.open(path)(ids), small(ids))
    assert repr(Encoder.open(path)) == "there: 2 layers × 3 heads, 40 positions"


def test_half_precision_weights(tmp_path, small):
    halves = {name: x.astype(np.float16) for name, x in random_weights(SMALL).items()}
    found = Encoder.open(folder(Path(tmp_path), halves))(np.arange(12))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, small(np.arange(12)), atol=0.05)
