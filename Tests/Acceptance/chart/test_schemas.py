"""Kubernetes, or the operator that defines a kind, accepts every rendered object."""
import pathlib
import tarfile
import tempfile
import unittest

import jsonschema
import kubernetes_validate

import chart

# The oldest version that Chart.yaml allows, two in between, and the newest that the schemas have.
versions = ["1.27", "1.30", "1.33", "1.37"]
operators = chart.load_yaml((pathlib.Path(__file__).parent / "operators.yaml").read_text())


class Schemas(unittest.TestCase):
    def test_kubernetes_accepts_every_object(self):
        seen = set()
        for name in chart.value_sets:
            for document in chart.objects_of_value_set(name):
                if document["apiVersion"] in operators or chart.hash_of(document) in seen:
                    continue
                seen.add(chart.hash_of(document))
                # The lifecycle hook `sleep` exists since Kubernetes 1.30.
                for version in versions[1:] if name == "extended" else versions:
                    with self.subTest(values=name, kind=document["kind"], version=version):
                        kubernetes_validate.validate(document, version, strict=True)
        self.assertGreater(len(seen), 30)

    def test_the_schemas_of_kubernetes_refuse_an_unknown_field(self):
        document = chart.only_object(chart.objects_of_value_set("minimal"), "Deployment")
        document = {**document, "spec": {**document["spec"], "replica": 2}}
        for version in versions:
            with self.assertRaises(kubernetes_validate.ValidationError):
                kubernetes_validate.validate(document, version, strict=True)

    def test_operators_accept_their_objects(self):
        kinds = set()
        for name in chart.value_sets:
            for document in chart.objects_of_value_set(name):
                if document["apiVersion"] in operators:
                    with self.subTest(values=name, kind=document["kind"]):
                        jsonschema.validate(document["spec"], operators[document["apiVersion"]][document["kind"]])
                    kinds.add(document["kind"])
        self.assertEqual(kinds, {"ServiceMonitor", "PrometheusRule", "ScaledObject"})

    def test_a_kubernetes_that_is_too_old_is_refused(self):
        with self.assertRaisesRegex(chart.RefusedValues, "kubeVersion"):
            chart.render_text(chart.value_sets["minimal"], arguments=["--kube-version", "1.26.0"])
        for version in versions:
            chart.render_text(chart.value_sets["minimal"], arguments=["--kube-version", f"{version}.0"])

    def test_helm_lint_finds_no_fault(self):
        for name, file in chart.value_sets.items():
            with self.subTest(values=name):
                chart.helm("lint", str(chart.chart), "--strict", "--values", str(file))

    def test_a_package_has_exactly_the_files_of_the_chart(self):
        with tempfile.TemporaryDirectory() as directory:
            chart.helm("package", str(chart.chart), "--destination", directory)
            (archive,) = pathlib.Path(directory).glob("*.tgz")
            with tarfile.open(archive) as files:
                names = files.getnames()
            self.assertEqual(
                chart.parse_documents(chart.render_text(chart.value_sets["minimal"], chart=archive)), chart.objects_of_value_set("minimal")
            )
        for name in ["values.schema.json", "RUNBOOK.md", "README.md", "CONFIG.md", "files/rules.yaml", "files/dashboard.json"]:
            self.assertIn(f"causeway/{name}", names)
