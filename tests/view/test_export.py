"""One file that holds the page and its numbers: nothing in it points elsewhere, and the numbers are the matrix's."""

from __future__ import annotations

import base64
import json
import re
from typing import Any

import numpy as np
import pytest

import regard
from regard.view import export
from regard.view.export import document, modules, page
from regard.view.questions import Questions
from regard.view.server.answers import Said
from regard.view.server.asked import Refused
from regard.view.server.base import LONG
from regard.view.server.holdings import Recorded
from regard.view.server.memory import Memory, MemoryText

WORDS = ["[CLS]", "a", "<b>", "</script>", "\u2028", "a"]


def asked(n: int = 6, heads: int = 2, layers: int = 2, words: list[str] | None = None, **terms: Any) -> Questions:
    made = []
    for layer in range(layers):
        x = np.random.default_rng(layer).standard_normal((3, heads, n, 4), dtype=np.float32)
        tokens = words or [f"t{i}" for i in range(n)]
        made.append(regard.matrix(x[0], x[1], v=x[2], tokens=tokens, **terms))
    return Questions([Recorded(Memory([MemoryText(made, tokens=made[0].tokens)], {"name": "a model"}), "run.regard")])


def script(document: str, name: str) -> Any:
    found = re.search(rf'<script type="application/json" id="{name}">(.*?)</script>', document, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def floats(text: str) -> np.ndarray[Any, Any]:
    return np.frombuffer(base64.b64decode(text), "<f4")


def test_modules_stand_after_those_they_import() -> None:
    seen: set[str] = set()
    for name, code in modules():
        assert set(export.ORDER.findall(code)) <= seen, name
        seen.add(name)
    assert {"app.js", "sources.js"} <= seen
    assert "main.js" not in seen


def test_a_module_imports_only_neighbours() -> None:
    for name, code in modules():
        statements = re.findall(r'^(?:import|export)\b[^;]*?\bfrom "([^"]*)"', code, re.MULTILINE)
        assert all(re.fullmatch(r"\./[a-z]+\.js", other) for other in statements), name
        assert "import(" not in code, name


def test_nothing_is_fetched() -> None:
    made = document(asked(), 0, 0, 0, 0)
    head = made[: made.index("<style>")]
    assert "default-src 'none'" in head
    assert "connect-src" not in head
    for attribute in ("src", "href"):
        assert not re.findall(rf'<(?:script|link|img)[^>]* {attribute}="', made)
    assert "@import" not in made
    assert "url(http" not in made


def test_tokens_cannot_leave_their_script() -> None:
    made = document(asked(words=WORDS), 0, 0, 0, 0)
    data = script(made, "data")
    assert data["answers"]["tokens"]["json"]["tokens"] == WORDS
    assert made.count("</script>") == 3
    assert "\u2028" not in made


def test_title_is_text() -> None:
    assert "<title>a &lt;b> &amp; c</title>" in page("", "a <b> & c")


def test_short_text_is_held_whole() -> None:
    questions = asked(mask=regard.causal)
    data = script(document(questions, 0, 0, 1, 0, "l=1&h=0"), "data")
    assert sorted(data["heads"]) == ["0.0", "0.1", "1.0", "1.1"]
    assert data["tiles"] == {}
    assert data["state"] == "l=1&h=0"
    for name, held in data["heads"].items():
        layer, h = map(int, name.split("."))
        matrix = questions.server.holdings.head((0, 0, layer), h)
        exact = np.asarray(matrix)[0].astype(np.float32)
        hidden = np.triu(np.ones((6, 6), bool), 1)
        np.testing.assert_array_equal(floats(held["values"]).reshape(6, 6), np.where(hidden, -np.inf, exact))
        lengths = np.linalg.norm(np.asarray(matrix.v, np.float64)[0], axis=-1)
        np.testing.assert_allclose(floats(held["lengths"]), lengths, rtol=1e-6)
    assert {"distance.1.0", "shares.1.0", "steps.1.0", "thumbs.0", "thumbs.1"} <= set(data["answers"])


def test_sentences_are_those_of_the_server() -> None:
    questions = asked()
    held = script(document(questions, 0, 0, 1, 0), "data")["heads"]
    assert {len(head["said"]) for head in held.values()} == {36}
    said = questions.ask("cell", r=0, x=0, l=1, h=1, i=4, j=2)
    assert isinstance(said, Said)
    assert held["1.1"]["said"]["4.2"] == said.value["sentence"]


def test_sentences_are_those_of_the_strongest_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "SENTENCES", 20)
    held = script(document(asked(), 0, 0, 1, 0, "i=2&j=5"), "data")["heads"]
    weights = floats(held["1.0"]["values"]).reshape(6, 6)
    strongest = {f"{i}.{j}" for i in range(6) for j in np.argsort(-weights[i])[:3]}
    assert set(held["1.0"]["said"]) == strongest | {"2.5"}  # the cell that is looked at
    assert [len(held[name]["said"]) for name in ("0.0", "0.1", "1.1")] == [0, 0, 0]


def test_heads_are_held_as_far_as_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "ROOM", 2 * 4 * 36)
    data = script(document(asked(), 0, 0, 1, 1), "data")
    assert "1.1" in data["heads"]  # the one that is seen comes first
    assert len(data["heads"]) == 2
    assert "regard view" in data["left"]


def test_longer_text_is_held_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    questions = asked(n=600, heads=1, layers=1)
    data = script(document(questions, 0, 0, 0, 0, "i=300&j=10&l=0&h=0"), "data")
    assert data["heads"] == {}
    assert {"0.0.2.2.0.0", "0.0.1.1.1.1", "0.0.0.0.1.0"} <= set(data["tiles"])
    tile = data["tiles"]["0.0.0.0.1.0"]
    exact = np.asarray(questions.server.holdings.head((0, 0, 0), 0)[:, 256:512, :256])[0]
    np.testing.assert_array_equal(floats(tile["values"]).reshape(256, 256), exact.astype(np.float32))
    held = data["answers"]
    assert {"cell.0.0.300.10", "row.0.0.300", "column.0.0.10", "arcs.0.0.300", "profile.0.0.rows"} <= set(held)
    assert held["cell.0.0.300.10"]["json"]["weight"] == pytest.approx(float(exact[300 - 256, 10]))
    assert "steps.0.0" not in held


def test_a_pass_is_waited_for() -> None:
    n = int(LONG**0.5) + 8
    data = script(document(asked(n=n, heads=1, layers=1, mask=regard.causal & regard.window(2)), 0, 0, 0, 0), "data")
    top = floats(data["tiles"]["0.0.5.5.0.0"]["values"])
    assert top.max() == 1.0


def test_state_that_is_no_cell_is_let_be() -> None:
    data = script(document(asked(n=600, heads=1, layers=1), 0, 0, 0, 0, "i=x&j=-1"), "data")
    assert not [name for name in data["answers"] if name.startswith("cell")]
    data = script(document(asked(n=600, heads=1, layers=1), 0, 0, 0, 0, "i=99999&j=1"), "data")
    assert "cell.0.0.99999.1" not in data["answers"]


def test_what_others_are_told_stays_as_it_is() -> None:
    questions = asked()
    before = json.dumps(questions.ask("about").value)  # type: ignore[union-attr]  # JSON
    document(questions, 0, 0, 0, 0)
    assert json.dumps(questions.ask("about").value) == before  # type: ignore[union-attr]  # JSON


@pytest.mark.parametrize("place", [(1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 2, 0), (0, 0, 0, 2)])
def test_what_is_not_there_is_refused(place: tuple[int, int, int, int]) -> None:
    with pytest.raises(Refused, match="there is no "):
        document(asked(), *place)


def test_state_has_only_what_the_file_holds() -> None:
    state = "l=0&unit=words&sinks=without&minus=0.0.1.1"
    assert script(document(asked(), 0, 0, 0, 0, state), "data")["state"] == "l=0&minus=0.0.1.1"
    assert script(document(asked(), 0, 0, 0, 0, "l=0&minus=1.0.1.1"), "data")["state"] == "l=0"


def test_a_question_that_is_not_known_is_refused() -> None:
    with pytest.raises(Refused, match="there is no question nothing, expected one of: about,"):
        asked().ask("nothing")
    with pytest.raises(Refused, match="l is missing"):
        asked().ask("cell", r=0, x=0)
