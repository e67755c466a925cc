"""Upgrades from every released version of the chart to this one."""
import copy
import unittest

import chart
import upgrades


class Upgrade(unittest.TestCase):
    def test_an_upgrade_from_each_version_has_no_fault(self):
        # There must be an older version, because an upgrade to the same version proves little.
        self.assertGreater(len(upgrades.versions()), 1)
        for version in upgrades.versions():
            for name in upgrades.stored_value_sets:
                with self.subTest(version=version, values=name):
                    directory = upgrades.previous_directory / version
                    before = chart.parse_documents((directory / f"{name}.rendered.yaml").read_text())
                    # The new chart must accept the old values. Renamed ones get their new names first.
                    values = chart.load_yaml((directory / f"{name}.values.yaml").read_text())
                    after = chart.parse_documents(chart.render_text(values=upgrades.with_present_names(version, values)))
                    self.assertEqual(list(upgrades.upgrade_faults(version, before, after)), [])

    def test_former_names_are_refused_with_the_new_ones(self):
        for name, advice in (("statefulset", "replicaCount"), ("topics", "topics.job.secretName")):
            with self.assertRaisesRegex(chart.RefusedValues, advice):
                chart.render_text(upgrades.previous_directory / "0.6.0" / f"{name}.values.yaml")

    def test_a_version_renders_the_same_as_when_it_was_stored(self):
        """A change that an installation would notice needs a new version in Chart.yaml, and then `run.py
        --accept`."""
        version = upgrades.current_version()
        self.assertEqual(upgrades.versions()[-1], version, "run Tests/Acceptance/chart/run.py --accept")
        for name in upgrades.stored_value_sets:
            with self.subTest(values=name):
                before = (upgrades.previous_directory / version / f"{name}.rendered.yaml").read_text()
                self.assertEqual(chart.parse_documents(before), chart.objects_of_value_set(name))

    def test_the_comparison_finds_each_fault_of_an_upgrade(self):
        def after(change, name="minimal"):
            found = copy.deepcopy(chart.objects_of_value_set(name))
            change(found)
            return list(upgrades.upgrade_faults("0", chart.objects_of_value_set(name), found))

        self.assertEqual(after(lambda found: None), [])

        def other_selector(found):
            chart.workload(found)["spec"]["selector"]["matchLabels"]["more"] = "x"

        self.assertEqual(len(after(other_selector)), 2)

        def other_service(found):
            chart.only_object(found, "StatefulSet")["spec"]["serviceName"] = "other"

        self.assertEqual(len(after(other_service, "statefulset")), 1)
        self.assertEqual(len(after(lambda found: found.remove(chart.only_object(found, "ConfigMap")))), 1)

        def other_address(found):
            del chart.only_object(found, "Service")["spec"]["clusterIP"]

        self.assertEqual(len(after(other_address)), 1)
        # A hook's Job is deleted and created again, so its fields may change.
        self.assertEqual(after(lambda found: chart.only_object(found, "Job")["spec"].update(selector={"a": "b"}), "topics"), [])

    def test_a_new_image_changes_the_image_alone(self):
        before, after = chart.objects_of_value_set("minimal"), chart.render_objects({"image": {"tag": "9.9.9"}})
        self.assertEqual(list(upgrades.upgrade_faults("0", before, after)), [])
        test = chart.only_object(after, "Pod")["spec"]
        for container in (chart.worker_container(after), *test["initContainers"], *test["containers"]):
            self.assertEqual(container.pop("image"), "causeway:9.9.9")
            container["image"] = chart.worker_container(before)["image"]
        self.assertEqual(before, after)

    def test_changed_values_change_no_immutable_field(self):
        changes = [
            {"replicaCount": 9, "kind": "Deployment"},
            {"autoscaling": {"type": "hpa"}},
            {"commonLabels": {"team": "push"}, "podLabels": {"a": "b"}},
            {"config": {"kafka": {"groupId": "other"}, "worker": {"drainMilliseconds": 90_000}}},
            {"serviceMonitor": {"enabled": True}, "prometheusRule": {"enabled": True}, "dashboard": {"enabled": True}},
            {"image": {"repository": "other/causeway"}, "nodeSelector": {"a": "b"}},
        ]
        for base in ("minimal", "statefulset"):
            for change in changes:
                change = {key: value for key, value in change.items() if base == "minimal" or key != "kind"}
                with self.subTest(base=base, change=change):
                    faults = upgrades.upgrade_faults("0", chart.objects_of_value_set(base), chart.render_objects(change, base=base))
                    self.assertEqual(list(faults), [])
