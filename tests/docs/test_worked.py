"""Every page of docs/worked and the README: code runs, and prints what the page says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import regard
from examples import paint_mixing
from tests.docs.pages import ROOT, PageError, blocks, check, examples, printed, renewed

WORKED = ROOT / "docs" / "worked"
PAGES = sorted(WORKED.glob("*.md"))
NOTES = ("000", "001", "002", "003", "004")


@pytest.fixture(autouse=True)
def as_it_was(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing around decides what a page prints, and a page changes nothing around."""
    monkeypatch.chdir(ROOT)
    for name in ("NO_COLOR", "FORCE_COLOR", "COLORTERM", "COLUMNS", "LINES"):
        monkeypatch.delenv(name, raising=False)
    before = regard.threads()
    yield
    regard.threads(before)


def words(text: str) -> str:
    """A page without its fenced blocks."""
    lines = text.splitlines()
    for block in reversed(blocks(text)):
        del lines[block.first - 1 : block.stop + 1]
    return "\n".join(lines)


def shown(text: str) -> str:
    """What stands in the fenced blocks of a page."""
    return "\n".join(block.text for block in blocks(text))


def page_of(note: str) -> str:
    (path,) = WORKED.glob(f"{note}-*.md")
    return path.read_text(encoding="utf-8")


# The pages.


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_prints_what_it_says(path: Path) -> None:
    count = check(path.read_text(encoding="utf-8"), path.name)
    assert count or path.name == "corrections.md"


def test_the_readme_runs() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = examples(text, "README.md")
    assert found
    for example, given in zip(found, printed(text, "README.md"), strict=True):
        if example.expected is not None:
            assert given == example.expected.text


# Numbers of the notes that have to be there: printed by code, not only said.
WORKED_NUMBERS = {
    "000": ["0.800", "to the other three keys together: 0.200", "3.2 times", "score -inf, weight 0.0"],
    "001": ["94.8 %", "1.7 %", "0.94791", "0.01736", "(4, 5)  Z = A·V"],
    "002": [
        *("2.71  1.355 2.475", "0.448 0.172 0.38 ", "1.275 2.364", "1.275 2.363"),
        *("-0.10  2.00", "0.90  1.40", "1.00  3.50", "#f7d12a", "n = 1152"),
    ],
    "003": ["[0.48 0.25 0.27]", "1 MiB", "144 MiB", "96 = 1.5·d", "128 = 2·d", "8256"],
    "004": ["0.629 0.123 0.246 0.002", "0.536 0.128 0.157 0.179", "0.    0.269 0.731 0. ", "1.83", "⬤"],
}


@pytest.mark.parametrize("note", NOTES)
def test_the_numbers_of_a_note_are_computed(note: str) -> None:
    outputs = "\n".join(x.expected.text for x in examples(page_of(note)) if x.expected)
    assert [number for number in WORKED_NUMBERS[note] if number not in outputs] == []


READ_OFF = {"0.34"}  # in the picture of note 001, whose random numbers nobody has
NUMBER = re.compile(r"\d+(?:\.\d+)? %|\d+\.\d+|\d+(?:,\d{3})+")  # shares, decimals, and large numbers


def unfounded(prose: str, ground: str) -> list[str]:
    """The numbers of some prose that stand nowhere in the ground."""
    known = set(NUMBER.findall(ground)) | set(re.findall(r"\d+\.\d+", ground))
    values = {float(x) for x in known if "." in x and "%" not in x}
    return [
        x
        for x in NUMBER.findall(prose)
        if x not in known and not ("%" not in x and "," not in x and float(x) in values)  # 0.7 is 0.70
    ]


@pytest.mark.parametrize("note", NOTES)
def test_every_number_in_the_prose_stands_in_a_block(note: str) -> None:
    text = page_of(note)
    assert sorted(set(unfounded(words(text), shown(text))) - READ_OFF) == []


def test_every_number_of_the_corrections_stands_in_a_block() -> None:
    text = (WORKED / "corrections.md").read_text(encoding="utf-8")
    ground = "\n".join(shown(page_of(note)) for note in NOTES)
    assert sorted(set(unfounded(text, ground)) - READ_OFF) == []


def test_that_the_check_of_numbers_can_fail() -> None:
    assert unfounded("It is 0.81, 17 % or 1,024.", "0.80 and 18 % and 1,025") == ["0.81", "17 %", "1,024"]
    assert unfounded("It is 0.8, 17 % or 1,024.", "[0.80], 17 %, 1,024") == []


def slug(heading: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", words(path.read_text(encoding="utf-8"))):
        name, _, anchor = target.partition("#")
        other = path.parent / name if name else path
        assert other.is_file(), target
        if anchor:
            assert anchor.isascii(), f"{target}: sites do not agree on anchors of other letters"
            headings = re.findall(r"^#+ (.*)$", words(other.read_text(encoding="utf-8")), re.MULTILINE)
            assert anchor in map(slug, headings), target


def test_the_index_names_every_page() -> None:
    index = (WORKED / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in PAGES if path.name != "README.md" and f"({path.name})" not in index] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_nothing_is_said_of_weights_that_they_do_not_say(path: Path) -> None:
    prose = words(path.read_text(encoding="utf-8"))
    assert re.findall(r"(?i)\b(?:because|understands?|means|influences?d?)\b", prose) == []


# The picture.


def test_the_picture_is_current() -> None:
    assert paint_mixing.PICTURE.read_text(encoding="utf-8") == paint_mixing.svg()


def test_the_blend_is_the_weighted_sum_of_the_paints() -> None:
    weights = paint_mixing.shares()[0]
    mixed = sum(float(w) * x for w, x in zip(weights, paint_mixing.values(), strict=True))
    assert paint_mixing.blend() == paint_mixing.colour_of(mixed)
    assert [paint_mixing.colour_of(x) for x in paint_mixing.values()] == list(paint_mixing.CANS.values())


# The runner.

PAGE = """# A page

```python
x = 2
print(x)
```

```text
2
```

More.

```python
print(x + 1)
```
```text
3
```
"""


def test_a_right_page_passes() -> None:
    assert check(PAGE) == 2
    assert renewed(PAGE) == PAGE


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("text\n3", "text\n4", "page:14: the block prints\n3\n\nbut the page says\n4\n"),  # a changed number
        ("x + 1", "x + 2", "the block prints\n4\n"),  # changed code
        ("text\n2\n", "text\n2 \n", "but the page says\n2 \n"),  # one blank more
        ("text\n2\n", "text\n2\n\n", "but the page says\n2\n\n"),  # one line more
        ("text\n2\n", "text\n", "but the page says\n"),
        ("```text\n3\n```\n", "", "the block prints\n3\n"),  # output that the page does not have
        ("print(x)\n", "", "the block prints\n\nbut the page says\n2\n"),
        ("\n\n```text\n2", "\n\nSo it is\n\n```text\n2", "page:10: a text block follows no Python block"),
        ("python\nx = 2", "py\nx = 2", "page:8: a text block follows no Python block"),
        ("3\n```\n", "3\n", "page:17: a block begins here that does not end"),
    ],
)
def test_a_wrong_page_fails(old: str, new: str, said: str) -> None:
    assert PAGE.count(old) == 1
    with pytest.raises(PageError) as error:
        check(PAGE.replace(old, new))
    assert said in str(error.value)


def test_code_that_fails_names_the_line_of_the_page() -> None:
    with pytest.raises(ZeroDivisionError) as error:
        check(PAGE.replace("x + 1", "x / 0"), "a.md")
    last = error.traceback[-1]
    assert (str(last.path).endswith("a.md"), last.lineno + 1) == (True, 15)


def test_a_page_is_renewed() -> None:
    stale = PAGE.replace("text\n2", "text\n7").replace("```text\n3\n```\n", "")
    assert check(renewed(stale)) == 2
    assert [x.text for x in blocks(renewed(stale)) if x.kind == "text"] == ["2\n", "3\n"]


@pytest.mark.parametrize("note", NOTES)
def test_a_changed_number_on_a_page_fails(note: str) -> None:
    """Only the first block is changed, so that nothing but the first block has to run."""
    text = page_of(note)
    first = next(x for x in examples(text) if x.expected)
    assert first.expected is not None
    lines = text.splitlines()[: first.expected.stop + 1]
    row = next(i for i in range(first.expected.first, first.expected.stop) if re.search(r"\d", lines[i]))
    lines[row] = re.sub(r"\d", lambda digit: str((int(digit[0]) + 1) % 10), lines[row], count=1)
    with pytest.raises(PageError):
        check("\n".join(lines))
