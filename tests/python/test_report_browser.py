"""The report in a browser: it loads nothing, says nothing on the console, sorts, and is accessible, wide and narrow.

Needs Chromium, which the step ``prerequisites`` of tests/run.py installs in CI; elsewhere the tests say that they need
it, and are skipped.
"""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import corpus
from command import call

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.full, pytest.mark.release]
SOURCES = [corpus.GOLDEN / "internal-compacted" / "data-1", corpus.GOLDEN / "clean-restarts" / "data-1"]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        reason = "no chromium on the PATH: the report is not tested in a browser (apt-get install chromium)"
        # Where everything has to be tested, it is an error.
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("browser") / "report.html"
    assert call("report", *SOURCES, "-o", out).returncode in {0, 1}
    return out


@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_page(browser: Any, report: Path, width: int, scheme: str) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert asked == [report.as_uri()]
    assert page.evaluate("document.documentElement.scrollWidth") == width, "nothing is wider than the page"
    # Wide tables scroll in their frames: no column is so narrow that its words are read downwards.
    narrow = "[...document.querySelectorAll('tbody td')].filter(c => c.textContent.length > 6 && c.clientWidth < 60)"
    assert page.evaluate(f"{narrow}.map(c => c.textContent)") == []
    heading = page.locator("table[data-rows=topics] th[data-key=records]")
    cells = "[...document.querySelectorAll('table[data-rows=topics] tbody td:nth-child(%d)')].map(c => c.textContent)"
    place = heading.evaluate("each => each.cellIndex + 1")

    def numbers() -> list[int]:
        return [int(text.replace(",", "")) for text in page.evaluate(cells % place)]

    for order, backwards in (("descending", True), ("ascending", False)):
        heading.locator("button").click()
        assert heading.get_attribute("aria-sort") == order
        assert numbers() == sorted(numbers(), reverse=backwards)
    assert len(set(numbers())) > 2
    assert page.evaluate("document.querySelectorAll('table[data-rows=topics] tfoot tr').length") == 2
    colours = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (colours == "rgb(255, 255, 255)") == (scheme == "light")
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    assert said == []
    context.close()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_accessibility(browser: Any, report: Path, scheme: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    # The policy of the page forbids the checker's script, too.
    context = browser.new_context(viewport={"width": 1280, "height": 900}, color_scheme=scheme, bypass_csp=True)
    page = context.new_page()
    page.goto(report.as_uri())
    found = axe.Axe().run(page).response["violations"]
    assert [(each["id"], each["nodes"][0]["html"][:200]) for each in found] == []
    context.close()


def test_the_policy_holds(browser: Any, report: Path) -> None:
    context = browser.new_context()
    page = context.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(report.as_uri())
    outcome = page.evaluate("fetch('http://127.0.0.1:9/').then(() => 'answered', error => String(error))")
    assert "TypeError" in outcome
    assert any("Content Security Policy" in text for text in said)
    context.close()
