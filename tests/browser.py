"""A real browser for the tests of pages: Debian's chromium, driven by Playwright."""

import shutil
import tempfile
from contextlib import contextmanager

import pytest

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def browser_page(width=1200, height=800):
    """Open a new page in a browser with a profile of its own; skip the test where there is none."""
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)} is installed")
    with tempfile.TemporaryDirectory() as profile, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch_persistent_context(
            profile, executable_path=program, args=FLAGS, viewport={"width": width, "height": height}
        )
        browser.set_default_timeout(60_000)
        yield browser.new_page()
        browser.close()
