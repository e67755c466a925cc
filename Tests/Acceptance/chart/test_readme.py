"""The chart accepts the values that README.md tells people to write."""
import re
import unittest

import chart
import test_schemas

text = (chart.chart / "README.md").read_text()
blocks = re.findall(r"^```yaml\n(.*?)^```$", text, re.M | re.S)


class Readme(unittest.TestCase):
    def test_the_chart_accepts_the_values_of_the_page(self):
        values = [block for block in blocks if "apiVersion" not in block]
        self.assertGreater(len(values), 3)
        first, *others = map(chart.load_yaml, values)
        # The first values are complete. The others are additions to them.
        self.assertIn("apps", first["config"])
        self.assertEqual(chart.workload(chart.parse_documents(chart.render_text(values=first)))["kind"], "Deployment")
        for value in others:
            with self.subTest(values=value):
                chart.render_objects(value)

    def test_the_objects_of_the_page_have_the_names_that_the_chart_refers_to(self):
        objects = [chart.load_yaml(block) for block in blocks if "apiVersion" in block]
        kinds = {found["kind"]: found for found in objects}
        (scaler,) = [chart.load_yaml(block) for block in blocks if "authenticationRef" in block]
        found = chart.render_objects({"autoscaling": {"type": "hpa", "hpa": {"cpuPercent": 0, "laneBusyRatio": "0.6"}}})
        (metric,) = chart.only_object(found, "HorizontalPodAutoscaler")["spec"]["metrics"]
        (rule,) = chart.load_yaml(kinds["ConfigMap"]["data"]["config.yaml"])["rules"]
        self.assertTrue(rule["seriesQuery"].startswith(metric["pods"]["metric"]["name"] + "{"))
        self.assertEqual(kinds["TriggerAuthentication"]["metadata"]["name"], scaler["autoscaling"]["keda"]["authenticationRef"])
        self.assertIn(kinds["TriggerAuthentication"]["apiVersion"], test_schemas.operators)

    def test_each_page_says_when_workers_write_commands(self):
        """Workers write commands for starts to audiences, and to end activities whose lifetime is over."""
        notes = (chart.chart / "templates/NOTES.txt").read_text()
        runbook = (chart.chart / "RUNBOOK.md").read_text()
        for page in (text, notes, runbook):
            words = " ".join(page.replace("`", "").split())
            self.assertIn("If starts name audiences, or if a policy has lifetimeSeconds,", words)

    def test_the_page_gives_the_user_of_redis_all_rights_that_workers_need(self):
        """The tests of Redis restrict a user of a real server to these rights."""
        tests = (chart.root / "Tests/RedisTopologyTests/ServerTests.swift").read_text()
        (rights,) = re.findall(r'"--user", "causeway"(.*?)\]\)', tests, re.S)
        granted = set(re.findall(r'"(\+[a-z|]+)"', rights))
        self.assertGreater(len(granted), 10)
        self.assertLessEqual(granted, set(re.findall(r"\+[a-z|]+", text)))
