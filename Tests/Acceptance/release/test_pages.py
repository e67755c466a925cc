"""What SECURITY.md and the pages of Documentation name exists: linked files and sections, targets of make, and keys of
the configuration. README.md links each page."""
import pathlib
import re
import unittest

root = pathlib.Path(__file__).resolve().parents[3]
pages = [root / "SECURITY.md", *sorted((root / "Documentation").rglob("*.md"))]
linking = [root / "README.md", root / "CONTRIBUTING.md", *pages]


def anchors(page):
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in re.findall(r"^#+ (.+)$", page.read_text(), re.M)}


class Pages(unittest.TestCase):
    def test_linked_files_and_sections_exist(self):
        count = 0
        for page in linking:
            for target in re.findall(r"\]\(([^)#]*(?:#[^)]*)?)\)", page.read_text()):
                if target.startswith("http"):
                    continue
                file, _, anchor = target.partition("#")
                place = (page.parent / file).resolve() if file else page
                self.assertTrue(place.exists(), f"{page.name}: {target}")
                if anchor:
                    self.assertIn(anchor, anchors(place), f"{page.name}: {target}")
                count += 1
        self.assertGreater(count, 2)

    def test_named_targets_of_make_exist(self):
        targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
        for page in pages:
            for target in re.findall(r"(?:`|\$ |&& )make ([a-z-]+)", page.read_text()):
                self.assertIn(target, targets, page.name)

    def test_named_configuration_keys_exist(self):
        known = (root / "Config/causeway.yaml").read_text()
        for page in pages:
            # A page's example may add a key to the schema. Its code then has the key's name on a line of its own.
            text = page.read_text()
            added = set(re.findall(r'^ +"\w+\.(\w+)",$', text, re.M))
            for key in re.findall(r"`(?:apns|redis|expiration|worker|kafka)\.(\w+)`", text):
                if key not in added:
                    self.assertRegex(known, rf"(?m)^ +{key}:", page.name)

    def test_the_readme_or_contributing_links_each_page(self):
        linked = "".join((root / page).read_text() for page in ("README.md", "CONTRIBUTING.md"))
        for page in pages:
            self.assertRegex(linked, rf"\({re.escape(str(page.relative_to(root)))}[)#]", page.name)
