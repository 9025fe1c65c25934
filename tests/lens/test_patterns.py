"""Patterns against the same measures on a built A, and on heads that are made to have them."""

from __future__ import annotations

import time
import tracemalloc
from typing import Any

import numpy as np
import pytest

import regard
from regard import lens
from regard.errors import DtypeError, QuestionError, ShapeError
from regard.lens import even
from regard.lens.links import pairs
from regard.lens.table import Patterns

Array = np.ndarray[Any, Any]
LETTERS = ["a", "b", "a.", ".", "##,", "[CLS]", "</s>", "c", "d"]


def looking(at: Array, strength: float = 60.0, **options: Any) -> regard.AttentionMatrix:
    """A head whose query i puts all of its weight on key at[i], wherever it sees it."""
    n_q, n_k = len(at), options.pop("n_k", len(at))
    q = np.zeros((n_q, n_k), np.float32)
    q[np.flatnonzero(at >= 0), at[at >= 0]] = strength
    return regard.matrix(q, np.eye(n_k, dtype=np.float32), scale=1.0, **options)


def transformer_lens(a: Array, where: Array, bos: bool = False, current: bool = False) -> Array:
    """TransformerLens' measure: (heads, n, n) weights and a pattern of 0 and 1."""
    a = a.copy()
    if bos:
        a[:, :, 0] = 0
    if current:
        a[:, np.arange(a.shape[1]), np.arange(a.shape[1])] = 0
    return (a * where).sum((1, 2)) / a.sum((1, 2))


def places(q: Array, k: Array, ours: Array, theirs: Array, local: int, both: bool) -> dict[str, Array]:
    """The patterns as n × n masks."""
    back = q[:, None] - k
    before = np.concatenate([[-1], theirs[:-1]])
    same, after = ours[:, None] == theirs, ours[:, None] == before
    i, j = np.arange(len(q))[:, None], np.arange(len(k))
    tokens = np.array([LETTERS[t] for t in theirs], object)
    return {
        "previous_token_head": back == 1,
        "duplicate_token_head": same & ((back != 0) if both else (back > 0)),
        "induction_head": after & ((back != -1) if both else (back >= 0)),
        "next_token": back == -1,
        "current_token": back == 0,
        "first_token": (k == 0) & (back == back),
        "separator": np.isin(tokens, ["[CLS]", "</s>"]) & (back == back),
        "punctuation": np.isin(tokens, [".", "##,"]) & (back == back),
        "local": abs(back) <= local,
        "aligned": (i * len(k) < (j + 1) * len(q)) & (j * len(q) < (i + 1) * len(k)),
    }


def check(found: Patterns, name: str, a: Array, seen: Array, where: Array) -> None:
    """A column of the table against A (heads, n_q, n_k) and what is visible of it."""
    visible = seen.sum(-1)
    for head in range(len(a)):
        inside = seen[head] & where
        there = inside.any(-1)
        mass = np.where(where, a[head], 0)
        column = found[name]
        assert column.rows[head] == there.sum(), name
        total = a[head].sum()
        np.testing.assert_allclose(column.mul[head], mass.sum() / total if total else 0, atol=2e-6, err_msg=name)
        if there.any():
            np.testing.assert_allclose(column.share[head], mass.sum(-1)[there].mean(), atol=2e-6, err_msg=name)
            spread = (inside.sum(-1)[there] / visible[head][there]).mean()
            np.testing.assert_allclose(column.even[head], spread, atol=2e-6, err_msg=name)
        else:
            assert np.isnan(column.share[head]), name
            assert np.isnan(column.even[head]), name


def masks(kind: str, n_q: int, n_k: int, rng: np.random.Generator) -> Any:
    cells = rng.random((n_q, n_k)) < 0.6
    by_head = rng.random((2, n_q, n_k)) < 0.6
    reach = np.array([1, 3])
    return {
        "none": None,
        "causal": regard.causal,
        "window": regard.window(3, 1),
        "prefix": regard.causal | regard.prefix(2),
        "array": cells,
        "array by head": by_head,
        "by head": regard.mask(lambda b, h, q, k: (k <= q) & (q - k <= reach[h])),
        "keys": regard.mask(lambda b, h, q, k: k % 3 != 1),
    }[kind]


KINDS = ("none", "causal", "window", "prefix", "array", "array by head", "by head", "keys")


ADDED = ("", "sinks", "bias", "softcap")
SIZES = ((3, 9), (9, 4)), ((9, 9), (17, 17), (1, 1), (5, 5))  # without tokens and with them


@pytest.mark.parametrize("number", range(len(KINDS)), ids=KINDS)
def test_every_pattern_is_what_a_built_matrix_says(number: int) -> None:
    """Each kind of mask with one of what may be added, with and without tokens, in each direction."""
    for named in (False, True):
        both = (number // 2 + named) % 2 == 1
        shape = SIZES[named][number % (2 + 2 * named)]
        found_as_built(KINDS[number], shape, both, named, ADDED[number // 2 % 4], 16 * number + shape[0])


def found_as_built(kind: str, shape: tuple[int, int], both: bool, named: bool, more: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    n_q, n_k = shape
    q, k = rng.standard_normal((2, n_q, 4)) * 2, rng.standard_normal((2, n_k, 4))
    theirs = rng.integers(0, len(LETTERS), n_k)
    ours = theirs[n_k - n_q :] if n_q <= n_k else rng.integers(0, len(LETTERS), n_q)
    options: dict[str, Any] = {"mask": masks(kind, n_q, n_k, rng)}
    if more == "sinks":
        options["sinks"] = rng.standard_normal(2)
    elif more == "bias":
        options["bias"] = np.where(rng.random((2, n_q, n_k)) < 0.3, -np.inf, 0.5)
    elif more == "softcap":
        options["modify"] = regard.softcap(5.0)
    if named:
        options |= {"tokens": [LETTERS[t] for t in ours], "key_tokens": [LETTERS[t] for t in theirs]}
    A = regard.matrix(q, k, **options)
    a = A.build().astype(np.float64)
    seen = A.scores.build() > -np.inf
    found = A.patterns(None if named else (ours, theirs), local=2, direction="both" if both else "back")
    positions = A.readable().positions
    for name, where in places(*positions, ours, theirs, 2, both).items():
        if name in ("separator", "punctuation") and not named:
            assert name not in found.names
            continue
        check(found, name, a, seen, where)
    visible = seen.sum(-1)
    entropy = -(a * np.log(np.where(a > 0, a, 1))).sum(-1)
    for head in range(2):
        several = visible[head] > 1
        column = found["uniform"]
        assert column.rows[head] == several.sum()
        if several.any():
            expected = (entropy[head][several] / np.log(visible[head][several])).mean()
            np.testing.assert_allclose(column.share[head], expected, atol=2e-6)
        else:
            assert np.isnan(column.share[head])
    assert found.mul.shape == found.share.shape == found.even.shape == found.rows.shape == (2, len(found.names))


@pytest.mark.parametrize(
    ("kind", "bos", "current"),
    [
        *(("causal", bos, current) for bos in (False, True) for current in (False, True)),
        ("none", True, False),
        ("prefix", False, True),
    ],
)
def test_mul_is_transformer_lens(kind: str, bos: bool, current: bool) -> None:
    rng = np.random.default_rng(3)
    n = 23
    q, k = rng.standard_normal((2, 2, n, 4))
    ids = rng.integers(0, 5, n)
    A = regard.matrix(q, k, mask=masks(kind, n, n, rng))
    edges = [(3, 0), (4, 4), (5, 2)]
    found = A.patterns(ids, exclude_bos=bos, exclude_current_token=current, edges=edges)
    a = A.build()
    # Its detection patterns, in its own words: the lower triangle, with the diagonal.
    duplicate = np.tril((ids[:, None] == ids) & ~np.eye(n, dtype=bool))
    shifted = np.concatenate([np.zeros((n, 1), bool), duplicate[:, :-1]], 1)
    its = {
        "previous_token_head": np.eye(n, k=-1),
        "duplicate_token_head": duplicate,
        "induction_head": np.tril(shifted),
    }
    theirs = np.zeros((n, n))
    theirs[tuple(np.transpose(edges))] = 1
    for name, where in (its | {"edges": theirs}).items():
        np.testing.assert_allclose(found[name].mul, transformer_lens(a, where, bos, current), rtol=1e-5, err_msg=name)
    plain = A.patterns(ids, edges=edges)
    assert np.array_equal(found.share, plain.share, equal_nan=True)


def test_a_perfect_previous_token_head() -> None:
    n = 11
    found = looking(np.arange(-1, n - 1), mask=regard.causal).patterns()
    column = found["previous_token_head"]
    assert column.mul == pytest.approx((n - 1) / n)
    assert column.share == pytest.approx(1)
    assert column.rows == n - 1
    assert column.even == pytest.approx(np.mean(1 / np.arange(2, n + 1)))
    (named,) = found.named()
    assert (named.name, str(named)) == ("previous_token_head", "previous token 100 %")


@pytest.mark.parametrize(
    ("name", "at", "options"),
    [
        ("next_token", lambda n: np.minimum(np.arange(1, n + 1), n - 1), {}),
        ("first_token", lambda n: np.zeros(n, int), {}),
        ("current_token", np.arange, {}),
        ("separator", lambda n: np.full(n, n - 1), {"tokens": [*"abcdefghijk", "[SEP]"]}),
        ("punctuation", lambda n: np.full(n, n - 1), {"tokens": [*"abcdefghijk", "."]}),
    ],
)
def test_heads_made_for_a_pattern_have_its_name(name: str, at: Any, options: Any) -> None:
    n = 12
    found = looking(at(n), **options).patterns()
    assert found[name].share == pytest.approx(1, abs=1e-5) or name == "next_token"
    assert found.named()[0].name == name


def test_a_translation_head_is_aligned() -> None:
    n_q, n_k = 20, 31
    found = looking(np.arange(n_q) * n_k // n_q, n_k=n_k).patterns()
    assert found["aligned"].share == pytest.approx(1)
    assert found.named()[0].name == "aligned"


def test_an_even_head_is_uniform_and_has_no_name() -> None:
    x = np.zeros((6, 2), np.float32)
    found = regard.matrix(x, x, mask=regard.causal).patterns()
    assert found["uniform"].share == pytest.approx(1)
    assert found["uniform"].rows == 5
    assert found.named()[0].name is None
    assert str(found).startswith("no simple pattern")
    one = regard.matrix(x[:1], x[:1]).patterns()
    assert one["uniform"].rows == 0
    assert np.isnan(one["uniform"].share)


def induction_head(ids: Array) -> Array:
    """Where an induction head looks: just after the last place of the same token before, else at the first key."""
    at = np.zeros(len(ids), int)
    for i, token in enumerate(ids):
        before = np.flatnonzero(ids[:i] == token)
        at[i] = before[-1] + 1 if len(before) else 0
    return at


@pytest.mark.parametrize(("n", "named"), [(25, True), (20, True), (19, False)])
def test_induction_on_repeated_tokens_is_named_from_20_rows_on(n: int, named: bool) -> None:
    ids = lens.repeated(n, seed=4, vocabulary=1000, bos=7)
    found = looking(induction_head(ids), mask=regard.causal).patterns(ids)
    column = found["induction_head"]
    assert column.rows == n
    assert column.share == pytest.approx(1)
    assert column.mul == pytest.approx(n / (2 * n + 1))
    assert (found.named()[0].name == "induction_head") is named


def test_a_duplicate_token_head() -> None:
    ids = lens.repeated(25, seed=1)
    at = np.where(np.arange(50) < 25, 0, np.arange(50) - 25)
    found = looking(at, mask=regard.causal).patterns(ids)
    assert found.named()[0].name == "duplicate_token_head"
    assert found["duplicate_token_head"].rows == 25
    assert found["induction_head"].share < 0.01


def test_both_directions() -> None:
    ids = lens.repeated(25, seed=1)
    ahead = np.where(np.arange(50) < 25, np.arange(50) + 25, np.arange(50) - 25)
    A = looking(ahead)
    assert A.patterns(ids, direction="both")["duplicate_token_head"].share == pytest.approx(1)
    assert A.patterns(ids)["duplicate_token_head"].rows == 25
    assert A.patterns(ids, direction="both")["induction_head"].rows == 49  # nothing stands after the last token


@pytest.mark.parametrize("kind", KINDS)
def test_counting_and_asking_an_even_matrix_agree(kind: str) -> None:
    rng = np.random.default_rng(8)
    q, k = rng.standard_normal((2, 2, 13, 4))
    A = regard.matrix(q, k, mask=masks(kind, 13, 13, rng))
    ids = rng.integers(0, 4, 13)
    usual = A.patterns(ids, edges=[(3, 1), (3, 2), (9, 9)])
    for twin in (even.even_twin(A), even.Spread(A)):
        rows = twin.mass(regard.mask(lambda b, h, q, k: q - k == 1)).rows
        np.testing.assert_allclose(rows.sum(-1) / (rows > 0).sum(-1), usual["previous_token_head"].even, atol=1e-6)


def test_where_the_visible_keys_lie_side_by_side_nothing_is_asked_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(8)
    q, k = rng.standard_normal((2, 2, 13, 4))
    asked = []
    monkeypatch.setattr(even, "_asked", lambda *x: asked.append(x))
    for kind in ("none", "causal", "window", "by head"):
        regard.matrix(q, k, mask=masks(kind, 13, 13, rng)).patterns(np.arange(13))
    assert not asked


def test_special_keys_can_be_chosen() -> None:
    A = looking(np.full(6, 2), tokens=["a", "b", "x", "a", "x", "."])
    for special in (2, [2], "x", ["x"], np.array([2, 4]), [False, False, True, False, True, False]):
        assert A.patterns(special=special)["separator"].share == pytest.approx(1)
    assert A.patterns()["separator"].rows == 0
    with pytest.raises(ShapeError, match="special cannot choose from 6 keys"):
        A.patterns(special=[9])


def test_masks_of_your_own() -> None:
    rng = np.random.default_rng(5)
    q, k = rng.standard_normal((2, 2, 13, 4))
    odd = rng.random((13, 13)) < 0.4
    A = regard.matrix(q, k, mask=regard.causal)
    own = {"odd": odd, "by head": regard.mask(lambda b, h, q, k: (k + h) % 2 == 0)}
    found = A.patterns(where=own)
    assert found.names[-2:] == ("odd", "by head")
    a, seen = A.build().astype(np.float64), np.broadcast_to(np.tri(13, dtype=bool), (2, 13, 13))
    check(found, "odd", a, seen, odd)
    inside = [np.broadcast_to((np.arange(13) + h) % 2 == 0, (13, 13)) for h in range(2)]
    np.testing.assert_allclose(found["by head"].mul, [(a[h] * inside[h]).sum() / a[h].sum() for h in range(2)], 1e-5)


# Edges.


def test_edges_of_every_kind_are_the_same() -> None:
    sentence = lens.sentences()[0]
    n = len(sentence.tokens)
    linked = sorted(pair for group in sentence.edges.values() for pair in group)
    spans = [(sentence.spans[i], sentence.spans[j]) for i, j in linked]
    assert pairs(linked, n, n).tolist() == [list(x) for x in linked]
    assert pairs(spans, n, n, offsets=sentence.spans).tolist() == [list(x) for x in linked]
    assert pairs(sentence.conllu, n, n, sentence.tokens).tolist() == [list(x) for x in linked]
    assert pairs(sentence.conllu, n, n, offsets=sentence.spans).tolist() == [list(x) for x in linked]
    assert [sentence.text[a:b] for a, b in sentence.spans] == list(sentence.tokens)


def test_words_of_several_tokens_stand_for_all_of_them() -> None:
    text = "1\tÉcole\t_\t_\t_\t_\t2\tnsubj\t_\t_\n2\truns\t_\t_\t_\t_\t0\troot\t_\tSpaceAfter=No\n"
    text += "3\t.\t_\t_\t_\t_\t2\tpunct\t_\t_\n"
    tokens = ["[CLS]", "ec", "##ole", "runs", ".", "[SEP]"]
    assert pairs(text, 6, 6, tokens).tolist() == [[1, 3], [2, 3], [4, 3]]
    assert pairs(text, 3, 6, tokens).tolist() == [[1, 3]]  # the last three are the queries


def test_words_that_are_written_as_one() -> None:
    rows = ["1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_", "1\tde\t_\t_\t_\t_\t3\tcase\t_\t_", "2\tle\t_\t_\t_\t_\t3\tdet\t_\t_"]
    rows += ["2.1\tx\t_\t_\t_\t_\t_\t_\t_\t_", "3\tpain\t_\t_\t_\t_\t0\troot\t_\t_"]
    assert pairs("\n".join(rows), 2, 2, ["du", "Ġpain"]).tolist() == [[0, 1]]


def test_ten_sentences() -> None:
    all_of_them = lens.sentences()
    assert len(all_of_them) == 10
    for sentence in all_of_them:
        n = len(sentence.tokens)
        assert sum(head == -1 for head in sentence.heads) == 1
        assert all(
            relation == "root" for head, relation in zip(sentence.heads, sentence.relations, strict=True) if head < 0
        )
        for word in range(n):  # every word leads to the root
            steps = 0
            while word >= 0:
                word, steps = sentence.heads[word], steps + 1
                assert steps <= n
        assert all(0 <= b < a < n for a, b in sentence.references)
    assert sum(bool(s.coreference) for s in all_of_them) >= 9
    text = "".join(s.conllu for s in all_of_them)
    tokens = [t for s in all_of_them for t in s.tokens]
    assert len(pairs(text, len(tokens), len(tokens), tokens)) == len(tokens) - 10


def test_edges_stand_beside_the_best_fixed_distance() -> None:
    n = 30
    edges = [(i, i - 1) for i in range(2, n, 2)] + [(i, i - 2) for i in range(3, n, 4)]
    found = looking(np.arange(-1, n - 1), mask=regard.causal).patterns(edges=edges)
    share, beside = found["edges"], found.fixed["edges"]
    assert beside.distance == 1
    assert beside.share == pytest.approx(1)
    assert share.share == pytest.approx(14 / 21)
    assert found.named()[0].name == "previous_token_head"
    assert "at 1 before" in str(found)
    # A head that follows the edges is more than any distance.
    at = np.zeros(n, int)
    for i, j in edges:
        at[i] = j
    follows = looking(at, mask=regard.causal).patterns(edges={"heads": edges})
    assert follows["edges heads"].share == pytest.approx(1)
    assert follows.fixed["edges heads"].share < 0.7
    assert follows.named()[0].name == "edges heads"


def test_edges_of_many_heads_and_of_a_turned_matrix() -> None:
    rng = np.random.default_rng(2)
    q, k = rng.standard_normal((2, 3, 2, 12, 4))
    A = regard.matrix(q, k, mask=regard.causal)
    edges = [(4, 1), (4, 2), (7, 7), (9, 3)]
    found = A.patterns(edges=edges)
    a = A.build()
    expected = (a[..., 4, 1] + a[..., 4, 2] + a[..., 7, 7] + a[..., 9, 3]) / 3
    np.testing.assert_allclose(found["edges"].share, expected, 1e-5)
    assert found["edges"].share.shape == (3, 2)
    assert found.fixed["edges"].distance.shape == (3, 2)
    assert found.labels[3] == "item 1, head 1"
    turned = A.T.patterns(edges=edges)
    assert np.array_equal(found.share, turned.share, equal_nan=True)


# Views, length, text.


def test_a_view_keeps_positions() -> None:
    rng = np.random.default_rng(2)
    q, k = rng.standard_normal((2, 2, 20, 4))
    ids = rng.integers(0, 4, 20)
    A = regard.matrix(q, k, mask=regard.causal, tokens=[LETTERS[i] for i in ids])
    rows, keys = np.array([3, 8, 9, 15, 19]), np.arange(2, 18)
    view = A.select(queries=rows, keys=keys)
    found = view.patterns()
    a, seen = A.build().astype(np.float64)[:, rows][:, :, keys], np.tri(20, dtype=bool)[rows][:, keys]
    back = rows[:, None] - keys
    # What stands before the first key that was selected is not known.
    before = np.concatenate([[-1], ids[keys][:-1]])
    for name, where in {
        "previous_token_head": back == 1,
        "duplicate_token_head": (ids[rows][:, None] == ids[keys]) & (back > 0),
        "induction_head": (ids[rows][:, None] == before) & (back >= 0),
        "punctuation": np.isin(ids[keys], [3, 4]) & (back == back),
        "local": abs(back) <= 4,
    }.items():
        check(found, name, a, np.broadcast_to(seen, a.shape), where)


def test_words_have_positions_of_their_own() -> None:
    A = regard.matrix(
        np.zeros((6, 1)), np.zeros((6, 1)), mask=regard.causal, tokens=["a", "##b", "c", "ab", "##d", "c"]
    )
    found = A.words().patterns()  # ab c abd c
    assert found["previous_token_head"].rows == 3
    assert found["duplicate_token_head"].rows == 1
    # Of the queries of "c", the sixth token, each of six keys gets a sixth; one of them is the other "c".
    np.testing.assert_allclose(found["duplicate_token_head"].share, 1 / 6, rtol=1e-6)
    np.testing.assert_allclose(found["duplicate_token_head"].even, 1 / 4, rtol=1e-6)


def test_patterns_at_length() -> None:
    n = 20_000
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((2, n, 16)).astype(np.float32)
    ids = lens.repeated(n // 2, seed=2)
    A = regard.matrix(q, k, mask=regard.causal)
    before = time.perf_counter()
    tracemalloc.start()
    found = A.patterns(ids, special=[0, 5])
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert time.perf_counter() - before < 300  # the plain form; seconds where the pass is native
    assert most < n * n * 4  # bytes: A itself would be more, and so would a few masks of n × n
    assert found["induction_head"].rows == n // 2
    assert 0 < found["duplicate_token_head"].share < 0.01
    np.testing.assert_allclose(found["first_token"].even, np.mean(1 / np.arange(1, n + 1)))


def test_torch_gets_a_table_too() -> None:
    torch = pytest.importorskip("torch")
    q, k = torch.randn(2, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    found = regard.matrix(q, k, mask=regard.causal).patterns(np.arange(9), edges=[(3, 2)])
    again = regard.matrix(q.numpy(), k.numpy(), mask=regard.causal).patterns(np.arange(9), edges=[(3, 2)])
    assert np.array_equal(found.share, again.share, equal_nan=True)


def test_empty_and_nan() -> None:
    nothing = regard.matrix(np.zeros((0, 4)), np.zeros((0, 4))).patterns()
    assert (nothing.rows == 0).all()
    no_keys = regard.matrix(np.zeros((3, 4)), np.zeros((0, 4)), tokens=[*"abc"], key_tokens=[]).patterns()
    assert (no_keys.rows == 0).all()
    assert (no_keys.mul[: len(no_keys.names) - 3] == 0).all()
    no_heads = regard.matrix(np.zeros((0, 2, 3, 4)), np.zeros((0, 2, 3, 4)), mask=regard.causal).patterns()
    assert no_heads.share.shape == (0, 2, len(no_heads.names))
    assert str(no_heads).splitlines()[0] == "no heads"
    x = np.zeros((4, 2))
    x[2] = np.nan
    broken = regard.matrix(x, np.zeros((4, 2)), mask=regard.causal).patterns()
    assert np.isnan(broken["previous_token_head"].share)
    assert broken.named()[0].name is None


def test_the_table_in_print(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    at = np.arange(-1, 7)
    A = looking(at, strength=1000.0, mask=regard.causal, tokens=[*"abcdefg."])
    assert str(A.patterns(edges=[(3, 2)])).splitlines() == [
        "previous token 100 %",
        "                         share     even      mul    rows",
        "previous_token_head  *   1.000    0.245    0.875       7",
        "duplicate_token_head         –        –        0       0",
        "induction_head               –        –        0       0",
        "next_token                   –        –        0       0",
        "current_token            0.125    0.340    0.125       8",
        "first_token              0.250    0.340    0.250       8",
        "separator                    –        –        0       0",
        "punctuation                  0    0.125        0       1",
        "local, within 4          1.000    0.897    1.000       8",
        "uniform                      0    1.000        –       7",
        "aligned                  0.125    0.340    0.125       8",
        "edges                    1.000    0.250    0.125       1   1.000 at 1 before",
        "share: mean over the rows where the pattern exists, on this text",
        "* at least 0.5 and 3 times an even spread over the visible keys",
    ]


def test_the_table_of_many_heads_fits_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    q, k = 4 * rng.standard_normal((2, 50, 30, 4))
    A = regard.matrix(q, k, mask=regard.causal, tokens=[LETTERS[i] for i in rng.integers(0, 9, 30)])
    found = A.patterns(edges={"subjects": [(4, 1)]})
    for width in (40, 80, 200):
        monkeypatch.setenv("COLUMNS", str(width))
        lines = str(found).splitlines()
        assert all(len(line) <= max(width, 66) for line in lines)  # the legend is a sentence
    assert "heads: no simple pattern" in lines[-3]


def test_messages() -> None:
    A = looking(np.arange(4))
    with pytest.raises(QuestionError, match=r"'induction_head' is not in the table: .* pass ids="):
        A.patterns()["induction_head"]
    with pytest.raises(QuestionError, match="'x' is not in the table: expected one of previous_token_head"):
        A.patterns()["x"]
    with pytest.raises(ShapeError, match=r"ids have shape \(3,\), expected \(4,\): give each key one number"):
        A.patterns([1, 2, 3])
    with pytest.raises(DtypeError, match="ids have dtype float64, expected whole numbers"):
        A.patterns([1.0, 2, 3, 4])
    with pytest.raises(ValueError, match="direction is 'ahead', expected 'back' or 'both'"):
        A.patterns(direction="ahead")
    with pytest.raises(ValueError, match="local is 0, expected a whole number of places"):
        A.patterns(local=0)
    with pytest.raises(ShapeError, match="edges have a pair outside 4 × 4"):
        A.patterns(edges=[(4, 0)])
    with pytest.raises(QuestionError, match="edges are spans of characters, expected the span of each token"):
        A.patterns(edges=[((0, 1), (2, 3))])
    with pytest.raises(QuestionError, match="edges are CoNLL-U, expected tokens"):
        A.patterns(edges=lens.sentences()[0].conllu)
    with pytest.raises(DtypeError, match=r"expected \(query, key\) pairs, pairs of"):
        A.patterns(edges=[(1, 2, 3)])
    with pytest.raises(QuestionError, match="two patterns are called 'local'"):
        A.patterns(where={"local": regard.causal})
    named = looking(np.arange(4), tokens=[*"abcd"])
    with pytest.raises(QuestionError, match="the tokens go on with 'abcd' where the CoNLL-U has 'thecatchased'"):
        named.patterns(edges=lens.sentences()[0].conllu)
    with pytest.raises(QuestionError, match="a line of CoNLL-U has 1 columns, expected 10"):
        named.patterns(edges="a b c")


def test_repeated() -> None:
    ids = lens.repeated(50, seed=3)
    assert ids.dtype == np.int64
    assert len(ids) == 100
    assert len(set(ids.tolist())) == 50
    assert np.array_equal(ids, lens.repeated(50, seed=3))
    assert not np.array_equal(ids, lens.repeated(50, seed=4))
    small = lens.repeated(50, vocabulary=[5, 6], bos=5)
    assert small[0] == 5
    assert set(small[1:].tolist()) == {6}
    assert len(lens.repeated(0)) == 0
    with pytest.raises(ShapeError, match="n is -1, expected a whole number of tokens"):
        lens.repeated(-1)
