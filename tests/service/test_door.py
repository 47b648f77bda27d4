"""Who may come in: hosts, origins, tokens, strangers and how often they ask; and what is not written down."""

import http.client
from pathlib import Path
from typing import Any

import httpx
import pytest

import ideaw
from ideaw.errors import FileError
from ideaw.service.answers import coarse
from ideaw.service.callers import Buckets, read_tokens, subscriber
from ideaw.service.refusals import Refusal
from ideaw.service.settings import Settings

from .conftest import PATIENCE_SECONDS, TOKEN, Running, service

pytestmark = pytest.mark.xdist_group("service")

BEARER = {"Authorization": f"Bearer {TOKEN}"}
ROUTES = ("embed", "detect", "compare", "attack", "preview")


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "", "[", "a b"])
def test_a_name_that_was_rebound_to_this_machine_is_refused(private: Running, host: str) -> None:
    for path in ("/", "/v1/info", "/health"):
        answer = private.client.get(path, headers={"Host": host})
        assert answer.status_code in (400, 403), host
        assert set(answer.json()) == {"error"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:80", "[::1]:8017", "192.0.2.7"])
def test_addresses_and_localhost_are_served(private: Running, host: str) -> None:
    assert private.client.get("/health", headers={"Host": host}).status_code == 200


FOREIGN: list[dict[str, str]] = [
    {"Origin": "http://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Origin": "http://["},
    {"Origin": "http://127.0.0.1:{port}.evil.example"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_pages_of_other_sites_send_nothing(private: Running, spoken: Path, headers: dict[str, str]) -> None:
    filled = {name: text.format(port=private.port) for name, text in headers.items()}
    files = {"file": ("speech.wav", spoken.read_bytes())}
    for route in ROUTES:
        answer = private.client.post(f"/v1/{route}", files=files, headers=filled)
        assert (answer.status_code, "other sites" in answer.json()["error"]) == (403, True)


def test_the_own_page_sends_what_it_wants(private: Running, spoken: Path) -> None:
    headers = {"Origin": private.address.rstrip("/"), "Sec-Fetch-Site": "same-origin"}
    answer = private.client.post("/v1/preview", files={"file": ("a.wav", spoken.read_bytes())}, headers=headers)
    assert answer.status_code == 200


@pytest.mark.slow
def test_strangers_get_coarse_answers_and_owners_exact_ones(guarded: Running, marked: Path, spoken: Path) -> None:
    told = guarded.post("detect", file=marked).json()
    assert told == {
        "found": True,
        "status": "found",
        "message": "hey",
        "kind": "text",
        "segments": [{"start": 0, "end": 3}],
    }
    nothing = guarded.post("detect", file=spoken).json()
    assert nothing == {"found": False, "status": "none", "message": None, "kind": None, "segments": []}
    files = {"file": ("marked.wav", marked.read_bytes())}
    exact = guarded.client.post("/v1/detect", files=files, headers=BEARER).json()
    assert exact["p_value"] < 1e-9
    assert exact["segments"][0]["score"] > 3


def test_strangers_may_go_where_it_is_said_and_nowhere_else(guarded: Running, marked: Path) -> None:
    for path in ("/", "/static/page.css", "/health", "/openapi.json", "/v1/info", "/v1/sample"):
        assert guarded.client.get(path).status_code == 200, path
    assert guarded.post("preview", file=marked).status_code == 200
    for method, path in (
        ("POST", "/v1/embed"),
        ("POST", "/v1/compare"),
        ("POST", "/v1/attack"),
        ("GET", "/v1/attacks"),
        ("GET", "/metrics"),
        ("GET", "/nowhere"),
        ("POST", "/v1/detect/../embed"),
    ):
        answer = guarded.client.request(method, path)
        assert answer.status_code == 401, path
        assert answer.headers["www-authenticate"] == "Bearer"
        assert "token" in answer.json()["error"]
    assert guarded.client.get("/v1/info").json()["token_needed"] is True
    assert guarded.client.get("/v1/info", headers=BEARER).json()["token_needed"] is False


@pytest.mark.parametrize("given", [f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}", "Bearer", "Basic abc", TOKEN, "é"])
def test_a_wrong_token_is_no_token(guarded: Running, given: str) -> None:
    answer = guarded.client.get("/v1/info", headers={"Authorization": given.encode("latin-1")})
    assert answer.status_code == 401
    assert TOKEN not in answer.text


def test_a_machine_that_others_reach_trusts_nobody_without_a_token() -> None:
    assert Settings().is_private
    assert Settings(host="::1").is_private
    assert Settings(host="localhost").is_private
    others: list[dict[str, Any]] = [
        {"host": "0.0.0.0"},
        {"host": ""},
        {"host": "192.0.2.7"},
        {"host": "example.org"},
        {"tokens": (TOKEN,)},
        {"names": ("marks.example.org",)},
        {"proxies": ("127.0.0.1",)},
    ]
    for settings in others:
        assert not Settings(**settings).is_private, settings


@pytest.mark.slow
def test_without_tokens_an_open_service_only_searches(tmp_path: Path, marked: Path) -> None:
    with service(tmp_path, names=["marks.example.org"], workers=1, limits={"stranger_requests_per_minute": 2}) as open_:
        headers = {"Host": "marks.example.org"}
        assert open_.client.get("/health", headers=headers).status_code == 200
        assert "coarse" not in open_.post("detect", file=marked).json()
        refused = open_.post("embed", {"message": "hey"}, file=marked)
        assert (refused.status_code, "--token-file" in refused.json()["error"]) == (403, True)
        third = open_.post("detect", file=marked)
        assert third.status_code == 429
        assert int(third.headers["retry-after"]) >= 1
        assert open_.client.get("/v1/info").status_code == 200


@pytest.mark.slow
def test_behind_a_proxy_each_of_its_clients_has_a_rate_of_its_own(tmp_path: Path) -> None:
    for proxy, third in (("127.0.0.1", 400), ("192.0.2.7", 429)):
        with service(tmp_path, proxies=[proxy], workers=1, limits={"stranger_requests_per_minute": 2}) as running:
            empty = {"Content-Type": "multipart/form-data; boundary=b"}
            statuses = [
                running.client.post(
                    "/v1/detect", headers=empty | {"X-Forwarded-For": f"198.51.100.{number}"}
                ).status_code
                for number in range(3)
            ]
            assert statuses == [400, 400, third]


def test_a_bucket_fills_again_and_is_each_address_s_own() -> None:
    now = 0.0
    buckets = Buckets(3, clock=lambda: now)
    for _ in range(3):
        buckets.take("a")
    with pytest.raises(Refusal, match=r"wait 2[01] s"):
        buckets.take("a")
    buckets.take("b")
    now = 19.0
    with pytest.raises(Refusal):
        buckets.take("a")
    now = 20.1
    buckets.take("a")
    with pytest.raises(Refusal):
        buckets.take("a")


def test_who_has_a_network_has_one_bucket() -> None:
    assert subscriber("2001:db8:1:2::1") == subscriber("2001:db8:1:2:ffff::9") != subscriber("2001:db8:1:3::1")
    assert subscriber("192.0.2.1") == subscriber("::ffff:192.0.2.1") != subscriber("::ffff:192.0.2.2")
    assert subscriber("testclient") == "testclient"


def test_token_files_are_checked(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    for content, says in (("", "no token"), ("# nothing\n\n", "no token"), ("short\n", "less than 16")):
        path.write_text(content)
        with pytest.raises(FileError, match=says) as problem:
            read_tokens(path)
        assert "short" not in str(problem.value)
    with pytest.raises(FileError, match="cannot be read"):
        read_tokens(tmp_path / "nowhere")
    path.write_text(f"# for the studio\n{TOKEN}\n  {TOKEN}2  \n")
    assert read_tokens(path) == (TOKEN, f"{TOKEN}2")
    assert TOKEN not in repr(Settings(tokens=read_tokens(path), keys=(ideaw.Key.fresh(),)))


def test_a_coarse_answer_says_nothing_of_what_cannot_be_read() -> None:
    segment = {"start": 1.9, "end": 3.1, "score": 5.0, "message_ok": False, "message": None}
    exact = {"found": False, "status": "unreadable", "message": None, "kind": None, "segments": [segment]}
    assert coarse(exact) == {"found": False, "status": "none", "message": None, "kind": None, "segments": []}
    places = [(0.4, 2.2), (2.9, 4.0), (8.0, 9.0)]
    read = [segment | {"start": start, "end": end} for start, end in reversed(places)]
    told = coarse(exact | {"status": "found", "message": "hey", "kind": "text", "segments": read})
    assert told["segments"] == [{"start": 0, "end": 4}, {"start": 8, "end": 9}]


@pytest.mark.slow
@pytest.mark.parametrize("connection", ["close", "keep-alive"])
def test_a_refusal_reaches_clients_that_say_everything_first(guarded: Running, connection: str) -> None:
    for _ in range(5):
        client = http.client.HTTPConnection("127.0.0.1", guarded.port, timeout=PATIENCE_SECONDS)
        client.request("POST", "/v1/embed", body=bytes(20_000_000), headers={"Connection": connection})
        answer = client.getresponse()
        assert (answer.status, b"token" in answer.read()) == (401, True)
        client.close()


@pytest.mark.slow
def test_nothing_that_was_sent_is_written_down(tmp_path: Path, spoken: Path) -> None:
    log, key = tmp_path / "log", ideaw.Key.fresh()
    with log.open("w") as stderr, service(tmp_path, stderr=stderr, tokens=[TOKEN], workers=1) as running:
        client = httpx.Client(base_url=running.address, headers=BEARER)
        form = {
            "file": ("secret-name.wav", spoken.read_bytes()),
            "key": ("secret-name.key", key.hex().encode()),
        }
        for message, status in (("confidential", 400), ("conf", 200)):
            answer = client.post("/v1/embed?secret=query", data={"message": message}, files=form)
            assert answer.status_code == status
        assert client.get("/v1/info\u2028forged line").status_code == 404
        client.close()
    written = log.read_text()
    assert "POST /v1/embed 200" in written
    assert "GET /v1/info\\u2028forged line 404" in written
    for secret in ("conf", "secret", key.hex(), TOKEN, key.fingerprint):
        assert secret not in written
