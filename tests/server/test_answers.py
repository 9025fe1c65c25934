"""Every other route against the numbers of the lens."""

from __future__ import annotations

import csv
import io
import json
from itertools import pairwise

import numpy as np
import pytest

import regard
from regard.lens.explain import explain
from regard.view.server import answers, base, holdings, numbers, overviews
from regard.view.server.memory import Memory, MemoryText
from tests.server.asking import HEAD, SECRET, WORDS, arrays, held, sentence, serving, until

L1 = "r=0&x=0&l=1&h=2"


def causal(n: int = 300, heads: int = 2) -> regard.AttentionMatrix:
    return regard.matrix(*arrays(heads, n, n), mask=regard.causal)


def test_about() -> None:
    cross = regard.matrix(*arrays(2, 3, 5), mask=regard.causal)
    with serving(sentence(), held(cross, tokens=None)) as client:
        said = client.get("about").said
    first, second = said["recordings"]
    assert (first["r"], first["name"], first["model"], first["notes"]) == (0, "run.regard", {"name": "a model"}, [])
    text = first["texts"][0]
    assert (text["title"], text["n"]) == ("The cats chased a mouse, and the mouse ran", 13)
    assert text["n_words"] == 12
    assert text["layers"][1] == {
        "l": 1,
        "name": "1",
        "heads": 3,
        "n_q": 13,
        "n_k": 13,
        "d": 8,
        "grouped": False,
        "masked": False,
        "values": True,
    }
    other = second["texts"][0]["layers"][0]
    assert (other["n_q"], other["n_k"], other["masked"], other["values"]) == (3, 5, True, False)


def test_a_recording_from_disk(tmp_path: object) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.standard_normal((3, 4, 6, 8), dtype=np.float32)
    path = f"{tmp_path}/run.regard"
    with regard.recording(path, tokens=list("abcdef"), model="tiny", notes=["synthetic"], values=True) as made:
        made.layer(q, k, v, mask=regard.causal)
        made.layer(q[:, :2], k[:1], v[:1])
    with serving(holdings.Recorded(regard.open(path), "run.regard")) as client:
        said = client.get("about").said["recordings"][0]
        assert said["notes"] == ["synthetic"]
        assert said["texts"][0]["layers"][1]["grouped"] is True
        found = client.tile("r=0&x=0&l=0&h=3&a=0&b=0&i=0&j=0")
        np.testing.assert_allclose(np.where(found == -np.inf, 0, found), regard.open(path)[0, 3], rtol=1e-6)
        assert client.tile("r=0&x=0&l=1&h=3&a=0&b=0&i=0&j=0&of=length").shape == (2, 6)


def test_tokens() -> None:
    with serving(sentence()) as client:
        said = client.get("tokens", "r=0&x=0&l=0").said
        assert (said["from"], said["total"], said["tokens"], said["key_tokens"]) == (0, 13, WORDS, None)
        assert said["special"] == [0, 12]
        assert [said["text"][a:b] for a, b in said["offsets"]][1:5] == ["The", "cat", "s", "chased"]
        assert 3 not in said["words"]  # ##s continues a word
        assert set(range(13)) - set(said["words"]) == {3}
        part = client.get("tokens", "r=0&x=0&l=0&from=2&count=3").said
        assert (part["tokens"], part["words"], part["special"]) == (WORDS[2:5], [2, 4], [])
        words = client.get("tokens", "r=0&x=0&l=0&unit=words").said
        assert words["tokens"][1:3] == ["The", "cats"]
        assert words["total"] == 12
        assert client.get("tokens", "r=0&x=0&l=0&from=14").status == 400
        assert client.get("tokens", "r=0&x=0&l=0&count=65537").status == 400
    with serving(held(regard.matrix(*arrays(1, 3, 5)), tokens=None)) as client:
        said = client.get("tokens", "r=0&x=0&l=0").said
        assert (said["tokens"], said["named"], said["total"]) == (["0", "1", "2", "3", "4"], False, 5)


def test_a_cell_and_its_sentence() -> None:
    recorded = sentence()
    matrix = recorded.recording.texts[0].matrix(1)
    with serving(recorded) as client:
        said = client.get("cell", f"{L1}&i=4&j=6").said
        weights = np.asarray(matrix[2, 4], np.float64)
        assert said["sentence"].replace("L1H2", "head 2") == explain(matrix, 4, 6, 2)
        assert "L1H2" in said["sentence"]
        assert said["weight"] == pytest.approx(weights[6], rel=1e-6)
        assert said["even"] == pytest.approx(1 / 13)
        assert said["times"] == pytest.approx(13 * weights[6], rel=1e-6)
        assert said["effective"] == pytest.approx(np.exp(-(weights * np.log(weights)).sum()), rel=1e-6)
        assert (said["visible"], said["hidden"], said["nan"]) == (13, False, False)
        order = np.argsort(-weights, kind="stable")[:5]
        assert [(j, token) for j, token, _ in said["row_top"]] == [(j, WORDS[j]) for j in order]
        column = np.asarray(matrix[2, :, 6])
        assert [i for i, _, _ in said["column_top"]] == np.argsort(-column, kind="stable")[:5].tolist()
        every = [[layer, h, w] for layer, h, w in said["heads"]]
        assert [x[:2] for x in every] == [[layer, h] for layer in range(2) for h in range(3)]
        assert every[5][2] == pytest.approx(weights[6], rel=1e-6)
        assert "does not say why" in said["caution"]


def test_cells_that_are_hidden_broken_or_seen_otherwise() -> None:
    matrix = causal(5)
    with serving(held(matrix)) as client:
        said = client.get("cell", f"{HEAD}&i=1&j=3").said
        assert (said["hidden"], said["weight"], said["times"], said["visible"]) == (True, None, None, 2)
        assert "cannot see" in said["sentence"]
        assert said["heads"] == [[0, 0, None], [0, 1, None]]
        assert len(said["row_top"]) == 2
        assert client.get("cell", f"{HEAD}&i=5&j=3").status == 400
    q, k = arrays(1, 4, 4)
    q[0, 1] = np.nan
    with serving(held(regard.matrix(q, k))) as client:
        said = client.get("cell", f"{HEAD}&i=1&j=0").said
        assert (said["nan"], said["weight"], said["hidden"]) == (True, None, False)
        assert "NaN" in said["sentence"]
    recorded = sentence()
    first = recorded.recording.texts[0].matrix(0)
    with serving(recorded) as client:
        said = client.get("cell", f"{HEAD}&i=4&j=6&without=0,12").said
        assert said["weight"] == pytest.approx(float(first.without([0, 12])[0, 4, 6]), rel=1e-6)
        assert said["sentence"].endswith("This is without [CLS] and [SEP]; not the model's weights.")
        words = first.words(recorded.recording.texts[0].text)
        said = client.get("cell", f"{HEAD}&i=2&j=3&unit=words").said
        assert said["weight"] == pytest.approx(float(words[0, 2, 3]), rel=1e-6)
        assert "'cats'" in said["sentence"]
        said = client.get("cell", f"{HEAD}&i=2&j=3&of=length").said
        assert said["weight"] == pytest.approx(float(first.norms()[0, 2, 3]), rel=1e-6)


def test_a_pass_is_not_begun_for_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """A column needs the lse of all rows: while that is not known, and takes long, it is left out, and said to be."""
    monkeypatch.setattr(answers, "COLUMN", 5e5)
    matrix = causal(100)
    with serving(held(matrix)) as client:
        said = client.get("cell", f"{HEAD}&i=50&j=3").said
        assert (said["column_known"], said["column_top"], len(said["row_top"])) == (False, [], 5)
        assert client.get("arcs", f"{HEAD}&i=50").said["column_known"] is False
        assert not matrix.weights.known(range(100)).all()
        client.get("tile", f"{HEAD}&a=0&b=0&i=0&j=0")
        said = client.get("cell", f"{HEAD}&i=50&j=3").said
        assert (said["column_known"], len(said["column_top"])) == (True, 5)


def test_many_texts_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(holdings, "LAYERS", 7)
    one = MemoryText([causal(3, 1)] * 3, tokens=list("abc"))
    with serving(holdings.Recorded(Memory([one] * 20), "many")) as client:
        said = client.get("about").said["recordings"][0]
        assert (said["count"], [x["x"] for x in said["texts"]]) == (20, [0, 1])
        assert client.get("tokens", "r=0&x=19&l=2").status == 200


def test_rows_and_columns() -> None:
    matrix = causal()
    whole = np.asarray(matrix[1], np.float64)
    with serving(held(matrix)) as client:
        head = "r=0&x=0&l=0&h=1"
        row = client.get("row", f"{head}&i=100").values
        np.testing.assert_allclose(row[:101], whole[100, :101], rtol=1e-6)
        assert (row[101:] == -np.inf).all()
        column = client.get("column", f"{head}&j=100").values
        np.testing.assert_allclose(column[100:], whole[100:, 100], rtol=1e-6)
        answer = client.get("row", f"{head}&i=299&bins=7")
        size = answer.head["size"]
        assert len(answer.values) <= 7
        np.testing.assert_allclose(
            answer.values, [whole[299, a : a + size].max() for a in range(0, 300, size)], rtol=1e-6
        )
        assert client.get("row", f"{head}&i=300").status == 400


def test_a_row_as_a_table() -> None:
    recorded = sentence()
    with serving(recorded) as client:
        answer = client.get("row.csv", f"{HEAD}&i=3")
        assert answer.headers["content-type"] == "text/csv; charset=utf-8"
        assert answer.headers["content-disposition"] == 'attachment; filename="L0H0-3.csv"'
        lines = list(csv.reader(io.StringIO(answer.body.decode())))
    assert lines[0] == ["key", "token", "weight"]
    assert [x[1] for x in lines[1:]] == WORDS
    np.testing.assert_allclose([float(x[2]) for x in lines[1:]], recorded.recording.texts[0].matrix(0)[0, 3], rtol=1e-6)


@pytest.mark.parametrize("long", [False, True])
def test_profiles(long: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read whole, and from a base."""
    matrix = causal(300)
    if long:
        monkeypatch.setattr(base, "LONG", 0)
        monkeypatch.setattr(base, "MOST", 64)
        monkeypatch.setattr(numbers, "SAMPLED", 300)
    whole = np.asarray(matrix[0], np.float64)
    seen = np.tri(300, dtype=bool)
    with serving(held(matrix)) as client:
        until(lambda: client.get("profile", f"{HEAD}&axis=rows&bins=20").status == 200)
        answer = client.get("profile", f"{HEAD}&axis=rows&bins=20")
        assert answer.head["names"] == ["peak", "entropy"]
        peak, entropy = answer.values.reshape(2, -1)
        size = answer.head["size"]
        at = range(0, 300, size)
        np.testing.assert_allclose(peak, [whole[a : a + size].max() for a in at], rtol=1e-6)
        each = -np.sum(whole * np.log(np.where(whole > 0, whole, 1)), axis=1)
        if long:  # of rows that stand for the others
            assert all(
                each[a : a + size].min() - 1e-5 <= x <= each[a : a + size].max() + 1e-5
                for a, x in zip(at, entropy, strict=True)
            )
        else:
            np.testing.assert_allclose(entropy, [each[a : a + size].mean() for a in at], rtol=1e-5, atol=1e-6)
        answer = client.get("profile", f"{HEAD}&axis=keys&bins=20")
        assert answer.head["names"] == ["received", "largest"]
        received, largest = answer.values.reshape(2, -1)
        size = answer.head["size"]
        np.testing.assert_allclose(largest, [whole[:, a : a + size].max() for a in range(0, 300, size)], rtol=1e-6)
        if long:
            wanted = [whole[:, a : a + size].sum() / seen[:, a : a + size].sum() for a in range(0, 300, size)]
        else:
            mean = matrix.received(per="visible")[0]
            wanted = [mean[a : a + size].mean() for a in range(0, 300, size)]
        np.testing.assert_allclose(received, wanted, rtol=1e-5)


@pytest.mark.parametrize("pool", ["max", "mean", "sum"])
def test_distances(pool: str) -> None:
    matrix = causal(70)
    whole = np.asarray(matrix[0], np.float64)
    with serving(held(matrix)) as client:
        answer = client.get("distance", f"{HEAD}&rows=7&columns=9&pool={pool}")
    edges, rows = answer.head["edges"], 10
    assert edges[0] == 0
    assert edges[-1] == 70
    assert (answer.head["rows"], answer.head["columns"], answer.head["sampled"]) == (7, len(edges) - 1, 0)
    found = answer.values.reshape(7, -1)
    for r in range(7):
        for c, (near, far) in enumerate(pairwise(edges)):
            cells = [[whole[i, i - e] for e in range(near, far) if i - e >= 0] for i in range(r * rows, (r + 1) * rows)]
            flat = [x for row in cells for x in row]
            if pool == "sum":
                wanted = sum(flat) / rows if flat else -np.inf
            else:
                wanted = -np.inf if not flat else max(flat) if pool == "max" else float(np.mean(flat))
            assert found[r, c] == pytest.approx(wanted, rel=1e-5)


def test_distances_ahead_and_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = regard.matrix(*arrays(1, 40, 40))
    monkeypatch.setattr(base, "LONG", 0)
    monkeypatch.setattr(numbers, "SAMPLED", 8)
    with serving(held(matrix)) as client:
        answer = client.get("distance", f"{HEAD}&rows=8&columns=80&pool=mean")
    edges = np.array(answer.head["edges"])
    assert (edges[0], edges[-1], answer.head["sampled"]) == (-39, 40, 8)
    found, whole = answer.values.reshape(8, -1), np.asarray(matrix[0])
    i = 2  # the middle of the first five
    assert found[0, edges.tolist().index(2)] == pytest.approx(whole[i, i - 2], rel=1e-6)
    assert found[0, edges.tolist().index(-3)] == pytest.approx(whole[i, i + 3], rel=1e-6)


def test_skyline_and_arcs() -> None:
    recorded = sentence()
    matrix = recorded.recording.texts[0].matrix(1)
    with serving(recorded) as client:
        np.testing.assert_allclose(
            client.get("skyline", f"{L1}&bins=20").values, np.asarray(matrix[2]).max(0), rtol=1e-6
        )
        np.testing.assert_allclose(client.get("skyline", f"{L1}&bins=20&i=3").values, matrix[2, 3], rtol=1e-6)
        said = client.get("arcs", f"{L1}&i=3&top=2").said
        row, column = np.asarray(matrix[2, 3]), np.asarray(matrix[2, :, 3])
        assert [j for j, _, _ in said["looks_at"]] == np.argsort(-row)[:2].tolist()
        assert [i for i, _, _ in said["looked_at_by"]] == np.argsort(-column)[:2].tolist()
        assert said["looks_at"][0][1:] == [WORDS[np.argmax(row)], pytest.approx(float(row.max()), rel=1e-6)]


def test_a_skyline_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "LONG", 0)
    monkeypatch.setattr(numbers, "SAMPLED", 16)
    matrix = causal(64)
    with serving(held(matrix)) as client:
        answer = client.get("skyline", f"{HEAD}&bins=64")
        assert answer.head["sampled"] == 16
        some = np.asarray(matrix[0])[2::4]
        np.testing.assert_allclose(np.maximum(answer.values, 0), some.max(0), rtol=1e-6)
        client.get("base", HEAD)
        until(lambda: client.get("base", HEAD).said["state"] == "done")
        assert client.get("skyline", f"{HEAD}&bins=64").head["sampled"] == 0


def test_search() -> None:
    with serving(sentence()) as client:
        said = client.get("search", "r=0&x=0&q=MOUSE").said
        assert said["total"] == 2
        assert [(i, token) for i, token, _, _ in said["hits"]] == [(6, "mouse"), (10, "mouse")]
        assert said["hits"][0][2:] == ["The cats chased a ", ", and the mouse ran"]
        assert client.get("search", "r=0&x=0&q=mouse&from=1").said["hits"][0][0] == 10
        assert [i for i, *_ in client.get("search", "r=0&x=0&q=ats+ch").said["hits"]] == [2]
        assert client.get("search", "r=0&x=0&q=").said == {"total": 0, "hits": []}
        assert client.get("search", "r=0&x=0&q=nothing").said["total"] == 0
        assert client.get("search", f"r=0&x=0&q={'x' * 201}").status == 413
    matrix = regard.matrix(*arrays(1, 13, 13), tokens=WORDS)
    with serving(held(matrix)) as client:  # no text: the tokens themselves
        assert [i for i, *_ in client.get("search", "r=0&x=0&q=the+cats+chased").said["hits"]] == [1]


def test_steps() -> None:
    n = 5
    q, k = arrays(2, n, n)
    v = np.random.default_rng(1).standard_normal((2, n, 3), dtype=np.float32)
    matrix = regard.matrix(q, k, v=v, mask=regard.causal, tokens=list("abcde"))
    with serving(held(matrix)) as client:
        said = client.get("steps", "r=0&x=0&l=0&h=1&i=2").said
        np.testing.assert_allclose(said["scores"], q[1].astype(float) @ k[1].T, atol=1e-5)
        np.testing.assert_allclose(np.array(said["scaled"]) * np.sqrt(8), said["scores"], atol=1e-4)
        assert said["final"][0][1] is None
        np.testing.assert_allclose(said["weights"], matrix[1], atol=1e-6)
        np.testing.assert_allclose(said["output"], matrix.output()[1], atol=1e-5)
        assert said["tokens"] == list("abcde")
    with serving(held(causal(17))) as client:
        assert client.get("steps", HEAD).status == 413


def test_designed_heads() -> None:
    with serving(sentence()) as client:
        weak, strong = (
            np.array(client.get("designed", f"name=previous_token&n=6&strength={s}").said["weights"]) for s in (0, 30)
        )
        np.testing.assert_allclose(weak, 1 / 6, atol=1e-6)
        assert (strong[1:].argmax(1) == np.arange(5)).all()
        assert strong[1:].max(1).min() > 0.99
        for name in ("next_token", "first_token", "current_token", "local"):
            assert client.get("designed", f"name={name}&n=4").status == 200
        assert client.get("designed", "name=other").status == 400
        assert client.get("designed", "n=17").status == 400


def test_two_heads_compared() -> None:
    recorded = sentence()
    matrix = recorded.recording.texts[0].matrix(0)
    other = recorded.recording.texts[0].matrix(1)
    wanted = matrix.select(heads=[1]).compare(other.select(heads=[2]))
    with serving(recorded) as client:
        said = client.get("compare", "r=0&x=0&l=0&h=1&minus=0.0.1.2").said
        assert said["distance"] == pytest.approx(float(wanted.heads[0]), rel=1e-5)
        np.testing.assert_allclose(said["rows"], wanted.rows[0], rtol=1e-4)
        assert said["same_tokens"] is True
        assert client.get("compare", "r=0&x=0&l=0&h=1&minus=0.0.0.1").said["distance"] == pytest.approx(0, abs=1e-6)
    with serving(recorded, held(causal(5))) as client:
        answer = client.get("compare", "r=0&x=0&l=0&h=1&minus=1.0.0.0")
        assert answer.status == 400
        assert "expected the same shape" in answer.said["error"]


def test_small_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    matrix = causal(100, 3)
    with serving(held(matrix)) as client:
        for pool in ("max", "mean"):
            answer = client.get("thumbs", f"r=0&x=0&l=0&size=20&pool={pool}")
            assert answer.head == {"heads": 3, "size": 20, "rows": 20, "columns": 20, "sampled": 0}
            found = answer.values.reshape(3, 20, 20)
            wanted = matrix.heatmap(20, pool=pool)
            np.testing.assert_array_equal(found == -np.inf, np.isnan(wanted))
            np.testing.assert_allclose(np.where(found == -np.inf, np.nan, found), wanted, rtol=1e-5)
    with serving(sentence()) as client:
        assert client.get("thumbs", "r=0&x=0&l=0&size=48").head["rows"] == 13
        monkeypatch.setattr(overviews, "PIXELS", 500)
        assert client.get("thumbs", "r=0&x=0&l=0&size=48").status == 413


def test_small_pictures_of_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(overviews, "EXACT", 50)
    monkeypatch.setattr(overviews, "SAMPLED", 10)
    matrix = causal(100, 1)
    with serving(held(matrix)) as client:
        answer = client.get("thumbs", "r=0&x=0&l=0&size=5")
    assert answer.head["sampled"] == 10
    some = np.asarray(matrix[0])[5::10]  # the middle of each of ten
    wanted = some.reshape(5, 2, 5, 20).max((1, 3))
    found = answer.values.reshape(5, 5)
    np.testing.assert_allclose(np.where(found == -np.inf, 0, found), wanted, rtol=1e-6)
    assert (found == -np.inf).any()


def test_overview() -> None:
    n = 12
    before = 40 * np.eye(n, k=-1, dtype=np.float32)
    q, k = np.stack([before, np.zeros_like(before)]), np.eye(n, dtype=np.float32)[None].repeat(2, axis=0)
    tokens = ["[CLS]", *"abcdefghij", "[SEP]"]
    with serving(held(regard.matrix(q, k, scale=1.0, tokens=tokens))) as client:
        said = client.get("overview", "r=0&x=0").said
        assert [(x["l"], x["h"], x["letter"], x["name"]) for x in said["heads"]] == [
            (0, 0, "P", "previous token"),
            (0, 1, None, None),
        ]
        assert said["sinks"] == "none of 2 heads rests mostly on [CLS] and [SEP]"
        lead = said["telling"][0]
        assert (lead["l"], lead["h"], lead["i"] - lead["j"]) == (0, 0, 1)
        assert lead["sentence"].startswith(f"'{tokens[lead['i']]}' gives ")
        assert said["lesson"] == "This head gives 100 % to the previous token whatever it is."
        assert said["summary"] == "a model · 1 × 2 heads · 12 tokens · reads both directions"
        assert client.get("overview", "r=0&x=0&l=0").said["heads"] == said["heads"]
        assert client.get("overview", "r=0&x=0&l=1").status == 404


@pytest.mark.parametrize(("row", "told"), [(None, [(0, 0), (0, 1)]), (30, [(0, 0)]), (29, [(0, 0), (0, 1)])])
def test_of_a_sample_only_a_bright_cell_is_told(
    row: int | None, told: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where most queries were not seen, the brightest of the others tells nothing; without a sample it does."""
    n = 64
    q = np.stack([40 * np.eye(n, k=-1), 2 * np.eye(n)[::-1]]).astype(np.float32)
    if row is not None:
        monkeypatch.setattr(overviews, "FULL", 1)  # the queries 0, 4, 8, … 29, 34 …: 30 is not among them
        monkeypatch.setattr(overviews, "SAMPLE", 1)
        q[1, row, 7] = 20
    matrix = regard.matrix(
        q, np.eye(n, dtype=np.float32)[None].repeat(2, axis=0), scale=1.0, tokens=list(map(str, range(n)))
    )
    with serving(held(matrix)) as client:
        said = client.get("overview", "r=0&x=0").said
    assert said["sampled"] == (0 if row is None else 16)
    assert sorted((head["l"], head["h"]) for head in said["telling"]) == told


def test_numbers_are_json_even_where_they_are_none() -> None:
    """NaN is no JSON."""
    q, k = arrays(2, 6, 6)
    q[:] = np.nan
    with serving(held(regard.matrix(q, k, tokens=list("abcdef")))) as client:
        for route, query in (
            ("overview", "r=0&x=0"),
            ("cell", f"{HEAD}&i=0&j=0"),
            ("arcs", f"{HEAD}&i=0"),
            ("steps", HEAD),
            ("compare", f"{HEAD}&minus=0.0.0.1"),
        ):
            answer = client.raw(f"/{SECRET}/api/{route}?{query}")
            assert answer.status == 200, (route, answer.body)
            json.loads(answer.body, parse_constant=pytest.fail)


def test_what_is_asked_first_is_there_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once for all who ask at the same time; of long texts it is not begun unasked."""
    calls: list[int] = []
    plain = overviews._overview

    def counted(*arguments: object) -> object:
        calls.append(1)
        return plain(*arguments)  # type: ignore[arg-type]  # handed on

    monkeypatch.setattr(overviews, "_overview", counted)
    with serving(sentence()) as client:
        client.app.begin()
        assert [client.get("overview", "r=0&x=0").status for _ in range(3)] == [200] * 3
        assert calls == [1]
    monkeypatch.setattr(overviews, "SOON", 1)
    with serving(sentence()) as client:
        overviews.first(client.app.server, client.app.early)
        assert calls == [1]
    with serving() as client:
        overviews.first(client.app.server, client.app.early)
        assert client.get("about").said["recordings"] == []
