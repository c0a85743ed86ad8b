"""Authentication, host names, CSRF header and security headers."""

import asyncio

import pytest

from cosmo.serving.server import allowed_hosts, is_loopback

EVERYWHERE = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-store",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ADDRESSES = ["/", "/api/health", "/api/view", "/api/model", "/api/nothing"]


class TestToken:
    def test_address_becomes_a_cookie(self, browser):
        answer = browser.get(f"/?token={browser.token}", headers={})
        assert (answer.status_code, answer.headers["location"], answer.content) == (303, "/", b"")
        cookie = answer.headers["set-cookie"]
        pair, *rules = cookie.split("; ")
        assert pair == f"cosmo={browser.token}"
        assert set(rules) == {"Path=/", "HttpOnly", "SameSite=strict"}
        for path in ("/", "/api/health"):
            assert browser.get(path, headers={"Cookie": f"other=1; {pair}"}).status_code == 200

    @pytest.mark.parametrize("path", ADDRESSES)
    @pytest.mark.parametrize(
        "headers",
        [
            {},
            {"X-Cosmo-Token": ""},
            {"X-Cosmo-Token": "the-token-of-the-test"},
            {"X-Cosmo-Token": "the-token-of-the-testsx"},
            {"Cookie": "cosmo=wrong"},
            {"Cookie": 'cosmo="; cosmo_1='},
            {"Cookie": "cosmo"},
            {"Authorization": "Bearer the-token-of-the-tests"},
        ],
        ids=str,
    )
    def test_requests_without_it_are_refused(self, browser, path, headers):
        answer = browser.get(path, headers=headers)
        assert answer.status_code == 401
        assert set(answer.json()) == {"error"}
        assert "open the address that `cosmo studio` printed" in answer.json()["error"]

    @pytest.mark.parametrize("query", ["token=no", "token=", "x=1", "token", "token=a&token=b", 2000 * "t"])
    def test_a_wrong_address(self, browser, query):
        answer = browser.get(f"/?{query}", headers={})
        assert answer.status_code == 401
        assert "set-cookie" not in answer.headers

    def test_one_time_token(self, browser):
        once = browser.app.one_time_token()
        assert browser.get("/api/health", headers={"X-Cosmo-Token": once}).status_code == 401
        first, second = (browser.get(f"/?token={once}", headers={}) for _ in range(2))
        assert first.headers["set-cookie"].startswith(f"cosmo={browser.token};")
        assert second.status_code == 401

    def test_only_the_start_page_takes_the_token_in_the_query(self, browser):
        assert browser.get(f"/api/health?token={browser.token}", headers={}).status_code == 401


class TestHost:
    @pytest.mark.parametrize("host", ["evil.example", "studio.evil.example", "studio:99", "", "127.0.0.1"])
    @pytest.mark.parametrize("path", ["/", "/api/health"])
    def test_other_names_of_this_machine_are_refused(self, browser, host, path):
        answer = browser.get(path, headers={**browser.headers(), "Host": host})
        assert answer.status_code == 403
        assert "the Host header is not the studio's" in answer.json()["error"]

    def test_before_the_token_is_looked_at(self, browser):
        answer = browser.get(f"/?token={browser.token}", headers={"Host": "evil.example"})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers

    def test_two_hosts(self, browser):
        headers = [*browser.headers().items(), ("Host", "studio"), ("Host", "evil.example")]
        assert browser.get("/api/health", headers=headers).status_code == 403

    @pytest.mark.parametrize(
        ("bound", "port", "hosts"),
        [
            ("127.0.0.1", 8765, {"127.0.0.1:8765", "localhost:8765"}),
            ("localhost", 8765, {"127.0.0.1:8765", "localhost:8765"}),
            ("::1", 8765, {"[::1]:8765", "localhost:8765"}),
            ("127.0.0.1", 80, {"127.0.0.1:80", "localhost:80", "127.0.0.1", "localhost"}),
            ("192.168.1.7", 8765, {"192.168.1.7:8765"}),
            ("Desk.local", 8765, {"desk.local:8765"}),
        ],
    )
    def test_names_of_an_address(self, bound, port, hosts):
        assert allowed_hosts(bound, port) == hosts

    @pytest.mark.parametrize(
        ("host", "status"),
        [("10.0.0.1:9", 200), ("[fe80::1]:9", 200), ("localhost", 200), ("evil.example:9", 403), ("[x", 403)],
    )
    def test_on_all_addresses_names_are_still_refused(self, browser, host, status):
        browser.app._hosts = frozenset()
        answer = browser.get("/api/health", headers={**browser.headers(), "Host": host})
        assert answer.status_code == status

    def test_loopback(self):
        assert [is_loopback(host) for host in ("127.3.2.1", "::1", "localhost")] == [True] * 3
        assert [is_loopback(host) for host in ("0.0.0.0", "::", "8.8.8.8", "desk.local", "")] == [False] * 5


class TestPosts:
    PATHS = ("/api/predict", "/api/classes/preview", "/api/classes/keep", "/api/classes/undo")

    @pytest.mark.parametrize("path", PATHS)
    @pytest.mark.parametrize("header", [{}, {"X-Cosmo": "0"}, {"X-Cosmo": "1, 1"}], ids=str)
    def test_need_the_header_of_the_page(self, browser, path, header):
        cookie = {"Cookie": f"cosmo={browser.token}"}
        answer = browser.post(path, headers={**cookie, **header}, json={})
        assert answer.status_code == 403
        assert "X-Cosmo: 1" in answer.json()["error"]

    @pytest.mark.parametrize("path", PATHS)
    def test_need_the_token(self, browser, path):
        assert browser.post(path, headers={"X-Cosmo": "1"}, json={}).status_code == 401

    @pytest.mark.parametrize("method", ["OPTIONS", "PUT", "DELETE", "PATCH", "TRACE"])
    def test_other_methods(self, browser, method):
        answer = asyncio.run(browser.ask(method, "/api/predict"))
        assert answer.status_code == 405
        assert not any(name.startswith("access-control") for name in answer.headers)


class TestAnswers:
    @pytest.mark.parametrize("path", ADDRESSES)
    @pytest.mark.parametrize("known", [True, False])
    def test_headers(self, browser, path, known):
        answer = browser.get(path) if known else browser.get(path, headers={})
        assert {name: answer.headers[name] for name in EVERYWHERE} == EVERYWHERE
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert "server" not in answer.headers

    def test_an_internal_error_has_no_details(self, browser, live, monkeypatch):
        def broken(_row):
            raise KeyError("secret detail")

        monkeypatch.setattr(live, "predict", broken)
        answer = browser.post("/api/predict", json={"features": [0.0] * live.n_features})
        assert answer.status_code == 500
        assert answer.json() == {"error": "internal error; see the terminal where `cosmo studio` runs"}
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert browser.get("/api/health").status_code == 200

    def test_no_websockets(self, browser):
        sent = []

        async def send(message):
            sent.append(message)

        asyncio.run(browser.app({"type": "websocket"}, None, send))
        assert sent == [{"type": "websocket.close", "code": 1008}]
