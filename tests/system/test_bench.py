"""The bench: its works have names and targets, and a result becomes the README's table."""

from __future__ import annotations

import json

from benchmarks.readme import BEGIN, END, insert, render
from benchmarks.run import RESULTS
from benchmarks.works import WORKS, chosen


def test_works_have_names_of_their_own() -> None:
    names = [work.name for work in WORKS]
    assert len(set(names)) == len(names)
    assert [work.name for work in chosen(["Row Of"])] == ["row of 131072², lse known"]


def test_the_newest_result_is_what_the_readme_shows() -> None:
    newest = sorted(RESULTS.glob("*.json"))[-1]
    table = render(json.loads(newest.read_text()))
    readme = (RESULTS.parent.parent / "README.md").read_text()
    assert insert(readme, table) == readme
    assert f"{BEGIN}\n{table}\n{END}" in readme
