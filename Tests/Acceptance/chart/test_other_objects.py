"""The objects other than the pods: scaling, disruption, network, monitoring, topics; and the notes for the installer."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import chart


def program(test):
    """Returns the path of the built program. Skips the test if there is none."""
    path = pathlib.Path(os.environ.get("CAUSEWAY") or chart.root / ".build/release/causeway")
    if not path.exists():
        test.skipTest(f"{path} is not built")
    return path


class Scaling(unittest.TestCase):
    def test_only_one_object_sets_the_number_of_workers(self):
        for name in chart.value_sets:
            with self.subTest(values=name):
                found = chart.objects_of_value_set(name)
                scalers = chart.objects_of_kind(found, "HorizontalPodAutoscaler") + chart.objects_of_kind(found, "ScaledObject")
                self.assertEqual("replicas" in chart.workload(found)["spec"], not scalers)
                for scaler in scalers:
                    target = scaler["spec"]["scaleTargetRef"]
                    self.assertEqual(target["kind"], chart.workload(found)["kind"])
                    self.assertEqual(target["name"], chart.workload(found)["metadata"]["name"])

    def test_the_horizontal_pod_autoscaler_has_the_chosen_values(self):
        spec = chart.only_object(chart.objects_of_value_set("hpa"), "HorizontalPodAutoscaler")["spec"]
        self.assertEqual((spec["minReplicas"], spec["maxReplicas"]), (3, 12))
        cpu, lanes = spec["metrics"]
        self.assertEqual(cpu["resource"]["target"]["averageUtilization"], 65)
        self.assertEqual(lanes["pods"]["target"], {"type": "AverageValue", "averageValue": "0.6"})
        self.assertEqual(spec["behavior"]["scaleDown"]["stabilizationWindowSeconds"], 600)

    def test_the_scaled_object_has_the_chosen_values(self):
        spec = chart.only_object(chart.objects_of_value_set("keda"), "ScaledObject")["spec"]
        commands, registrations, fanout = (trigger["metadata"] for trigger in spec["triggers"])
        self.assertEqual((commands["topic"], commands["lagThreshold"]), ("push.commands", "2000000"))
        self.assertEqual((registrations["topic"], registrations["lagThreshold"]), ("causeway.registrations", "2000000"))
        # A fan-out record stands for thousands of pushes, so few of them are much work.
        self.assertEqual((fanout["topic"], fanout["lagThreshold"]), ("causeway.fanout", "32"))
        # Its records wait while APNs accepts no pushes of an app. More workers would not help these.
        self.assertEqual(fanout["excludePersistentLag"], "true")
        self.assertNotIn("excludePersistentLag", commands | registrations)
        self.assertEqual([trigger.get("useCachedMetrics") for trigger in spec["triggers"]], [None, None, True])
        for trigger in spec["triggers"]:
            self.assertEqual(trigger["authenticationRef"], {"name": "kafka-scaler"})
            metadata = trigger["metadata"]
            self.assertEqual(metadata["consumerGroup"], "push")
            self.assertEqual((metadata["sasl"], metadata["tls"]), ("scram_sha512", "enable"))

    def scalers(self, values=None, has_keda=True):
        """Returns the scalers and their specifications, for a cluster with or without KEDA."""
        arguments = ["--api-versions", "keda.sh/v1alpha1/ScaledObject"] if has_keda else []
        found = chart.parse_documents(chart.render_text(chart.value_sets["minimal"], values=values or {}, arguments=arguments))
        scalers = chart.objects_of_kind(found, "HorizontalPodAutoscaler") + chart.objects_of_kind(found, "ScaledObject")
        self.assertEqual("replicas" in chart.workload(found)["spec"], not scalers)
        return [(scaler["kind"], scaler["spec"]) for scaler in scalers]

    def test_by_default_workers_scale_by_lag_if_keda_is_installed(self):
        ((kind, spec),) = self.scalers()
        self.assertEqual((kind, spec["minReplicaCount"], spec["maxReplicaCount"]), ("ScaledObject", 2, 8))
        self.assertEqual({trigger["type"] for trigger in spec["triggers"]}, {"kafka"})
        self.assertEqual(self.scalers(has_keda=False), [])
        self.assertEqual(self.scalers({"autoscaling": {"type": "none"}}), [])
        ((kind, _),) = self.scalers({"autoscaling": {"type": "hpa"}})
        self.assertEqual(kind, "HorizontalPodAutoscaler")

    def test_the_values_may_count_lag_that_stays(self):
        metadata = {"excludePersistentLag": "false"}
        ((_, spec),) = self.scalers({"autoscaling": {"keda": {"metadata": metadata}}})
        self.assertEqual({trigger["metadata"]["excludePersistentLag"] for trigger in spec["triggers"]}, {"false"})

    def test_there_is_no_scaled_object_if_keda_cannot_ask_kafka(self):
        secured = {"config": {"kafka": {"properties": {"security.protocol": "SASL_SSL"}}}}
        self.assertEqual(self.scalers(secured), [])
        ((_, spec),) = self.scalers(secured | {"autoscaling": {"keda": {"authenticationRef": "kafka-scaler"}}})
        self.assertEqual(spec["triggers"][0]["authenticationRef"], {"name": "kafka-scaler"})
        # With `replicaCount: 0` an operator has stopped the workers, so nothing may scale them up.
        self.assertEqual(self.scalers({"replicaCount": 0}), [])

    def test_limits_follow_the_number_of_workers(self):
        for values, limits in (
            ({"replicaCount": 5}, (5, 20)), ({"replicaCount": 9}, (9, 24)), ({"autoscaling": {"minReplicas": 3}}, (3, 12)),
            ({"autoscaling": {"maxReplicas": 6}}, (2, 6)), ({"topics": {"commands": {"partitions": 4}}}, (2, 4)),
        ):
            with self.subTest(values=values):
                ((_, spec),) = self.scalers(values)
                self.assertEqual((spec["minReplicaCount"], spec["maxReplicaCount"]), limits)

    def test_the_disruption_budget_has_the_chosen_value(self):
        for name, unavailable_max in (("minimal", 1), ("locked-down", "25%")):
            budget = chart.only_object(chart.objects_of_value_set(name), "PodDisruptionBudget")
            self.assertEqual(budget["spec"]["maxUnavailable"], unavailable_max)


class Network(unittest.TestCase):
    def network_policy_spec(self, name):
        found = chart.objects_of_value_set(name)
        return chart.only_object(found, "NetworkPolicy", chart.workload(found)["metadata"]["name"])["spec"]

    def egress_ports(self, name):
        """Returns the ports of each egress rule."""
        rules = self.network_policy_spec(name)["egress"]
        return [sorted({port["port"] for port in rule["ports"]}) for rule in rules]

    def test_ports_follow_the_configuration(self):
        dns, apns = [53], [443, 2196]
        self.assertEqual(self.egress_ports("minimal"), [dns, [9093], [6380], apns])
        self.assertEqual(self.egress_ports("apps"), [dns, [9092], [6379], apns])
        self.assertEqual(self.egress_ports("secrets"), [dns, [9093, 9094], [6380], apns])
        self.assertEqual(self.egress_ports("redis-sentinel"), [dns, [9093], [6379, 26379, 26380], apns])
        self.assertEqual(self.egress_ports("redis-cluster"), [dns, [9093], [7000, 7001], apns])
        self.assertEqual(self.egress_ports("placed"), [dns, [9092], apns])
        self.assertEqual(self.egress_ports("locked-down"), [dns, [9093, 9094], [6380], [443, 2196, 2197], [4318]])

    def test_apns_is_reached_in_apples_networks_only(self):
        for name in ("minimal", "locked-down"):
            *_, apns = [rule for rule in self.network_policy_spec(name)["egress"] if rule["ports"][0]["port"] in (443, 2197)]
            blocks = [peer["ipBlock"]["cidr"] for peer in apns["to"]]
            self.assertIn("17.0.0.0/8", blocks)
            self.assertTrue(all(block == "17.0.0.0/8" or ":" in block for block in blocks))

    def test_nothing_but_metrics_comes_in(self):
        policy = self.network_policy_spec("minimal")
        self.assertEqual(policy["policyTypes"], ["Ingress", "Egress"])
        self.assertEqual(policy["ingress"], [{"ports": [{"protocol": "TCP", "port": 9464}]}])
        (rule,) = self.network_policy_spec("locked-down")["ingress"]
        self.assertEqual(rule["from"][0]["namespaceSelector"]["matchLabels"], {"kubernetes.io/metadata.name": "monitoring"})

    def test_the_peers_of_egress_rules_can_be_chosen(self):
        _, kafka, redis, _, tracing = self.network_policy_spec("locked-down")["egress"]
        self.assertIn("namespaceSelector", kafka["to"][0])
        self.assertIn("podSelector", redis["to"][0])
        self.assertEqual(tracing["ports"], [{"protocol": "TCP", "port": 4318}])


class Monitoring(unittest.TestCase):
    found = property(lambda self: chart.objects_of_value_set("monitoring"))

    def test_the_service_monitor_reads_the_metrics_of_the_pods(self):
        monitor = chart.only_object(self.found, "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        self.assertEqual((endpoint["port"], endpoint["path"]), ("http", "/metrics"))
        self.assertEqual(monitor["metadata"]["labels"]["release"], "prometheus")
        self.assertEqual(monitor["spec"]["namespaceSelector"], {"matchNames": ["push"]})

    def test_the_service_monitor_has_the_chosen_relabelings(self):
        values = {
            "relabelings": [{"sourceLabels": ["__meta_kubernetes_pod_node_name"], "targetLabel": "node"}],
            "metricRelabelings": [{"action": "drop", "regex": "causeway_stage_.*", "sourceLabels": ["__name__"]}],
        }
        monitor = chart.only_object(chart.render_objects({"serviceMonitor": values}, base="monitoring"), "ServiceMonitor")
        (endpoint,) = monitor["spec"]["endpoints"]
        self.assertEqual({name: endpoint[name] for name in values}, values)

    def rules(self, values):
        found = chart.render_objects({"prometheusRule": values}, base="monitoring")
        groups = chart.only_object(found, "PrometheusRule")["spec"]["groups"]
        return {rule["alert"]: rule for group in groups for rule in group["rules"]}

    def test_each_threshold_is_a_value(self):
        """Each default equals the number in the file of rules. Another value changes only the alert's
        comparison."""
        thresholds = chart.load_yaml((chart.chart / "values.yaml").read_text())["prometheusRule"]["thresholds"]
        before = self.rules({"disabledAlerts": []})
        others = {name: 0.75 if isinstance(number, float) else 4321 for name, number in thresholds.items()}
        after = self.rules({"thresholds": others, "disabledAlerts": []})
        for name, rule in before.items():
            with self.subTest(alert=name):
                if name not in thresholds:
                    self.assertEqual(after[name], rule)
                    continue
                default = re.findall(rf"[<>] {re.escape(str(thresholds[name]))}(?![\d.])", rule["expr"])
                self.assertTrue(default)
                changed = re.findall(rf"[<>] {re.escape(str(others[name]))}(?![\d.])", after[name]["expr"])
                self.assertEqual(len(changed), len(default))
                self.assertEqual(after[name]["expr"].replace(changed[0], default[0]), rule["expr"])
                self.assertEqual({**after[name], "expr": ""}, {**rule, "expr": ""})
                self.assertNotIn(str(thresholds[name]), rule["annotations"]["summary"])
        # Each alert that compares with a number above 0 has a threshold. CausewayDeadLetters has one of 0.
        without = {name for name in before if not re.search(r"[<>] (?!0\b(?!\.))[0-9.]+", before[name]["expr"])}
        self.assertEqual(set(before) - set(thresholds), without - {"CausewayDeadLetters"})

    def test_a_threshold_of_null_means_the_one_in_the_file(self):
        self.assertEqual(self.rules({"thresholds": {"CausewayLagGrows": None}}), self.rules({}))

    def test_the_delay_severity_and_labels_of_an_alert_can_be_chosen(self):
        values = {"for": {"CausewayLagGrows": "30m"}, "severities": {"CausewayKafkaUnreachable": "warning"}}
        before, after = self.rules({}), self.rules(values | {"additionalRuleLabels": {"team": "push"}})
        self.assertEqual(after["CausewayLagGrows"]["for"], "30m")
        self.assertEqual(after["CausewayKafkaUnreachable"]["labels"], {"severity": "warning", "team": "push"})
        for name, rule in after.items():
            self.assertEqual(rule["labels"]["team"], "push")
            if name != "CausewayLagGrows":
                self.assertEqual(rule["for"], before[name]["for"])

    def test_the_rules_are_those_of_the_file(self):
        written = chart.load_yaml((chart.chart / "files/rules.yaml").read_text())["groups"]
        given = chart.only_object(self.found, "PrometheusRule")["spec"]["groups"]
        self.assertEqual([group["name"] for group in given], [group["name"] for group in written])
        rules = {rule["alert"]: rule for group in given for rule in group["rules"]}
        for group in written:
            for rule in group["rules"]:
                if rule["alert"] == "CausewayDeadTokens":
                    self.assertNotIn(rule["alert"], rules)
                    continue
                url = rules[rule["alert"]]["annotations"].pop("runbook_url")
                self.assertEqual(url, f"https://runbooks.example.com/causeway/RUNBOOK.md#{rule['alert'].lower()}")
                self.assertEqual(rules[rule["alert"]], rule)

    def test_the_dashboard_is_the_one_of_the_file(self):
        map = chart.only_object(self.found, "ConfigMap", "push-causeway-dashboard")
        self.assertEqual(map["metadata"]["labels"]["grafana_dashboard"], "1")
        self.assertEqual(json.loads(map["data"]["causeway.json"]), json.loads((chart.chart / "files/dashboard.json").read_text()))


class Topics(unittest.TestCase):
    """The tests run the Job's command with the built program. An independent broker responds to it."""

    def job(self, values=None):
        found = chart.render_objects(values, base="topics") if values else chart.objects_of_value_set("topics")
        spec = chart.only_object(found, "Job")["spec"]["template"]["spec"]
        (container,) = spec["containers"]
        configuration = chart.only_object(found, "ConfigMap", "push-causeway-topics")["data"]["causeway.yaml"]
        return spec, container, chart.load_yaml(configuration)

    def run_job(self, container, configuration, *, without=()):
        """Runs the container's command with the ConfigMap's file."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(configuration, file)
            file.flush()
            arguments = [argument for argument in container["args"] if argument not in without]
            arguments = [file.name if argument == "/etc/causeway/config/causeway.yaml" else argument for argument in arguments]
            return subprocess.run([program(self), *arguments], capture_output=True, text=True, env={}, timeout=chart.timeout_seconds)

    def test_the_job_runs_the_program_of_the_workers(self):
        _, container, _ = self.job()
        self.assertEqual(container["image"], chart.worker_container(chart.objects_of_value_set("topics"))["image"])
        self.assertEqual(
            container["args"],
            [
                "topics", "--create", "--config", "/etc/causeway/config/causeway.yaml", "--replication-factor", "3",
                "--min-insync-replicas", "2", "--topic", "commands:partitions=48,retention-hours=12",
                "--topic", "registrations:partitions=24", "--topic", "results:partitions=24,retention-hours=72",
                "--topic", "invalidations:partitions=6,retention-hours=168", "--topic", "deadLetters:partitions=6,retention-hours=336",
                "--topic", "deferred:partitions=24,retention-hours=24", "--topic", "fanout:partitions=24,retention-hours=24",
                "--topic", "channels:partitions=6",
            ],
        )

    def test_the_job_may_have_another_user_than_the_workers(self):
        spec, container, configuration = self.job(
            {
                "config": {"kafka": {"properties": {"security.protocol": "SASL_SSL", "sasl.username": "worker"}}},
                "secrets": {"kafka": {"secretName": "kafka", "passwordKey": "password", "caKey": "ca.crt"}},
                "topics": {"job": {"caKey": ""}},
            }
        )
        kafka = configuration["kafka"]
        self.assertEqual(
            kafka["properties"],
            {
                "security.protocol": "SASL_SSL", "sasl.username": "admin",
                "ssl.ca.location": "/etc/causeway/secrets/kafka/ssl.ca.location",
            },
        )
        self.assertEqual(kafka["propertyFiles"], {"sasl.password": "/etc/causeway/secrets/topics/sasl.password"})
        (volume,) = [volume for volume in spec["volumes"] if volume["name"] == "secrets"]
        mounted = [
            (source["secret"]["name"], item["key"], item["path"])
            for source in volume["projected"]["sources"]
            for item in source["secret"]["items"]
        ]
        self.assertIn(("kafka-admin", "password", "topics/sasl.password"), mounted)
        self.assertIn(("kafka", "ca.crt", "kafka/ssl.ca.location"), mounted)
        # The Job gets no APNs keys, because it does not need them.
        self.assertFalse([path for _, _, path in mounted if path.startswith("apns")])

    def test_without_its_own_user_the_job_has_that_of_the_workers(self):
        found = chart.render_objects({"topics": {"create": True}}, base="secrets")
        configuration = chart.load_yaml(chart.only_object(found, "ConfigMap", "push-causeway-topics")["data"]["causeway.yaml"])
        self.assertEqual(configuration["kafka"], chart.worker_configuration(found)["kafka"])
        spec = chart.only_object(found, "Job")["spec"]["template"]["spec"]
        present = {
            f"/etc/causeway/secrets/{item['path']}"
            for volume in spec["volumes"] if volume["name"] == "secrets"
            for source in volume["projected"]["sources"]
            for item in source["secret"]["items"]
        }
        named = {*configuration["kafka"]["propertyFiles"].values()}
        named |= {value for key, value in configuration["kafka"]["properties"].items() if key.endswith(".location")}
        self.assertEqual(named, present)

    def test_the_program_plans_the_same_topics(self):
        planned = subprocess.run([program(self), "topics"], capture_output=True, text=True, check=True, env={}).stdout
        values = {"topics": chart.load_yaml((chart.chart / "values.yaml").read_text())["topics"] | {"create": True}}
        _, container, configuration = self.job(values)
        done = self.run_job(container, configuration, without=["--create"])
        self.assertEqual((done.stderr, done.stdout), ("", planned))

    def test_the_program_refuses_wrong_sizes(self):
        for sizes, message in (
            ("command:partitions=4", "command is not a topic; the topics are commands, registrations"),
            ("commands", "commands: add partitions=NUMBER"), ("commands:partitions=0", "commands: partitions must be 1 to 10000"),
            ("results:retention-hours=x", "results: retention-hours must be 1 to 8784"), ("results:hours=3", "results: hours is neither"),
            ("registrations:retention-hours=3", "registrations: retention-hours: the topic is compacted"),
        ):
            done = subprocess.run([program(self), "topics", "--topic", sizes], capture_output=True, text=True, env={})
            self.assertEqual((done.returncode, done.stdout), (64, ""))
            self.assertIn(message, done.stderr)

    def test_the_job_creates_the_missing_topics(self):
        script = chart.root / "Tests/Acceptance/tools/topic-broker/broker.py"
        broker = subprocess.Popen([sys.executable, "-B", script, "push.results:3"], stdout=subprocess.PIPE, text=True)
        self.addCleanup(broker.wait)
        self.addCleanup(broker.kill)
        address = f"127.0.0.1:{broker.stdout.readline().strip()}"
        _, container, configuration = self.job(
            {
                "config": {"kafka": {"bootstrapServers": address, "topics": {"results": "push.results"}}},
                "topics": {"job": {"properties": {"sasl.username": "nobody"}, "secretName": "", "passwordKey": "", "caKey": ""}},
            }
        )
        configuration["kafka"]["properties"].pop("sasl.username")
        done = self.run_job(container, configuration)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("push.results exists, partitions=3, expected 24", done.stdout)
        broker.kill()
        asked = {topic["name"]: topic for topic in map(json.loads, broker.stdout)}
        broker.stdout.close()
        self.assertEqual(asked["causeway.commands"]["partitions"], 48)
        self.assertEqual(asked["causeway.commands"]["replicationFactor"], 3)
        self.assertEqual(
            asked["causeway.commands"]["settings"],
            {"min.insync.replicas": "2", "cleanup.policy": "delete", "retention.ms": "43200000", "segment.ms": "1800000"},
        )
        self.assertEqual(asked["causeway.channels"]["settings"]["cleanup.policy"], "compact")
        self.assertEqual(len(asked), 7)

    def test_the_job_is_a_hook_that_may_reach_kafka(self):
        found = chart.objects_of_value_set("topics")
        before = [chart.only_object(found, kind, "push-causeway-topics") for kind in ("NetworkPolicy", "ConfigMap")]
        for document in (chart.only_object(found, "Job"), *before):
            self.assertEqual(document["metadata"]["annotations"]["helm.sh/hook"], "pre-install,pre-upgrade")
        weight = lambda document: int(document["metadata"]["annotations"]["helm.sh/hook-weight"])
        for document in before:
            self.assertLess(weight(document), weight(chart.only_object(found, "Job")))
        labels = chart.only_object(found, "Job")["spec"]["template"]["metadata"]["labels"]
        policy = chart.only_object(found, "NetworkPolicy", "push-causeway-topics")["spec"]
        self.assertLessEqual(policy["podSelector"]["matchLabels"].items(), labels.items())
        self.assertEqual([{p["port"] for p in rule["ports"]} for rule in policy["egress"]], [{53}, {9093}])

    def test_by_default_there_is_no_job(self):
        self.assertEqual(chart.objects_of_kind(chart.objects_of_value_set("minimal"), "Job"), [])


class Notes(unittest.TestCase):
    def notes(self, name, **values):
        """Returns NOTES.txt. Helm prints it only for an install; a dry run needs no cluster."""
        with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
            json.dump(values, file)
            file.flush()
            text = chart.helm(
                "install", "push", str(chart.chart), "--namespace", "push", "--dry-run=client",
                "--values", str(chart.value_sets[name]), "--values", file.name,
            )
        return text[text.index("NOTES:") :]

    def test_the_notes_say_what_to_do_next(self):
        notes = self.notes("minimal")
        self.assertIn("kubectl --namespace push", notes)
        for topic in ("commands", "registrations", "results", "invalidations", "dead-letters", "deferred", "fanout", "channels"):
            self.assertRegex(notes, rf"causeway\.{topic} +\d+ ")
        self.assertIn("compact", notes)
        self.assertRegex(notes, r"causeway-apns +AuthKey_F6G7H8I9J0\.p8\n")
        self.assertIn(": 2 workers, group causeway, apps match.", notes)
        self.assertNotIn("<no value>", notes)

    def test_the_notes_name_the_chosen_values(self):
        self.assertIn("The Job has created the topics that were missing", re.sub(r"\s+", " ", self.notes("topics")))
        self.assertIn(": 2 to 24 workers by keda, group push,", self.notes("keda"))
        self.assertRegex(self.notes("keda"), r"TriggerAuthentication for KEDA: kafka-scaler\.")
        self.assertRegex(self.notes("topics"), r"kafka-admin +for the Job that creates topics\n")
        self.assertRegex(self.notes("apps"), r"apns-match +production\.p8, sandbox\.p8\n")
        self.assertRegex(self.notes("secrets"), r"causeway-redis +ca\.crt, tls\.crt, password, tls\.key\n")
        self.assertIn("serviceMonitor.enabled", self.notes("minimal"))
        self.assertNotIn("serviceMonitor.enabled", self.notes("monitoring"))
