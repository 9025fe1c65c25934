"""Who may ask, with what, and what every answer carries."""

from __future__ import annotations

import pytest

from regard.view.server.asked import NEEDED, Another, Choice, Numbers, Refused, Whole, Words, read
from regard.view.server.guard import Guard, host_of, token
from tests.server.asking import HEAD, SECRET, Answer, Client, held, sentence, serving

TILE = f"/{SECRET}/api/tile?{HEAD}&a=0&b=0&i=0&j=0"


def refused(answer: Answer, status: int, *words: str) -> None:
    """Refused with one sentence that says so."""
    assert answer.status == status, answer.body
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.said) == ["error"]
    sentence = answer.said["error"]
    assert all(word in sentence for word in words), sentence
    assert "\n" not in sentence


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:1", "localhost:65535", "[::1]:80", "LOCALHOST", "127.0.0.9"])
def test_hosts_of_this_machine(host: str) -> None:
    with serving(sentence()) as client:
        assert client.raw(TILE, headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "host", ["example.org", "127.0.0.1.example.org", "localhost.example.org:80", "192.168.1.4", "", "0.0.0.0:1", "[::"]
)
def test_a_host_that_is_bound_to_us_by_somebody_else_is_refused(host: str) -> None:
    with serving(sentence()) as client:
        refused(client.raw(TILE, headers={"host": host}), 421, "Host")


def test_on_an_open_host_addresses_in_numbers_and_its_names_are_known() -> None:
    guard = Guard(None, SECRET, "0.0.0.0")  # type: ignore[arg-type]  # nothing comes through
    known = {host: guard._known(host.encode()) for host in ("192.168.1.4:80", "[fe80::1]", "evil.example", "localhost")}
    assert known == {"192.168.1.4:80": True, "[fe80::1]": True, "evil.example": False, "localhost": True}
    assert host_of("a:b:c") == "a:b:c"


@pytest.mark.parametrize(
    "path", ["/", "/api/about", "/wrong/api/about", f"/{SECRET}x/", f"//{SECRET}/", f"/{SECRET[:-1]}/"]
)
def test_without_the_token_nothing_is_told(path: str) -> None:
    with serving(sentence()) as client:
        refused(client.raw(path), 403, "token")


def test_tokens_are_long_and_never_the_same() -> None:
    made = {token() for _ in range(64)}
    assert len(made) == 64
    assert min(map(len, made)) >= 22  # 128 bits


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE"])
def test_get_and_nothing_else(method: str) -> None:
    with serving(sentence()) as client:
        answer = client.raw(TILE, method)
        assert answer.status == 405
        assert answer.headers["allow"] == "GET"


@pytest.mark.parametrize(
    "path", [f"/{SECRET}/", f"/{SECRET}/page/index.html", f"/{SECRET}/api/about", TILE, "/", f"/{SECRET}/api/none"]
)
def test_every_answer_carries_the_headers(path: str) -> None:
    with serving(sentence()) as client:
        headers = client.raw(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert "http" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == "no-store"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in headers
    assert "set-cookie" not in headers


def test_the_page_comes_from_a_table() -> None:
    with serving(sentence()) as client:
        names = client.app.page.names()
        assert {"index.html"} <= set(names)
        for name in names:
            answer = client.raw(f"/{SECRET}/page/{name}")
            assert answer.status == 200
            assert answer.body
        scripts = [client.raw(f"/{SECRET}/page/{name}") for name in names if name.endswith(".js")]
        assert {x.headers["content-type"] for x in scripts} == {"text/javascript; charset=utf-8"}
        assert client.raw(f"/{SECRET}/").body == client.raw(f"/{SECRET}/page/index.html").body
        answer = client.raw(f"/{SECRET}")
        assert (answer.status, answer.headers["location"]) == (307, f"/{SECRET}/")


def test_the_page_is_compressed_for_who_can_read_that() -> None:
    with serving(sentence()) as client:
        path = f"/{SECRET}/page/app.js"
        plain, packed = (client.raw(path, headers={"accept-encoding": x}) for x in ("identity", "gzip, deflate, br"))
        assert "content-encoding" not in plain.headers
        assert packed.headers["content-encoding"] == "gzip"
        assert plain.headers["vary"] == packed.headers["vary"] == "accept-encoding"
        assert packed.body == plain.body  # the client has undone it
        assert int(packed.headers["content-length"]) < len(plain.body) / 2
        assert "content-encoding" not in client.raw(path, headers={"accept-encoding": "br, gzip;q=0"}).headers


@pytest.mark.parametrize(
    "name",
    [
        "../server/app.py",
        "..%2fserver%2fapp.py",
        "%2e%2e/server/app.py",
        "....//app.py",
        "/etc/passwd",
        "index.html%00",
        "app.py",
        "__init__.py",
        "C:\\x",
        "~root",
        "",
    ],
)
def test_no_path_reaches_the_disk(name: str) -> None:
    with serving(sentence()) as client:
        refused(client.raw(f"/{SECRET}/page/{name}"), 404)


@pytest.mark.parametrize("path", ["api/none", "api/", "api/tile/", "api/tile/more", "nothing", "page", "api/tile%20"])
def test_unknown_paths(path: str) -> None:
    with serving(sentence()) as client:
        refused(client.raw(f"/{SECRET}/{path}"), 404)


PLACE = f"{HEAD}&a=0&b=0"


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, ["r is missing"]),
        (f"{PLACE}&i=0", 400, ["j is missing"]),
        (f"{PLACE}&i=0&j=0&z=1", 400, ["z", "not known"]),
        (f"{PLACE}&i=0&j=0&i=0", 400, ["i is given twice"]),
        (f"{PLACE}&i=0&j", 400, ["not known"]),
        (f"{PLACE}&i=0&j=", 400, ["j is empty"]),
        (f"{PLACE}&i=-1&j=0", 400, ["i is -1", "whole number"]),
        (f"{PLACE}&i=1.5&j=0", 400, ["whole number"]),
        (f"{PLACE}&i=1e3&j=0", 400, ["whole number"]),
        (f"{PLACE}&i=٣&j=0", 400, ["whole number"]),
        (f"{PLACE}&i=%2B1&j=0", 400, ["whole number"]),
        (f"{PLACE}&i=1234567890123&j=0", 400, ["at most 12 digits"]),
        (f"{PLACE}&i=999999999999&j=0", 400, ["begins at"]),
        (f"{HEAD}&a=41&b=0&i=0&j=0", 400, ["a is 41", "0 to 40"]),
        (f"{HEAD}&a=40&b=0&i=0&j=0", 400, ["a is 40"]),
        (f"{PLACE}&i=0&j=0&pool=sum", 400, ["pool is sum", "max or mean"]),
        (f"{PLACE}&i=0&j=0&pool=%ff", 400, ["UTF-8"]),
        (f"{PLACE}&i=0&j=0&unit=%0a%1b[0m", 400, ["tokens or words"]),
        (f"{PLACE}&i=0&j=0&minus=0.0.0", 400, ["recording.text.layer.head"]),
        (f"{PLACE}&i=0&j=0&minus=0.0.0.9", 404, ["no head 9"]),
        (f"{PLACE}&i=0&j=0&without=1,,2", 400, ["without is empty"]),
        (f"{PLACE}&i=0&j=0&without={','.join(['1'] * 257)}", 413, ["257 numbers"]),
        (f"{PLACE}&i=0&j=0&pool={'x' * 5000}", 414, ["the query has"]),
        ("r=1&x=0&l=0&h=0&a=0&b=0&i=0&j=0", 404, ["no recording 1", "expected 0 to 0"]),
        ("r=0&x=3&l=0&h=0&a=0&b=0&i=0&j=0", 404, ["no text 3"]),
        ("r=0&x=0&l=2&h=0&a=0&b=0&i=0&j=0", 404, ["no layer 2"]),
        ("r=0&x=0&l=0&h=3&a=0&b=0&i=0&j=0", 404, ["no head 3", "expected 0 to 2"]),
    ],
)
def test_what_is_wrong_is_said_in_a_sentence(query: str, status: int, words: list[str]) -> None:
    with serving(sentence()) as client:
        refused(client.get("tile", query), status, *words)


def test_long_paths_are_refused() -> None:
    with serving(sentence()) as client:
        refused(client.raw(f"/{SECRET}/" + "x" * 300), 414, "the path has")


def test_kinds_of_parameters() -> None:
    kinds = {"n": Whole(9, 3, 1), "w": Words(3, ""), "s": Numbers(), "h": Another(), "c": Choice("a", "b")}
    assert read(kinds, b"") == {"n": 3, "w": "", "s": (), "h": None, "c": "a"}
    assert read(kinds, b"n=1&w=%C3%A9+&s=3%2C1,3&h=1.2.3.4&c=b") == {
        "n": 1,
        "w": "é ",
        "s": (1, 3),
        "h": (1, 2, 3, 4),
        "c": "b",
    }
    with pytest.raises(Refused, match="n is 0, expected a whole number from 1 to 9"):
        read(kinds, b"n=0")
    with pytest.raises(Refused, match="h is missing"):
        read({"h": Another(NEEDED)}, b"")


def test_what_breaks_inside_is_not_told(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    recorded = sentence()

    def broken(layer: int) -> None:
        raise RuntimeError("/secret/path")

    with serving(held(*recorded.recording.texts[0].matrices)) as client:
        text = client.app.server.holdings.text(0, 0)
        monkeypatch.setattr(type(text), "matrix", lambda self, layer: broken(layer))
        answer = Client(client.app).raw(TILE)
        assert answer.status == 500
        assert "secret" not in answer.said["error"]
    assert "a request failed" in caplog.text
