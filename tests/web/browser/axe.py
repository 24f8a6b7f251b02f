"""Ask axe what is wrong with a page for people who use it without eyes, mouse or much contrast."""

from pathlib import Path

from playwright.sync_api import Page

# Playwright runs it beside the page, so the CSP of the page does not stop it.
AXE = (Path(__file__).parent / "vendor" / "axe.min.js").read_text(encoding="utf-8")
# WCAG 2.2 AA, and what axe calls good practice.
RUN = """
async () => {
    const {violations} = await axe.run(document, {
        resultTypes: ["violations"],
        runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    });
    return violations.map((each) => `${each.id}: ${each.nodes[0].html} ${each.nodes[0].failureSummary}`);
}
"""


def find_violations(page: Page) -> list[str]:
    """Return what axe finds, each kind once."""
    page.evaluate(AXE)
    found: list[str] = page.evaluate(RUN)
    return found
