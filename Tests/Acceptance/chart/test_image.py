"""The image that the Dockerfile describes, and what the chart expects of the image. `make image-check` runs
the Dockerfile's later steps, and the program in their result."""
import json
import re
import unittest

import chart

text = re.sub(r"\\\n\s*", " ", (chart.root / "Dockerfile").read_text())
lines = [line for line in text.splitlines() if line and not line.startswith("#")]
first_of_last_stage = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
last_stage = lines[first_of_last_stage:]
chart_facts = chart.load_yaml((chart.chart / "Chart.yaml").read_text())


def instruction(name):
    (only,) = [line.removeprefix(name).strip() for line in last_stage if line.startswith(f"{name} ")]
    return only


class Image(unittest.TestCase):
    def test_the_image_has_only_copied_files(self):
        self.assertEqual(last_stage[0], "FROM scratch")
        self.assertEqual(instruction("COPY"), "--from=debian /image/ /")
        # The last stage has no shell, so a RUN instruction would fail.
        self.assertFalse([line for line in last_stage if line.startswith("RUN")])
        # .dockerignore must not exclude the script that copies the files.
        ignored = (chart.root / ".dockerignore").read_text().splitlines()
        self.assertGreater(ignored.index("!.ci/image-files"), ignored.index(".ci"))

    def test_the_chart_and_the_image_have_the_same_user_port_and_arguments(self):
        found = chart.objects_of_value_set("minimal")
        context, container = chart.pod_spec(found)["securityContext"], chart.worker_container(found)
        self.assertEqual(instruction("USER"), f"{context['runAsUser']}:{context['runAsGroup']}")
        self.assertEqual(instruction("EXPOSE"), str(container["ports"][0]["containerPort"]))
        self.assertEqual(json.loads(instruction("CMD")), container["args"])
        self.assertEqual(json.loads(instruction("ENTRYPOINT")), ["causeway"])
        self.assertNotIn("command", container)

    def test_the_health_check_needs_no_shell(self):
        self.assertEqual(json.loads(instruction("HEALTHCHECK").split(" CMD ")[1]), ["causeway", "health"])

    def test_the_labels_are_those_of_the_chart(self):
        labels = dict(re.findall(r'org\.opencontainers\.image\.(\w+)="([^"]*)"', instruction("LABEL")))
        self.assertEqual(labels["title"], chart_facts["name"])
        self.assertEqual(labels["description"], chart_facts["description"])
        self.assertEqual((labels["version"], labels["revision"]), ("${VERSION}", "${REVISION}"))
        self.assertTrue(labels["licenses"])
        self.assertIn(f"ARG VERSION={chart_facts['appVersion']}", last_stage)

    def test_the_readme_names_the_versions_of_debian_and_librdkafka(self):
        readme = (chart.chart / "README.md").read_text()
        self.assertIn("ARG DEBIAN=trixie-slim", lines)
        for fact in ("Debian 13", "librdkafka 2.8.0", "DEBIAN=bookworm-slim"):
            self.assertIn(fact, readme)
