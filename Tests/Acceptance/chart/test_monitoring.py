"""Alerts (evaluated by promtool), dashboard and runbook. They may name only metrics that exist."""
import json
import pathlib
import re
import sys
import tempfile
import unittest

import yaml

import chart

rules_file = chart.chart / "files/rules.yaml"
rules = {rule["alert"]: rule for group in chart.load_yaml(rules_file.read_text())["groups"] for rule in group["rules"]}
cases = chart.load_yaml((chart.tests_directory / "alerts/cases.yaml").read_text())
dashboard = json.loads((chart.chart / "files/dashboard.json").read_text())
runbook = (chart.chart / "RUNBOOK.md").read_text()
METRIC = r"\b(?:causeway|process)_[a-z_]+\b"


def metrics():
    """Returns the names of all metrics in METRICS.md, each also with the endings that a histogram's series have."""
    names = set(re.findall(rf"`({METRIC})", (chart.chart / "METRICS.md").read_text()))
    return names | {f"{name}_{series}" for name in names for series in ("bucket", "sum", "count")}


def log_kinds():
    """Returns the level of each kind of log line in METRICS.md."""
    return dict(re.findall(r"^\| `([a-z-]+)` \| (\w+) \|", (chart.chart / "METRICS.md").read_text(), re.M))


def explained_kinds(page):
    """Returns the kinds of log lines that have an entry on a page, in its order."""
    return re.findall(r"^\| `([a-z-]+)` \|", page, re.M)


def unexplained_kinds(page):
    """Returns the kinds of log lines of level warning or above that have no entry on a page."""
    explained = explained_kinds(page)
    return [kind for kind, level in log_kinds().items() if level in ("warning", "error", "critical") and kind not in explained]


def promtool(*arguments):
    return chart.run([chart.tools / "promtool", *map(str, arguments)])


def seconds(duration):
    return sum(int(n) * {"s": 1, "m": 60, "h": 3600}[unit] for n, unit in re.findall(r"(\d+)([smh])", duration))


def series_of(part):
    series = []
    for name, values in part["series"].items():
        metric, labels = name.rstrip("}").split("{")
        given_labels = re.findall(r'(\w+)="', labels)
        more = {"namespace": "push", "job": "causeway", "pod": "a"}
        more = "".join(f',{key}="{value}"' for key, value in more.items() if key not in given_labels)
        series.append({"series": f"{metric}{{{labels}{more}}}", "values": values})
    return series


def unit_test(case, part, at, fired):
    rule = rules[case["alert"]]
    expected = []
    if fired:
        labels = {"namespace": "push", "job": "causeway", **rule["labels"], **part.get("labels", {})}
        annotations = {**rule["annotations"], "description": part["description"]}
        expected = [{"exp_labels": labels, "exp_annotations": annotations}]
    return {
        "interval": "15s",
        "name": case["alert"] + (" fires" if fired else f" is quiet: {part.get('because', 'not yet')}"),
        "input_series": series_of(part),
        "alert_rule_test": [{"eval_time": at, "alertname": case["alert"], "exp_alerts": expected}],
    }


class Alerts(unittest.TestCase):
    def run_tests(self, tests):
        with tempfile.TemporaryDirectory() as directory:
            file = pathlib.Path(directory, "tests.yaml")
            document = {"rule_files": [str(rules_file)], "evaluation_interval": "15s", "tests": tests}
            file.write_text(yaml.safe_dump(document, sort_keys=False))
            return promtool("test", "rules", file)

    def assert_tests_pass(self, tests):
        done = self.run_tests(tests)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_promtool_accepts_the_file_of_rules(self):
        done = promtool("check", "rules", rules_file)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_each_alert_has_cases(self):
        self.assertEqual({case["alert"] for case in cases}, set(rules))
        for case in cases:
            self.assertTrue(case["quiet"], case["alert"])

    def test_each_alert_fires_in_its_case(self):
        parts = [(case, part) for case in cases for part in [case["fires"], *case.get("also", [])]]
        self.assert_tests_pass([unit_test(case, part, part["at"], fired=True) for case, part in parts])

    def test_no_alert_fires_at_once(self):
        """No alert fires in the first 15 seconds, because a fault that passes quickly must wake nobody."""
        self.assert_tests_pass([unit_test(case, case["fires"], "15s", fired=False) for case in cases])

    def test_each_alert_stays_quiet_in_its_quiet_cases(self):
        tests = []
        for case in cases:
            for part in case["quiet"]:
                # Evaluates the rule each minute, up to the time at which the firing case is evaluated.
                first = seconds(part.get("from", "1m")) // 60
                for minute in range(first, seconds(case["fires"]["at"]) // 60 + 1):
                    tests.append(unit_test(case, part, f"{minute}m", fired=False))
        merged = {}
        for test in tests:
            merged.setdefault(test["name"], test)
            if merged[test["name"]] is not test:
                merged[test["name"]]["alert_rule_test"] += test["alert_rule_test"]
        self.assert_tests_pass(list(merged.values()))

    def test_tests_of_whole_workers_cause_each_alert(self):
        """The tests of whole workers expect each alert to fire, and name no alert that does not exist."""
        swift = "".join(file.read_text() for file in (chart.root / "Tests/EndToEndTests").glob("PrometheusAlert*Tests.swift"))
        fired = {name for call in re.findall(r'firing:((?:\s*"\w+",?)+)', swift) for name in re.findall(r"\w+", call)}
        self.assertEqual(fired, set(rules))

    def test_a_failed_case_fails_promtool(self):
        (case, *_) = cases
        done = self.run_tests([unit_test(case, case["fires"], case["fires"]["at"], fired=False)])
        self.assertNotEqual(done.returncode, 0)

    def test_each_alert_says_what_to_do(self):
        for name, rule in rules.items():
            with self.subTest(alert=name):
                self.assertIn(rule["labels"]["severity"], ("critical", "warning"))
                self.assertEqual(set(rule["annotations"]), {"summary", "description", "action"})

    def test_their_metrics_exist(self):
        known = metrics()
        for name, rule in rules.items():
            with self.subTest(alert=name):
                self.assertLessEqual(set(re.findall(METRIC, rule["expr"])), known)


class Dashboard(unittest.TestCase):
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    queries = [(panel["title"], target["expr"]) for panel in panels for target in panel["targets"]]

    def test_the_file_is_what_make_dashboard_writes(self):
        for option in ("--self-test", "--check"):
            with self.subTest(option=option):
                done = chart.run([sys.executable, chart.root / ".ci/dashboard", option])
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_identifiers_and_titles_of_panels_are_unique(self):
        for key in ("uid", "title", "schemaVersion", "panels", "templating", "time"):
            self.assertIn(key, dashboard)
        identifiers = [panel["id"] for panel in dashboard["panels"]]
        self.assertEqual(len(identifiers), len(set(identifiers)))
        titles = [panel["title"] for panel in self.panels]
        self.assertEqual(len(titles), len(set(titles)))
        for panel in self.panels:
            with self.subTest(panel=panel["title"]):
                self.assertIn(panel["type"], ("timeseries", "stat", "table"))
                self.assertTrue(panel["description"])
                self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                references = [target["refId"] for target in panel["targets"]]
                self.assertEqual(len(references), len(set(references)))
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"], panel["datasource"])

    def test_panels_do_not_overlap(self):
        taken = {}
        for panel in dashboard["panels"]:
            place = panel["gridPos"]
            self.assertLessEqual(place["x"] + place["w"], 24)
            for x in range(place["x"], place["x"] + place["w"]):
                for y in range(place["y"], place["y"] + place["h"]):
                    self.assertNotIn((x, y), taken, f"{panel['title']} and {taken.get((x, y))}")
                    taken[x, y] = panel["title"]

    def test_queries_are_promql(self):
        """promtool checks only rules, so each query becomes the expression of a rule."""
        substitute = lambda text: re.sub(r"\$\w+", "x", text)
        found = [substitute(query) for _, query in self.queries]
        found += [annotation["expr"].replace("$", "") for annotation in dashboard["annotations"]["list"] if "expr" in annotation]
        recorded = [{"record": f"query:{number}", "expr": query} for number, query in enumerate(found)]
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            yaml.safe_dump({"groups": [{"name": "queries", "rules": recorded}]}, file)
            file.flush()
            done = promtool("check", "rules", "--lint=none", file.name)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn(f"{len(found)} rules", done.stdout)

    def test_queries_keep_to_one_fleet(self):
        for title, query in self.queries:
            with self.subTest(panel=title):
                for selector in re.findall(rf"{METRIC}(\{{[^}}]*\}})?", query):
                    self.assertIn('namespace="$namespace",job="$job"', selector)

    def test_variables_are_defined(self):
        defined = {variable["name"] for variable in dashboard["templating"]["list"]}
        used = set(re.findall(r"\$\{?(\w+)", json.dumps(self.queries))) | {"datasource"}
        self.assertEqual(used, defined)

    def test_their_metrics_exist(self):
        known = metrics()
        for title, query in self.queries:
            with self.subTest(panel=title):
                self.assertEqual(set(re.findall(METRIC, query)) - known, set(), "not in METRICS.md: run `make metrics-page`")
        variables = json.dumps(dashboard["templating"])
        self.assertLessEqual(set(re.findall(METRIC, variables)), known)

    def test_the_dashboard_shows_each_metric(self):
        shown = set(re.findall(METRIC, json.dumps(self.queries)))
        shown |= {re.sub(r"_(bucket|sum|count)$", "", name) for name in shown}
        names = set(re.findall(rf"`({METRIC})", (chart.chart / "METRICS.md").read_text()))
        # Metrics for single queries, which the dashboard does not show.
        unshown = {
            "causeway_kafka_thread_busy_seconds_total", "causeway_lane_busy_seconds_total", "causeway_committable_offset",
            "process_virtual_memory_bytes",
        }
        self.assertEqual(names - shown, unshown)


class Runbook(unittest.TestCase):
    def test_each_alert_has_an_entry(self):
        section = re.search(r"^## Alerts$(.*?)^## ", runbook, re.M | re.S)[1]
        headings = re.findall(r"^### (\w+)$", section, re.M)
        self.assertEqual(headings, list(rules))
        for name in rules:
            entry = re.search(rf"^### {name}$(.*?)(?=^##)", runbook, re.M | re.S)[1]
            for part in ("**Means.**", "**Look at.**", "**Do.**"):
                self.assertIn(part, entry, name)

    def test_the_metrics_of_the_runbook_exist(self):
        self.assertLessEqual(set(re.findall(METRIC, runbook)), metrics())

    def test_each_log_line_that_may_need_a_person_is_explained(self):
        """METRICS.md lists every kind of log line. RUNBOOK.md must explain each warning, error and critical line."""
        kinds = log_kinds()
        self.assertGreater(len(kinds), 20)
        self.assertEqual(kinds["apns-closed"], "warning")
        explained = explained_kinds(runbook)
        self.assertEqual(len(explained), len(set(explained)))
        self.assertLessEqual(set(explained), set(kinds))
        self.assertEqual(unexplained_kinds(runbook), [], "not in RUNBOOK.md, section Log lines")

    def test_a_missing_entry_of_a_log_line_is_found(self):
        for kind in ("http-failed", "redis-error", "kafka-fatal"):
            without = re.sub(rf"^\| `{kind}` \|.*\n", "", runbook, flags=re.M)
            self.assertEqual(unexplained_kinds(without), [kind])

    def test_the_log_lines_of_the_runbook_exist(self):
        catalog = (chart.chart / "METRICS.md").read_text()
        for kind in re.findall(r"line `([a-z]+-[a-z-]+)`", runbook):
            self.assertIn(f"| `{kind}` |", catalog)
