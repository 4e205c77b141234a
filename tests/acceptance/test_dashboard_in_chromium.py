"""The dashboard in a real browser: as people see it, with and without script, by keyboard, by day and by night."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import timedelta

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from holdtrue.web import WebService
from scenes import Found, Scene, find_store, lose_store
from scenes.refunds import REFUNDS, refunds_world
from scenes.serving import Calls, served, web_service

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
]
TOKEN = "the-teams-token"

HOSTILE_ROWS = (
    ("1", "<script>document.title = 'owned'</script>"),
    ("2", "<img src=x onerror=\"document.title = 'owned'\">"),
)


@dataclass
class Site:
    """The dashboard on a port of its own."""

    url: str
    scene: Scene
    calls: Calls

    @property
    def firing(self) -> int:
        """The number of the alert that fires."""
        return self.scene.store.alerts.find_open(REFUNDS)[0].id

    @property
    def pages(self) -> tuple[str, ...]:
        """Every page."""
        alert = f"/alerts/{self.firing}"
        return (
            "/",
            f"/invariants/{REFUNDS}",
            "/invariants/no_job_left_in_progress",
            "/alerts",
            alert,
            f"{alert}/promote",
            "/silences",
            "/databases",
            "/deliveries",
            "/catalog",
            "/nothing",
        )


@dataclass
class Heard:
    """What the browser complained about."""

    said: list[str] = field(default_factory=list)

    def listen(self, page: Page) -> Page:
        """Take down every console error and every uncaught exception, the policy's among them."""
        page.on("console", lambda one: self.said.append(one.text) if one.type in ("error", "warning") else None)
        page.on("pageerror", lambda one: self.said.append(str(one)))
        return page


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Chromium, wherever it is."""
    found = os.environ.get("CHROMIUM") or next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
    )
    assert found is not None, "no Chromium: run `make system`, or set CHROMIUM"
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The refunds service on a bad morning; only looked at."""
    scene, calls = refunds_world(tmp_path_factory.mktemp("world")), Calls()
    with served(web_service(scene, calls)) as url:
        yield Site(url, scene, calls)


@pytest.fixture
def serve(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Site]]:
    """Make a site of this test alone."""
    opened = []

    def make(**more: object) -> Site:
        scene, calls = refunds_world(tmp_path_factory.mktemp("own")), Calls()
        service: WebService = replace(web_service(scene, calls), **more)  # type: ignore[arg-type]
        context = served(service)
        opened.append(context)
        return Site(context.__enter__(), scene, calls)

    yield make
    for context in opened:
        context.__exit__(None, None, None)


@pytest.fixture
def open_context(browser: Browser) -> Iterator[Callable[..., BrowserContext]]:
    """A fresh profile, closed afterwards."""
    opened: list[BrowserContext] = []

    def make(**more: object) -> BrowserContext:
        opened.append(browser.new_context(**more))  # type: ignore[arg-type]
        opened[-1].set_default_timeout(15_000)
        return opened[-1]

    yield make
    for context in opened:
        context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_has_a_serious_barrier_or_a_blocked_resource(
    site: Site, open_context: Callable[..., BrowserContext], scheme: str
) -> None:
    """axe finds nothing serious, by day and by night, and the content policy blocks nothing of ours."""
    heard = Heard()
    page = heard.listen(open_context(color_scheme=scheme).new_page())
    for path in site.pages:
        page.goto(site.url + path)
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        found = Axe().run(page).response["violations"]
        serious = [(one["id"], one["nodes"][0]["html"]) for one in found if one["impact"] in ("serious", "critical")]
        assert serious == [], path
    assert [one for one in heard.said if "404 (Not Found)" not in one] == []


@pytest.mark.parametrize("width", [360, 768, 1400])
def test_no_page_is_wider_than_the_screen(site: Site, open_context: Callable[..., BrowserContext], width: int) -> None:
    """A phone at night: wide tables scroll within themselves."""
    page = open_context(viewport={"width": width, "height": 800}, color_scheme="dark").new_page()
    for path in site.pages:
        page.goto(site.url + path)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, path


def test_every_page_works_without_script(site: Site, open_context: Callable[..., BrowserContext]) -> None:
    page = open_context(java_script_enabled=False).new_page()
    for path in site.pages:
        page.goto(site.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
    page.goto(site.url)
    page.get_by_role("searchbox", name="Search").fill("refund")
    page.get_by_role("button", name="Filter").click()
    expect(page.get_by_role("row")).to_have_count(2)
    assert page.url.startswith(f"{site.url}/?q=refund")
    page.get_by_role("link", name=REFUNDS).click()
    expect(page.get_by_role("img", name="Counted violations")).to_be_visible()
    page.get_by_role("button", name="Look now").click()
    expect(page.get_by_text("It is due now")).to_be_visible()
    assert site.calls.runs[-1][:2] == (REFUNDS, "payments")


def test_the_alert_leads_to_exactly_the_files_and_the_button_gives_them(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """semantics 9.1: preview, then promote."""
    site = serve()
    page = open_context(accept_downloads=True).new_page()
    page.goto(site.url)
    page.get_by_role("link", name=f"alert {site.firing}, firing").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(REFUNDS)
    page.get_by_role("link", name="Preview the files").click()
    expect(page.get_by_text("test_incident.py").first).to_be_visible()
    assert site.calls.promotions == [(site.firing, "loopback", True)]
    with page.expect_download() as download:
        page.get_by_role("button", name="Make the ticket").click()
    assert download.value.suggested_filename == f"inc-{site.firing}.zip"
    assert site.calls.promotions[-1] == (site.firing, "loopback", False)


def test_people_acknowledge_and_silence_without_script(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """Semantics 7.4, 7.5: each form works by itself, is free of barriers, and shows what it would match first."""
    site = serve()
    page = open_context(java_script_enabled=False).new_page()
    page.goto(f"{site.url}/alerts/{site.firing}")
    page.locator("#quiet").get_by_label("Your name").fill("alice")
    page.get_by_label("Note").fill("a bad deploy")
    page.get_by_role("button", name="Acknowledge").click()
    expect(page.locator("#quiet")).to_contain_text("alice (loopback) has it since")
    expect(page.locator("#timeline")).to_contain_text("by alice (loopback): a bad deploy")
    page.get_by_role("button", name="Give it back").click()
    expect(page.get_by_role("button", name="Acknowledge")).to_be_visible()
    page.get_by_text("Withhold its messages for a time").click()
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("#preview")).to_contain_text("Now they match 1, 1 of them with an open alert.")
    expect(page.get_by_label("Matchers")).to_have_value(f"name={REFUNDS}\ndatabase=payments")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("a silence needs a comment")
    page.get_by_label("Why").fill("migration 41")
    page.get_by_role("button", name="Silence", exact=True).click()
    expect(page.get_by_role("status").filter(has_text="It is silent")).to_be_visible()
    expect(page.locator("#in-force")).to_contain_text("migration 41")
    page.goto(f"{site.url}/alerts/{site.firing}")
    expect(page.locator("#quiet")).to_contain_text("Silenced until")
    seeing = open_context().new_page()
    for path in ("/silences", "/silences/1", f"/alerts/{site.firing}"):
        seeing.goto(site.url + path)
        found = Axe().run(seeing).response["violations"]
        assert [one["id"] for one in found if one["impact"] in ("serious", "critical")] == [], path
    page.goto(f"{site.url}/silences")
    page.get_by_role("button", name="End silence 1 now").click()
    expect(page.locator("#in-force")).to_contain_text("None: every message is sent.")
    expect(page.locator("#ended-silences")).to_contain_text("by loopback")


def test_the_keyboard_reaches_the_content_and_every_scrolling_table(
    site: Site, open_context: Callable[..., BrowserContext]
) -> None:
    page = open_context().new_page()
    page.goto(f"{site.url}/alerts/{site.firing}")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    regions = page.locator(".scroll")
    assert regions.count() >= 3
    for index in range(regions.count()):
        assert regions.nth(index).get_attribute("tabindex") == "0"
        assert regions.nth(index).get_attribute("aria-label")


def test_verdicts_are_told_by_word_and_shape_and_not_by_colour_alone(
    site: Site, open_context: Callable[..., BrowserContext]
) -> None:
    page = open_context().new_page()
    page.goto(site.url)
    shapes = {}
    for tone, word in (("firing", "violated"), ("pending", "pending"), ("unknown", "unknown"), ("holds", "holds")):
        badge = page.locator(f"tr.{tone} .badge").first
        expect(badge).to_contain_text(word)
        shapes[badge.locator("svg").inner_html()] = tone
    assert len(shapes) == 4


def test_an_open_page_follows_the_store_without_a_reload(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """The module swaps what changed, keeps what is open, and changes the title."""
    site = serve()
    context = open_context()
    page = Heard().listen(context.new_page())
    page.clock.install()
    page.goto(f"{site.url}/invariants/{REFUNDS}")
    page.get_by_text("The same as a table").click()
    expect(page.locator("#head")).to_contain_text("violated")
    page.evaluate("window.mark = 'same document'")
    site.scene.pass_time(timedelta(minutes=14, seconds=18))
    site.scene.look({})
    page.clock.run_for(11_000)
    expect(page.locator("#head .badge")).to_have_text("holds")
    expect(page).to_have_title(f"holds: {REFUNDS} · Holdtrue")
    expect(page.locator("#live")).to_contain_text("Live, as of")
    assert page.evaluate("window.mark") == "same document"
    assert page.locator("#chart-table").get_attribute("open") is not None


def test_the_databases_below_a_sum_open_without_script_and_by_keyboard(
    site: Site, open_context: Callable[..., BrowserContext]
) -> None:
    """semantics 6.1: one line for several databases, with how many of them are known."""
    page = open_context(java_script_enabled=False).new_page()
    page.goto(site.url)
    row = page.get_by_role("row").filter(has_text="every_receipt_has_an_invoice_row")
    expect(row).to_have_count(1)
    expect(row.locator(".reach")).to_have_text("1 of 2 known")
    shard = row.get_by_role("link", name="archive")
    expect(shard).to_be_hidden()
    row.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(shard).to_be_visible()
    shard.click()
    expect(page.get_by_role("heading", level=1)).to_have_text("every_receipt_has_an_invoice_row")
    expect(page.locator("#head")).to_contain_text("All 2 databases: unknown on 1, holds on 1")


def test_opened_databases_stay_open_when_the_page_refreshes(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    site = serve()
    page = open_context().new_page()
    page.clock.install()
    page.goto(site.url)
    row = page.get_by_role("row").filter(has_text="every_receipt_has_an_invoice_row")
    row.locator("summary").click()
    site.scene.pass_time(timedelta(minutes=15))
    site.scene.look({("every_receipt_has_an_invoice_row", "archive"): Found((("1",),), new=1)})
    page.clock.run_for(11_000)
    expect(row.locator(".sentence").first).to_have_text("violated on 1, holds on 1")
    expect(row.locator(".count")).to_contain_text("1")
    expect(row.get_by_role("link", name="archive")).to_be_visible()


def test_a_page_that_cannot_be_refreshed_says_so_loudly(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """Not knowing is never good news: an old page must not pass for one."""
    site = serve()
    page = open_context().new_page()
    page.clock.install()
    page.goto(site.url)
    lose_store(site.scene)
    page.clock.run_for(11_000)
    expect(page.locator("#live")).to_contain_text("Not refreshed since")
    expect(page.locator("html.lost")).to_have_count(1)
    find_store(site.scene)
    page.clock.run_for(11_000)
    expect(page.locator("#live")).to_contain_text("Live, as of")
    expect(page.locator("html.lost")).to_have_count(0)


def test_a_hidden_page_does_not_ask(serve: Callable[..., Site], open_context: Callable[..., BrowserContext]) -> None:
    """Fifty forgotten tabs cost nothing."""
    site = serve()
    page = open_context().new_page()
    page.clock.install()
    page.goto(site.url)
    page.wait_for_load_state("networkidle")
    page.evaluate(
        "Object.defineProperty(document, 'hidden', {value: true, configurable: true});"
        "document.dispatchEvent(new Event('visibilitychange'))"
    )
    asked: list[str] = []
    page.on("request", lambda one: asked.append(one.url))
    page.clock.run_for(60_000)
    assert [one for one in asked if one == f"{site.url}/"] == []
    with page.expect_request(site.url + "/"):
        page.evaluate(
            "Object.defineProperty(document, 'hidden', {value: false, configurable: true});"
            "document.dispatchEvent(new Event('visibilitychange'))"
        )


def test_what_somebody_types_is_not_taken_away(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    site = serve()
    page = open_context().new_page()
    page.clock.install()
    page.goto(site.url)
    page.get_by_role("searchbox", name="Search").fill("half a wor")
    page.clock.run_for(11_000)
    expect(page.locator("#live")).to_contain_text("Live, as of")
    expect(page.get_by_role("searchbox", name="Search")).to_have_value("half a wor")


def test_hostile_rows_run_nothing(serve: Callable[..., Site], open_context: Callable[..., BrowserContext]) -> None:
    """case 114, in the browser itself, also after a swap."""
    site = serve()
    site.scene.pass_time(timedelta(minutes=14, seconds=18))
    site.scene.look({(REFUNDS, "payments"): Found(HOSTILE_ROWS, ("id", "<b>col</b>"), ("new", "new"), new=2)})
    heard = Heard()
    page = heard.listen(open_context().new_page())
    page.clock.install()
    page.goto(f"{site.url}/alerts/{site.firing}")
    site.scene.pass_time(timedelta(minutes=15))
    site.scene.look(
        {(REFUNDS, "payments"): Found(HOSTILE_ROWS[::-1], ("id", "<b>col</b>"), ("known", "known"), known=2)}
    )
    page.clock.run_for(11_000)
    expect(page.locator("#rows")).to_contain_text("<script>document.title = 'owned'</script>")
    assert "owned" not in page.title()
    assert page.locator("#rows img, #rows b, #rows script").count() == 0
    assert heard.said == []


def test_a_team_signs_in_with_its_token(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """semantics 11.2: with access configured nothing is shown without it."""
    site = serve(token=TOKEN)
    page = open_context().new_page()
    page.goto(f"{site.url}/alerts")
    expect(page).to_have_url(f"{site.url}/sign-in")
    page.get_by_label("Token").fill("a guess")
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("alert")).to_have_text("That is not the token.")
    page.get_by_label("Token").fill(TOKEN)
    page.get_by_role("button", name="Sign in").click()
    expect(page.get_by_role("heading", level=1)).to_contain_text("1 violated")
    page.get_by_role("button", name="Sign out").click()
    expect(page).to_have_url(f"{site.url}/sign-in")
    page.goto(site.url)
    expect(page).to_have_url(f"{site.url}/sign-in")


def test_a_page_of_another_origin_can_do_nothing(
    serve: Callable[..., Site], open_context: Callable[..., BrowserContext]
) -> None:
    """semantics 11.2: the page that the engineer visits is not the engineer."""
    site, other = serve(), serve()
    page = open_context().new_page()
    page.goto(f"{other.url}/healthz")
    outcome = page.evaluate(
        """async (url) => {
            const found = [];
            for (const options of [
                {method: "POST", mode: "no-cors"},
                {method: "POST", mode: "no-cors", headers: {"content-type": "text/plain"}, body: "{}"},
                {method: "POST", headers: {"content-type": "application/json"}, body: "{}"},
            ]) {
                for (const path of ["/-/reload", "/api/v1/runs", "/catalog/reload"]) {
                    try { found.push((await fetch(url + path, options)).type); } catch { found.push("refused"); }
                }
            }
            try { await (await fetch(url + "/api/v1/overview")).text(); found.push("READ"); } catch { found.push("unread"); }
            return found;
        }""",
        site.url,
    )
    assert "READ" not in outcome
    assert (site.calls.reloads, site.calls.runs, site.calls.promotions) == ([], [], [])
