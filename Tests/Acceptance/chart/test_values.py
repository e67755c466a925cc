"""Values that the chart accepts and rejects. The program, its file and the chart have the same keys."""
import copy
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

import jsonschema

import chart

schema = json.loads((chart.chart / "values.schema.json").read_text())
editor_schema = json.loads((chart.root / "Config/causeway.schema.json").read_text())
defaults = chart.load_yaml((chart.chart / "values.yaml").read_text())
templates = "".join(file.read_text() for file in (chart.chart / "templates").iterdir())


def patterns_of(part, path):
    """Yields (key, pattern) for each key of this part of the schema whose text must match a pattern. Members of maps
    are named `match` and `default`."""
    if "pattern" in part:
        yield ".".join(path), part["pattern"]
    for name, member in part.get("properties", {}).items():
        yield from patterns_of(member, [*path, name])
    for member in part.get("patternProperties", {}).values():
        yield from patterns_of(member, [*path, {"apps": "match", "policies": "default"}[path[-1]]])


RIDE_APP = {"bundleId": "com.example.ride", "teamId": "A1B2C3D4E5", "keyId": "F6G7H8I9J0"}

# Texts for each key, some valid and some invalid. The program must refuse each text that the chart's schema refuses.
SAMPLE_TEXTS = {
    "kafka.bootstrapServers": [
        "kafka", "kafka:9092", "a:1,b:65535", "[::1]:9092", "::1:9092", "[::1]", "SASL_SSL://a:9093", "kafka:9x", "kafka:", ":9092", "a,,b",
        "a b:1", "kafka:0", "a:9092,",
    ],
    "kafka.topics.commands": ["push", "push.commands-1_a", "a" * 249, "a" * 250, "push commands", "päckchen", "a/b"],
    "redis.url": ["redis://a", "rediss://user@a:6380/3", "unix:///run/redis.sock", "http://a", "a:6379", "redis:", "redis://", "REDIS://a"],
    "redis.sentinelURL": ["redis://a", "rediss://:@a,b:1", "unix:///a", "a:26379", ""],
    "apns.production.host": ["api.push.apple.com", "17.0.0.1", "::1", "https://a", "a b", ""],
    "apns.production.broadcastHost": ["api-broadcast.push.apple.com", "https://a", "a b", ""],
    "apns.sandbox.broadcastHost": ["api-broadcast.sandbox.push.apple.com", "https://a", ""],
    "apps.match.bundleId": ["com.example.match", "a", "a_b", "com.example/match", ""],
    "apps.match.teamId": ["A1B2C3D4E5", "ABCDEFGHIJ", "0123456789", "a1b2c3d4e5", "A1B2C3D4E", "A1B2C3D4E5F"],
    "apps.match.sandboxKeyId": ["A1B2C3D4E5", "a1b2c3d4e5", "A1B2C3D4E", ""],
    "apps.match.policy": ["default", "p" * 65, "the default", "default/2", ""],
    "tracing.endpoint": ["http://otel:4318/v1/traces", "http://otel", "otel:4318", "grpc://otel", ""],
}

# Values that are added to the minimal ones, and a name that Helm's error must contain.
REFUSED_VALUES = [
    ({"replicaCounts": 3}, "replicaCounts"),
    ({"replicaCount": -1}, "/replicaCount"),
    ({"replicaCount": "3"}, "/replicaCount"),
    ({"kind": "DaemonSet"}, "/kind"),
    ({"image": {"repository": ""}}, "/image/repository"),
    ({"image": {"digest": "latest"}}, "/image/digest"),
    ({"image": {"pullpolicy": "Always"}}, "pullpolicy"),
    ({"probes": {"liveness": {"periodSeconds": 0}}}, "/probes/liveness/periodSeconds"),
    ({"autoscaling": {"type": "vpa"}}, "/autoscaling/type"),
    ({"autoscaling": {"type": "hpa", "minReplicas": 9, "maxReplicas": 8}}, "autoscaling.minReplicas"),
    ({"autoscaling": {"type": "keda", "maxReplicas": 25}}, "autoscaling.maxReplicas: 25 is above topics.commands.partitions: 24"),
    ({"autoscaling": {"type": "hpa", "hpa": {"cpuPercent": 0}}}, "autoscaling.hpa"),
    ({"autoscaling": {"hpa": {"laneBusyRatio": "60%"}}}, "/autoscaling/hpa/laneBusyRatio"),
    ({"podDisruptionBudget": {"maxUnavailable": 0}}, "/podDisruptionBudget/maxUnavailable"),
    (
        {"topologySpreadConstraints": [{"topologyKey": "zone", "whenUnsatisfiable": "Always"}]},
        "/topologySpreadConstraints/0/whenUnsatisfiable",
    ),
    ({"topologySpreadConstraints": [{"maxSkew": 1}]}, "topologyKey"),
    ({"topologySpreadConstraints": {"zone": 1}}, "/topologySpreadConstraints"),
    ({"strategy": {"type": "Rolling"}}, "/strategy/type"),
    ({"strategy": {"maxSurge": 1}}, "maxSurge"),
    ({"minReadySeconds": -1}, "/minReadySeconds"),
    ({"commonLabels": {"a": 1}}, "/commonLabels/a"),
    ({"commonAnnotations": ["a"]}, "/commonAnnotations"),
    ({"imagePullSecrets": ["registry"]}, "/imagePullSecrets/0"),
    ({"dnsPolicy": "Cluster"}, "/dnsPolicy"),
    ({"dnsConfig": {"nameserver": []}}, "nameserver"),
    ({"hostAliases": [{"ip": "10.0.0.9"}]}, "hostnames"),
    ({"extraEnv": {"CAUSEWAY_LOG_LEVEL": "debug"}}, "/extraEnv"),
    ({"extraEnv": [{"value": "debug"}]}, "name"),
    ({"extraEnv": [{"name": "PORT", "value": 1}]}, "/extraEnv/0/value"),
    ({"extraEnvFrom": [{"configMap": {"name": "a"}}]}, "configMap"),
    ({"extraVolumes": [{"emptyDir": {}}]}, "name"),
    ({"extraVolumes": [{"name": "config", "emptyDir": {}}]}, "extraVolumes: the name config"),
    ({"extraVolumeMounts": [{"name": "a", "mountPath": "a"}]}, "/extraVolumeMounts/0/mountPath"),
    (
        {"extraVolumeMounts": [{"name": "a", "mountPath": "/etc/causeway/secrets/files"}]},
        "extraVolumeMounts: /etc/causeway/secrets/files",
    ),
    ({"initContainers": [{"name": "wait"}]}, "image"),
    ({"initContainers": [{"name": "configuration", "image": "a"}]}, "initContainers: the name configuration"),
    ({"sidecars": [{"name": "worker", "image": "a"}]}, "sidecars: the name worker"),
    ({"lifecycle": {"prestop": {}}}, "prestop"),
    (
        {"terminationGracePeriodSeconds": 29, "lifecycle": {"preStop": {"sleep": {"seconds": 5}}}},
        "config.worker.drainMilliseconds: 20000, and lifecycle.preStop.sleep.seconds: 5",
    ),
    (
        {"kind": "StatefulSet", "extraEnv": [{"name": "CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID", "value": "a"}]},
        "extraEnv: remove CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID",
    ),
    ({"serviceMonitor": {"relabelings": {"a": "b"}}}, "/serviceMonitor/relabelings"),
    ({"serviceMonitor": {"metricRelabelings": ["a"]}}, "/serviceMonitor/metricRelabelings/0"),
    ({"prometheusRule": {"thresholds": {"CausewayCommandStale": 5}}}, "CausewayCommandStale"),
    ({"prometheusRule": {"thresholds": {"CausewayLaneBusy": 80}}}, "/prometheusRule/thresholds/CausewayLaneBusy"),
    ({"prometheusRule": {"thresholds": {"CausewayLagGrows": "many"}}}, "/prometheusRule/thresholds/CausewayLagGrows"),
    ({"prometheusRule": {"enabled": True, "for": {"CausewayNothing": "1m"}}}, "prometheusRule.for: there is no alert CausewayNothing"),
    ({"prometheusRule": {"for": {"CausewayLagGrows": 10}}}, "/prometheusRule/for/CausewayLagGrows"),
    (
        {"prometheusRule": {"enabled": True, "severities": {"CausewayNothing": "info"}}},
        "prometheusRule.severities: there is no alert CausewayNothing",
    ),
    ({"prometheusRule": {"severities": {"CausewayLagGrows": "loud"}}}, "/prometheusRule/severities/CausewayLagGrows"),
    ({"topics": {"create": True, "job": {"secretName": "admin"}}}, "topics.job: names a Secret, but no key of it"),
    ({"topics": {"create": True, "job": {"passwordKey": "password"}}}, "topics.job.secretName"),
    ({"topics": {"create": True, "job": {"properties": {"sasl.password": "secret"}}}}, "topics.job.properties.sasl.password"),
    # Values under their former names.
    ({"replicas": 3}, "replicas: is now called replicaCount"),
    ({"labels": {"team": "push"}}, "labels: is now called commonLabels"),
    ({"image": {"pullSecrets": [{"name": "registry"}]}}, "image.pullSecrets: is now called imagePullSecrets"),
    ({"topologySpread": {"enabled": False}}, "topologySpread: is now called topologySpreadConstraints"),
    ({"topics": {"job": {"image": "kafka"}}}, "topics.job.image: remove it"),
    ({"topics": {"job": {"command": "/bin/kafka-topics.sh"}}}, "topics.job.command: remove it"),
    ({"topics": {"job": {"clientPropertiesSecret": "admin"}}}, "topics.job.clientPropertiesSecret: is now called topics.job.secretName"),
    ({"networkPolicy": {"kafka": {"ports": [99999]}}}, "/networkPolicy/kafka/ports/0"),
    ({"prometheusRule": {"enabled": True, "disabledAlerts": ["CausewayNothing"]}}, "CausewayNothing"),
    ({"prometheusRule": {"runbookURL": "runbook.md"}}, "/prometheusRule/runbookURL"),
    ({"serviceMonitor": {"interval": "15"}}, "/serviceMonitor/interval"),
    ({"resources": {"requests": {"cpu": "lots"}}}, "/resources/requests/cpu"),
    ({"topics": {"create": True, "replicationFactor": 1}}, "topics.minInsyncReplicas: 2 is above topics.replicationFactor: 1"),
    ({"topics": {"results": {"retentionHours": 0}}}, "/topics/results/retentionHours"),
    ({"terminationGracePeriodSeconds": 20}, "terminationGracePeriodSeconds: 20"),
    ({"terminationGracePeriodSeconds": 24}, "terminationGracePeriodSeconds: 24"),
    ({"config": {"http": {"host": "127.0.0.1"}}}, "config.http.host: 127.0.0.1"),
    ({"config": {"http": {"host": "::1"}}}, "config.http.host: ::1"),
    ({"config": {"http": {"host": "0:0:0:0:0:0:0:1"}}}, "config.http.host"),
    ({"config": {"http": {"host": "::FFFF:127.1.2.3"}}}, "config.http.host"),
    ({"config": {"http": {"port": 0}}}, "config.http.port: 0"),
    ({"config": {"worker": {"drainMilliseconds": 60_000}}, "terminationGracePeriodSeconds": 45}, "config.worker.drainMilliseconds: 60000"),
    ({"secrets": {"apns": {"match": {"secretName": ""}}}}, "/secrets/apns/match/secretName"),
    ({"secrets": {"apns": {"other": {"secretName": "x"}}}}, "secrets.apns.other"),
    ({"secrets": {"apns": {"match": None}}}, "/secrets/apns/match"),
    ({"config": {"apps": {"ride": RIDE_APP}}}, "secrets.apns.ride: is required"),
    ({"secrets": {"redis": {"passwordKey": "password"}}}, "secrets.redis.secretName"),
    ({"secrets": {"kafka": {"secretName": "kafka"}}}, "secrets.kafka"),
    ({"secrets": {"files": [{"secretName": "a", "key": "b", "path": "../c"}]}}, "/secrets/files/0/path"),
    ({"config": {"apns": {"sharedTokenKeyFile": "/etc/causeway/secrets/files/token-key"}}}, "/etc/causeway/secrets/files/token-key"),
    # The keys of the program's own configuration.
    ({"config": {"worker": {"lanez": 2}}}, "lanez"),
    ({"config": {"worker": {"lanes": 257}}}, "/config/worker/lanes"),
    ({"config": {"worker": {"lanes": "two"}}}, "/config/worker/lanes"),
    ({"config": {"log": {"level": "loud"}}}, "/config/log/level"),
    ({"config": {"kafka": {"bootstrapServers": ""}}}, "/config/kafka/bootstrapServers"),
    ({"config": {"kafka": {"topics": {"command": "x"}}}}, "command"),
    ({"config": {"redis": {"url": None}}}, "url"),
    ({"config": {"apns": {"production": {"port": 70000}}}}, "/config/apns/production/port"),
    ({"config": {"apps": {"match": {"environments": ["prod"]}}}}, "/config/apps/match/environments/0"),
    ({"config": {"apps": {"match": {"environments": []}}}}, "/config/apps/match/environments"),
    ({"config": {"apps": {"match": {"teamId": None}}}}, "teamId"),
    ({"config": {"apps": {"Match": RIDE_APP}}}, "Match"),
    ({"config": {"apps": {"match": {"teamId": "a1b2c3d4e5"}}}}, "/config/apps/match/teamId"),
    ({"config": {"apps": {"match": {"keyId": "AuthKey_F6G7H8I9J0"}}}}, "/config/apps/match/keyId"),
    (
        {"config": {"apps": {"match": {"policy": "sport"}}, "policies": {"sports": {}}}},
        "config.apps.match.policy: config.policies has no sport",
    ),
    ({"config": {"redis": {"url": "redis:6379"}}}, "/config/redis/url"),
    ({"config": {"kafka": {"bootstrapServers": "kafka:9092, kafka:9093"}}}, "/config/kafka/bootstrapServers"),
    ({"config": {"apps": {"match": None}}}, "/config/apps"),
    ({"config": {"policies": {"sports": {"budget": {"pushes": 0}}}}}, "/config/policies/sports/budget/pushes"),
    # The configuration becomes a ConfigMap, which must not hold secrets.
    ({"config": {"redis": {"url": "redis://user:secret@redis"}}}, "config.redis.url"),
    ({"config": {"redis": {"sentinelURL": "redis://:secret@sentinel"}}}, "config.redis.sentinelURL"),
    ({"config": {"kafka": {"properties": {"sasl.password": "secret"}}}}, "config.kafka.properties.sasl.password"),
    ({"config": {"kafka": {"producer": {"ssl.key.password": "secret"}}}}, "config.kafka.producer.ssl.key.password"),
    ({"kind": "StatefulSet", "config": {"kafka": {"consumer": {"group.instance.id": "a"}}}}, "group.instance.id"),
]


class Values(unittest.TestCase):
    def test_wrong_values_are_refused_with_their_names(self):
        for values, name in REFUSED_VALUES:
            with self.subTest(values=values):
                with self.assertRaises(chart.RefusedValues) as refusal:
                    chart.render_objects(values)
                self.assertIn(name, str(refusal.exception))
                self.assertNotIn("secret@", str(refusal.exception))

    def test_an_empty_section_has_its_defaults(self):
        """An empty section, such as `http:` without members, has its defaults, as in the program's own
        file."""
        empty = {"http": None, "worker": None, "apns": None, "log": None, "tracing": None, "policies": None}
        kafka = {"properties": None, "consumer": None, "producer": None, "topics": None, "propertyFiles": None}
        before = chart.objects_of_value_set("minimal")
        for section in [{name: None} for name in empty] + [empty, {"apns": {"production": None, "sandbox": None}}]:
            with self.subTest(section=section):
                after = chart.render_objects({"config": section})
                self.assertEqual(chart.workload(after)["kind"], "Deployment")
                ports = [chart.worker_container(documents)["ports"] for documents in (before, after)]
                self.assertEqual(*ports)
                policies = [chart.only_object(documents, "NetworkPolicy", "push-causeway")["spec"] for documents in (before, after)]
                self.assertEqual(*policies)
                self.assertEqual(chart.worker_configuration(after)["worker"]["lanes"], 1)
        chart.render_objects({"config": {"kafka": kafka}})
        chart.render_objects({"config": {"kafka": kafka}}, base="statefulset")
        chart.render_objects({"resources": {"requests": None}})

    def test_the_shortest_grace_period_is_accepted(self):
        self.assertEqual(chart.workload(chart.render_objects({"terminationGracePeriodSeconds": 25}))["kind"], "Deployment")
        chart.render_objects({"terminationGracePeriodSeconds": 5, "config": {"worker": {"drainMilliseconds": 0}}})

    def test_without_values_the_error_names_the_missing_ones(self):
        with self.assertRaises(chart.RefusedValues) as refusal:
            chart.render_text()
        for name in ("/config/kafka/bootstrapServers", "/config/redis/url", "/config/apps"):
            self.assertIn(name, str(refusal.exception))

    def test_the_file_of_values_and_the_schema_have_the_same_values(self):
        def compare(value, part, path):
            # Do not compare a map whose names the schema leaves open. Its default is empty: the operator fills it, or
            # Kubernetes defines its fields.
            if "properties" not in part or part.get("additionalProperties") is not False or value == {}:
                return
            # Helm itself reads `global`, so the schema has it, and `values.yaml` does not.
            documented = {name for name, member in part["properties"].items() if not member.get("deprecated")}
            documented -= {"global"} if not path else set()
            self.assertEqual(set(value), documented, path or "the top")
            for name, member in value.items():
                if path or name != "config":
                    compare(member, part["properties"][name], f"{path}/{name}")

        compare(defaults, schema, "")
        jsonschema.Draft202012Validator.check_schema(schema)

    def test_the_schema_allows_no_unknown_value(self):
        def walk(part, path):
            if part.get("properties"):
                # Kubernetes defines and checks the fields of this map, so its schema allows any field.
                open_on_purpose = path in ("/resources/requests",)
                self.assertEqual(part.get("additionalProperties") is False, not open_on_purpose, path)
            for name, member in part.get("properties", {}).items():
                walk(member, f"{path}/{name}")

        walk(schema, "")
        for name, part in schema["properties"].items():
            self.assertTrue(part.get("description"), name)

    def test_every_value_that_a_template_names_is_in_the_schema(self):
        """The schema rejects a value that it does not have, and a former name. A template that names one would find
        nothing."""
        names = set(re.findall(r"\.Values\.(\w+(?:\.\w+)*)", templates))
        self.assertGreater(len(names), 50)
        for name in names:
            part = schema
            for member in name.split("."):
                # This map takes any key: the operator or Kubernetes chooses it. So the schema cannot list what is below.
                if part.get("additionalProperties") is not False:
                    break
                self.assertIn(member, part["properties"], name)
                part = part["properties"][member]
                self.assertFalse(part.get("deprecated"), name)

    def test_every_value_has_an_effect(self):
        """Some template reads each default, because a value that no template reads would have no effect."""
        def leaves(value, part, path):
            # A leaf is a single value, a map whose names the schema leaves open, or config. A template reads each of
            # them as a whole.
            if part.get("additionalProperties") is False and path != ["config"]:
                for name, member in value.items():
                    yield from leaves(member, part["properties"][name], [*path, name])
            else:
                yield path

        for path in leaves(defaults, schema, []):
            # Some maps are passed on as a whole, so their templates name only the map.
            name = path[0] if path[0] in ("probes", "resources") else "thresholds" if "thresholds" in path else path[-1]
            self.assertTrue(re.search(rf'[."]{re.escape(name)}\b', templates), "/".join(path))


class Keys(unittest.TestCase):
    source = (chart.root / "Config/causeway.yaml").read_text()

    def test_the_page_has_the_keys_of_the_file(self):
        def leaves(value, path):
            if isinstance(value, dict) and value:
                for name, member in value.items():
                    yield from leaves(member, [*path, name])
            else:
                yield ".".join(path)

        names = [re.sub(r"^apps\.match\.", "apps.<app>.", key) for key in leaves(chart.load_yaml(self.source), [])]
        names = [re.sub(r"^policies\.default\.", "policies.<policy>.", key) for key in names]
        documented = re.findall(r"^\| `([^`]+)`", (chart.chart / "CONFIG.md").read_text(), re.M)
        self.assertEqual(documented, names)

    def test_the_program_refuses_each_text_that_the_schema_refuses(self):
        program = pathlib.Path(os.environ.get("CAUSEWAY") or chart.root / ".build/release/causeway")
        if not program.exists():
            self.skipTest(f"{program} is not built")
        validator = jsonschema.Draft202012Validator(schema["properties"]["config"])
        sets = {"redis.sentinelURL": "redis-sentinel"}
        for key, texts in SAMPLE_TEXTS.items():
            refused = 0
            for text in texts:
                configuration = copy.deepcopy(chart.worker_configuration(chart.objects_of_value_set(sets.get(key, "minimal"))))
                section = configuration
                *path, name = key.split(".")
                for part in path:
                    section = section.setdefault(part, {})
                section[name] = text
                with self.subTest(key=key, text=text), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                    json.dump(configuration, file)
                    file.flush()
                    done = subprocess.run([program, "check", "--config", file.name], capture_output=True, text=True, env={})
                    if not validator.is_valid(configuration):
                        refused += 1
                        self.assertIn(key, done.stdout + done.stderr)
            self.assertGreater(refused, 0, key)
        # Each key with a pattern has sample texts, or the same pattern as a key that has them.
        forms = dict(patterns_of(schema["properties"]["config"], []))
        self.assertLessEqual(set(SAMPLE_TEXTS), set(forms))
        key_with_texts = {
            "kafka.topics": "kafka.topics.commands", "apps.match": "apps.match.teamId",
            "apns.production": "apns.production.host", "apns.sandbox": "apns.production.host",
        }
        for key in set(forms) - set(SAMPLE_TEXTS):
            self.assertEqual(forms[key], forms[key_with_texts[key.rpartition(".")[0]]])

    def test_the_schemas_accept_the_file(self):
        jsonschema.validate(chart.load_yaml(self.source), schema["properties"]["config"])
        jsonschema.Draft202012Validator.check_schema(editor_schema)
        jsonschema.validate(chart.load_yaml(self.source), editor_schema)

    def test_only_the_schema_for_editors_requires_what_a_secret_can_contain(self):
        configuration = chart.load_yaml(self.source)
        del configuration["apps"]["match"]["keyFile"]
        jsonschema.validate(configuration, schema["properties"]["config"])
        with self.assertRaisesRegex(jsonschema.ValidationError, "keyFile"):
            jsonschema.validate(configuration, editor_schema)

    def test_every_rendered_configuration_has_the_program_s_keys_only(self):
        for name in chart.value_sets:
            with self.subTest(values=name):
                jsonschema.validate(chart.worker_configuration(chart.objects_of_value_set(name)), schema["properties"]["config"])

    def test_large_numbers_stay_whole(self):
        text = chart.worker_configuration_text(chart.objects_of_value_set("placed"))
        self.assertIn("commandsPerLane: 4194304", text)
        self.assertIn("fetch.max.bytes: 16777216", text)

    def test_the_program_takes_every_rendered_configuration(self):
        program = pathlib.Path(os.environ.get("CAUSEWAY") or chart.root / ".build/release/causeway")
        if not program.exists():
            self.skipTest(f"{program} is not built")
        for name in chart.value_sets:
            with self.subTest(values=name), tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(chart.worker_configuration_text(chart.objects_of_value_set(name)))
                file.flush()
                done = subprocess.run([program, "check", "--config", file.name], capture_output=True, text=True, env={})
                self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
