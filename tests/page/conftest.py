"""A server with recordings and a browser, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import regard
from tests.page.recorded import SENTENCE, STORY, TURNED, planted, read_by_model
from tests.page.shown import Shown, Stage, chromium

HERE = Path(__file__).parent
STAGE = Stage()


@pytest.fixture(scope="session")
def read(tmp_path_factory: pytest.TempPathFactory, cache: str) -> Path:
    """The sentence, the same words turned around, and a longer text, as the model reads them."""
    chromium()  # nothing is made if nobody can look at it
    return read_by_model(tmp_path_factory.mktemp("page") / "cat.regard", SENTENCE, TURNED, STORY)


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory, cache: str) -> Path:
    """A recording with one single bright cell."""
    chromium()
    return planted(tmp_path_factory.mktemp("page") / "demo.regard")


@pytest.fixture(scope="session")
def warm(tmp_path_factory: pytest.TempPathFactory, cache: str) -> Path:
    """Another recording of the sentence, with weights that are more even."""
    chromium()
    return read_by_model(tmp_path_factory.mktemp("page") / "warm.regard", SENTENCE, warmth=4.0)


@pytest.fixture(scope="session")
def cat(read: Path) -> Any:
    """The texts that the page shows."""
    return regard.open(read).texts


@pytest.fixture(scope="session")
def bright(demo: Path) -> Any:
    """The planted recording."""
    return regard.open(demo)


@pytest.fixture
def stage(read: Path, demo: Path, warm: Path) -> Iterator[Stage]:
    """The server and the browser."""
    STAGE.enter()
    try:
        if STAGE.server is None:
            STAGE.open(read, demo, warm)
        yield STAGE
    finally:
        STAGE.leave()


@pytest.fixture
def shown(stage: Stage) -> Iterator[Shown]:
    """The page that tests share, on a laptop; nothing may go wrong in it."""
    shown = stage.shared()
    yield shown
    wrong, shown.wrong = shown.wrong, []
    assert wrong == []


@pytest.fixture
def opened(stage: Stage) -> Iterator[Callable[..., Shown]]:
    """Pages in windows of their own: opened(hash, **what Playwright says of a window)."""
    made: list[Shown] = []

    def new(hash: str = "", **options: Any) -> Shown:
        made.append(stage.new(**options))
        return made[-1].go(hash, fresh=True)

    yield new
    wrong = [said for shown in made for said in shown.wrong]
    for shown in made:
        shown.context.close()
    assert wrong == []


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last of these tests nothing is left running."""
    if nextitem is None or HERE not in nextitem.path.parents:
        STAGE.close()
