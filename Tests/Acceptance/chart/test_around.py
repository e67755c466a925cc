"""The objects around the pods: scaling, disruption, network, monitoring, topics."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import chart


class Scaling(unittest.TestCase):
    def test_one_owner_of_the_number_of_workers(self):
        for name in chart.value_sets:
            with self.subTest(values=name):
                found = chart.rendered(name)
                scalers = chart.of_kind(found, "HorizontalPodAutoscaler") + chart.of_kind(found, "ScaledObject")
                self.assertEqual("replicas" in chart.workload(found)["spec"], not scalers)
                for scaler in scalers:
                    target = scaler["spec"]["scaleTargetRef"]
                    self.assertEqual(target["kind"], chart.workload(found)["kind"])
                    self.assertEqual(target["name"], chart.workload(found)["metadata"]["name"])

    def test_horizontal_pod_autoscaler(self):
        spec = chart.one(chart.rendered("hpa"), "HorizontalPodAutoscaler")["spec"]
        self.assertEqual((spec["minReplicas"], spec["maxReplicas"]), (3, 12))
        cpu, lanes = spec["metrics"]
        self.assertEqual(cpu["resource"]["target"]["averageUtilization"], 65)
        self.assertEqual(lanes["pods"]["target"], {"type": "AverageValue", "averageValue": "0.6"})
        self.assertEqual(spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 600)

    def test_scaled_object(self):
        spec = chart.one(chart.rendered("keda"), "ScaledObject")["spec"]
        commands, registrations = (trigger["metadata"] for trigger in spec["triggers"])
        self.assertEqual(commands["topic"], "push.commands")
        self.assertEqual(registrations["topic"], "causeway.registrations")
        for trigger in spec["triggers"]:
            self.assertEqual(trigger["authenticationRef"], {"name": "kafka-scaler"})
            metadata = trigger["metadata"]
            self.assertEqual(metadata["consumerGroup"], "push")
            self.assertEqual(metadata["lagThreshold"], "2000000")
            self.assertEqual((metadata["sasl"], metadata["tls"]), ("scram_sha512", "enable"))

    def test_disruption_budget(self):
        self.assertEqual(chart.one(chart.rendered("minimal"), "PodDisruptionBudget")["spec"]["maxUnavailable"], 1)
        self.assertEqual(chart.one(chart.rendered("locked-down"), "PodDisruptionBudget")["spec"]["maxUnavailable"], "25%")


class Network(unittest.TestCase):
    def policy(self, name):
        found = chart.rendered(name)
        return chart.one(found, "NetworkPolicy", chart.workload(found)["metadata"]["name"])["spec"]

    def egress(self, name):
        """The set of ports of each rule, by the rule's purpose."""
        rules = self.policy(name)["egress"]
        return [sorted({port["port"] for port in rule["ports"]}) for rule in rules]

    def test_ports_follow_the_configuration(self):
        dns, apns = [53], [443, 2196]
        self.assertEqual(self.egress("minimal"), [dns, [9093], [6380], apns])
        self.assertEqual(self.egress("apps"), [dns, [9092], [6379], apns])
        self.assertEqual(self.egress("secrets"), [dns, [9093, 9094], [6380], apns])
        self.assertEqual(self.egress("redis-sentinel"), [dns, [9093], [6379, 26379, 26380], apns])
        self.assertEqual(self.egress("redis-cluster"), [dns, [9093], [7000, 7001], apns])
        self.assertEqual(self.egress("placed"), [dns, [9092], apns])
        self.assertEqual(self.egress("locked-down"), [dns, [9093, 9094], [6380], [2196, 2197], [4318]])

    def test_apns_is_reached_in_apples_networks_only(self):
        for name in ("minimal", "locked-down"):
            *_, apns = [rule for rule in self.policy(name)["egress"] if rule["ports"][0]["port"] in (443, 2197)]
            blocks = [peer["ipBlock"]["cidr"] for peer in apns["to"]]
            self.assertIn("17.0.0.0/8", blocks)
            self.assertTrue(all(block == "17.0.0.0/8" or ":" in block for block in blocks))

    def test_nothing_but_metrics_comes_in(self):
        policy = self.policy("minimal")
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual(policy["ingress"], [{"ports": [{"protocol": "TCP", "port": 9464}]}])
        (rule,) = self.policy("locked-down")["ingress"]
        self.assertEqual(rule["from"][0]["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": "monitoring"})

    def test_peers(self):
        _, kafka, redis, _, tracing = self.policy("locked-down")["egress"]
        self.assertIn("namespaceSelector", kafka["to"][0])
        self.assertIn("podSelector", redis["to"][0])
        self.assertEqual(tracing["ports"], [{"protocol": "TCP", "port": 4318}])


class Monitoring(unittest.TestCase):
    found = property(lambda self: chart.rendered("monitoring"))

    def test_service_monitor(self):
        monitor = chart.one(self.found, "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        self.assertEqual((endpoint["port"], endpoint["path"]), ("http", "/metrics"))
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        self.assertEqual(monitor["spec"]["namespaceSelector"], {"matchNames": ["push"]})

    def test_rules_are_those_of_the_file(self):
        written = chart.load((chart.chart / "files/rules.yaml").read_text())["groups"]
        given = chart.one(self.found, "PrometheusRule")["spec"]["groups"]
        self.assertEqual([group["name"] for group in given], [group["name"] for group in written])
        rules = {rule["alert"]: rule for group in given for rule in group["rules"]}
        for group in written:
            for rule in group["rules"]:
                if rule["alert"] == "CausewayTokensDying":
                    self.assertNotIn(rule["alert"], rules)
                    continue
                url = rules[rule["alert"]]["annotations"].pop("runbook_url")
                self.assertEqual(url, f"https://runbooks.example.com/causeway/RUNBOOK.md#{rule['alert'].lower()}")
                self.assertEqual(rules[rule["alert"]], rule)

    def test_dashboard_is_that_of_the_file(self):
        map = chart.one(self.found, "ConfigMap", "push-causeway-dashboard")
        self.assertEqual(map["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(json.loads(map["data"]["causeway.json"]), json.loads((chart.chart / "files/dashboard.json").read_text()))


class Topics(unittest.TestCase):
    """The Job's script runs here with a tool that records its arguments."""

    def calls(self, values=None):
        found = chart.render(values, base="topics") if values else chart.rendered("topics")
        (container,) = chart.one(found, "Job")["spec"]["template"]["spec"]["containers"]
        self.assertEqual(container["command"], ["/bin/sh", "-ec"])
        with tempfile.TemporaryDirectory() as directory:
            tool, log = pathlib.Path(directory, "kafka-topics.sh"), pathlib.Path(directory, "log")
            tool.write_text(f'#!/bin/sh\necho "$@" >> {log}\n')
            os.chmod(tool, 0o755)
            script = container["args"][0].replace("/opt/kafka/bin/kafka-topics.sh", str(tool))
            subprocess.run([*container["command"], script], check=True)
            return [line.split() for line in log.read_text().splitlines()]

    def test_what_is_asked_of_kafka(self):
        topics = {}
        for call in self.calls():
            self.assertIn("--if-not-exists", call)
            self.assertEqual(call[call.index("--bootstrap-server") + 1], "kafka-0.kafka:9093,kafka-1.kafka:9093")
            self.assertEqual(call[call.index("--command-config") + 1], "/etc/kafka-client/client.properties")
            configs = {config for place, config in enumerate(call) if call[place - 1] == "--config"}
            topics[call[call.index("--topic") + 1]] = (call[call.index("--partitions") + 1], configs)
        minute, hour = 60_000, 3_600_000

        def kept(hours, segment):
            return {"min.insync.replicas=2", "cleanup.policy=delete", f"retention.ms={hours * hour}", f"segment.ms={segment}"}

        self.assertEqual(
            topics,
            {
                "causeway.commands": ("48", kept(12, 30 * minute)),
                "causeway.registrations": (
                    "24",
                    {
                        "min.insync.replicas=2",
                        "cleanup.policy=compact",
                        f"min.compaction.lag.ms={hour}",
                        f"delete.retention.ms={168 * hour}",
                        f"segment.ms={6 * hour}",
                    },
                ),
                "causeway.results": ("24", kept(72, 3 * hour)),
                "causeway.invalidations": ("6", kept(168, 7 * hour)),
                "causeway.dead-letters": ("6", kept(336, 14 * hour)),
                "causeway.deferred": ("24", kept(24, hour)),
                "causeway.fanout": ("24", kept(24, hour)),
                "causeway.channels": (
                    "6",
                    {
                        "min.insync.replicas=2",
                        "cleanup.policy=compact",
                        f"min.compaction.lag.ms={hour}",
                        f"delete.retention.ms={168 * hour}",
                        f"segment.ms={6 * hour}",
                    },
                ),
            },
        )

    def test_the_program_plans_the_same_topics(self):
        program = pathlib.Path(os.environ.get("CAUSEWAY") or chart.root / ".build/release/causeway")
        if not program.exists():
            self.skipTest(f"{program} is not built")
        planned = subprocess.run([program, "topics"], capture_output=True, text=True, check=True, env={}).stdout
        values = {"topics": chart.load((chart.chart / "values.yaml").read_text())["topics"] | {"create": True}}
        asked = []
        for call in self.calls(values):
            after = lambda option: call[call.index(option) + 1]
            configs = [config for place, config in enumerate(call) if call[place - 1] == "--config"]
            sizes = [f"partitions={after('--partitions')}", f"replication-factor={after('--replication-factor')}"]
            asked.append(" ".join([after("--topic"), *sizes, *configs]))
        self.assertEqual(sorted(asked), sorted(planned.splitlines()))

    def test_names_come_from_the_configuration(self):
        calls = self.calls({"config": {"kafka": {"topics": {"results": "push.results"}}}})
        self.assertIn("push.results", [call[call.index("--topic") + 1] for call in calls])

    def test_it_is_a_hook_that_may_reach_kafka(self):
        found = chart.rendered("topics")
        for document in (chart.one(found, "Job"), chart.one(found, "NetworkPolicy", "push-causeway-topics")):
            self.assertEqual(document["metadata"]["annotations"]["helm.sh/hook"], "pre-install,pre-upgrade")
        labels = chart.one(found, "Job")["spec"]["template"]["metadata"]["labels"]
        policy = chart.one(found, "NetworkPolicy", "push-causeway-topics")["spec"]
        self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), labels.items())
        self.assertEqual([{p["port"] for p in rule["ports"]} for rule in policy["egress"]], [{53}, {9093}])

    def test_nothing_is_created_unasked(self):
        self.assertEqual(chart.of_kind(chart.rendered("minimal"), "Job"), [])


class Notes(unittest.TestCase):
    def notes(self, name, **values):
        """Only an install prints NOTES.txt; a dry run of an install needs no cluster."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(values, file)
            file.flush()
            text = chart.helm(
                "install", "push", str(chart.chart), "--namespace", "push", "--dry-run=client",
                "--values", str(chart.value_sets[name]), "--values", file.name,
            )
        return text[text.index("NOTES:") :]

    def test_they_say_what_to_do_next(self):
        notes = self.notes("minimal")
        self.assertIn("kubectl --namespace push", notes)
        for topic in ("commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout", "channels"):
            self.assertRegex(notes, rf"causeway\.{topic} +\d+ ")
        self.assertIn("compact", notes)
        self.assertRegex(notes, r"causeway-apns +AuthKey_F6G7H8I9J0\.p8\n")
        self.assertIn(": 2 workers, group causeway, apps match.", notes)
        self.assertNotIn("<no value>", notes)

    def test_they_speak_of_what_was_chosen(self):
        self.assertIn("The Job has created the topics that were missing", re.sub(r"\s+", " ", self.notes("topics")))
        self.assertIn(": 2 to 24 workers by keda, group push,", self.notes("keda"))
        self.assertRegex(self.notes("keda"), r"TriggerAuthentication for KEDA: kafka-scaler\.")
        self.assertRegex(self.notes("topics"), r"kafka-admin +client\.properties")
        self.assertRegex(self.notes("apps"), r"apns-match +production\.p8, sandbox\.p8\n")
        self.assertRegex(self.notes("secrets"), r"causeway-redis +ca\.crt, tls\.crt, password, tls\.key\n")
        self.assertIn("serviceMonitor.enabled", self.notes("minimal"))
        self.assertNotIn("serviceMonitor.enabled", self.notes("monitoring"))
