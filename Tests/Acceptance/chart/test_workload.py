"""The pods: how they run, their rights, and their volumes and variables."""
import unittest

import chart


class Pods(unittest.TestCase):
    def each_value_set(self):
        """Yields the name and the objects of each value set, in a subtest of its own."""
        for name in chart.value_sets:
            with self.subTest(values=name):
                yield name, chart.objects_of_value_set(name)

    def test_no_container_has_special_rights(self):
        for _, found in self.each_value_set():
            specs = [chart.pod_spec(found)] + [job["spec"]["template"]["spec"] for job in chart.objects_of_kind(found, "Job")]
            for spec in specs:
                self.assertIs(spec["securityContext"]["runAsNonRoot"], True)
                self.assertNotEqual(spec["securityContext"]["runAsUser"], 0)
                self.assertEqual(spec["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
                self.assertIs(spec["automountServiceAccountToken"], False)
                for key in ("hostNetwork", "hostPID", "hostIPC"):
                    self.assertNotIn(key, spec)
                for container in own_containers(spec):
                    context = container["securityContext"]
                    self.assertEqual(context["capabilities"], {"drop": ["ALL"]})
                    self.assertIs(context["readOnlyRootFilesystem"], True)
                    self.assertIs(context["allowPrivilegeEscalation"], False)
                    self.assertIn("memory", container["resources"]["limits"])
                    self.assertIn("cpu", container["resources"]["requests"])
                for volume in spec["volumes"]:
                    self.assertNotIn("hostPath", volume)

    def test_the_only_variable_is_the_name_of_the_pod(self):
        for name, found in self.each_value_set():
            if name == "extended":
                continue
            container = chart.worker_container(found)
            self.assertNotIn("envFrom", container)
            if name == "statefulset":
                self.assertEqual(
                    container["env"],
                    [
                        {
                            "name": "CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID",
                            "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                        }
                    ],
                )
            else:
                self.assertNotIn("env", container)
            self.assertIs(chart.pod_spec(found)["enableServiceLinks"], False)

    def test_selectors_find_the_pods_and_only_them(self):
        for _, found in self.each_value_set():
            labels = chart.workload(found)["spec"]["template"]["metadata"]["labels"]
            name = chart.workload(found)["metadata"]["name"]
            selectors = [chart.workload(found)["spec"]["selector"]["matchLabels"]]
            selectors += [service["spec"]["selector"] for service in chart.objects_of_kind(found, "Service")]
            selectors += [budget["spec"]["selector"]["matchLabels"] for budget in chart.objects_of_kind(found, "PodDisruptionBudget")]
            selectors += [
                policy["spec"]["podSelector"]["matchLabels"]
                for policy in chart.objects_of_kind(found, "NetworkPolicy")
                if policy["metadata"]["name"] == name
            ]
            selectors += [
                spread["labelSelector"]["matchLabels"]
                for spread in chart.pod_spec(found).get("topologySpreadConstraints", [])
                if spread["labelSelector"] != {"matchLabels": {"team": "push"}}
            ]
            for selector in selectors:
                self.assertEqual(selector, selectors[0])
                self.assertLessEqual(selector.items(), labels.items())
            for job in chart.objects_of_kind(found, "Job"):
                job_labels = job["spec"]["template"]["metadata"]["labels"]
                self.assertFalse(selectors[0].items() <= job_labels.items())
            for monitor in chart.objects_of_kind(found, "ServiceMonitor"):
                service = chart.only_object(found, "Service")["metadata"]["labels"]
                self.assertLessEqual(monitor["spec"]["selector"]["matchLabels"].items(), service.items())

    def test_the_probes_use_the_port_of_the_container(self):
        for _, found in self.each_value_set():
            container = chart.worker_container(found)
            (port,) = container["ports"]
            self.assertEqual(port["containerPort"], 9464)
            paths = {probe: container[f"{probe}Probe"]["httpGet"] for probe in ("startup", "liveness", "readiness")}
            self.assertEqual(paths["startup"], {"path": "/livez", "port": port["name"]})
            self.assertEqual(paths["liveness"], {"path": "/livez", "port": port["name"]})
            self.assertEqual(paths["readiness"], {"path": "/readyz", "port": port["name"]})
            (service_port,) = chart.only_object(found, "Service")["spec"]["ports"]
            self.assertEqual(service_port["targetPort"], port["name"])
            self.assertIs(chart.only_object(found, "Service")["spec"]["publishNotReadyAddresses"], True)

    def test_the_grace_period_is_above_the_drain_time(self):
        for _, found in self.each_value_set():
            drain = chart.worker_configuration(found).get("worker", {}).get("drainMilliseconds", 20_000)
            self.assertGreater(chart.pod_spec(found)["terminationGracePeriodSeconds"] * 1000, drain)
        self.assertEqual(chart.pod_spec(chart.objects_of_value_set("minimal"))["terminationGracePeriodSeconds"], 30)
        self.assertEqual(chart.pod_spec(chart.objects_of_value_set("placed"))["terminationGracePeriodSeconds"], 200)
        drained = chart.render_objects({"config": {"worker": {"drainMilliseconds": 30_500}}})
        self.assertEqual(chart.pod_spec(drained)["terminationGracePeriodSeconds"], 41)

    def test_the_number_of_lanes_follows_from_the_requested_cores(self):
        self.assertEqual(chart.worker_configuration(chart.objects_of_value_set("minimal"))["worker"]["lanes"], 1)
        self.assertEqual(chart.worker_configuration(chart.objects_of_value_set("apps"))["worker"]["lanes"], 2)
        self.assertEqual(chart.worker_configuration(chart.objects_of_value_set("placed"))["worker"]["lanes"], 4)
        for cpu, lanes in (("250m", 1), ("3", 3), (2, 2), (2.5, 3), ("2001m", 3)):
            with self.subTest(cpu=cpu):
                found = chart.render_objects({"resources": {"requests": {"cpu": cpu}}})
                self.assertEqual(chart.worker_configuration(found)["worker"]["lanes"], lanes)

    def test_every_file_that_the_configuration_names_is_mounted(self):
        for _, found in self.each_value_set():
            mounts = {mount["name"]: mount for mount in chart.worker_container(found)["volumeMounts"]}
            self.assertTrue(all(mount["readOnly"] for mount in mounts.values()))
            present = set()
            for volume in chart.pod_spec(found)["volumes"]:
                if volume["name"] == "secrets":
                    self.assertEqual(volume["projected"]["defaultMode"], 0o440)
                    for source in volume["projected"]["sources"]:
                        for item in source["secret"]["items"]:
                            path = f"{mounts['secrets']['mountPath']}/{item['path']}"
                            self.assertNotIn(path, present)
                            present.add(path)
            named = set(files_named(chart.worker_configuration(found)))
            self.assertEqual(named, present)
            self.assertEqual(chart.worker_container(found)["args"][1:], ["--config", f"{mounts['config']['mountPath']}/causeway.yaml"])

    def test_several_apps_may_have_keys_in_different_secrets(self):
        apps = chart.worker_configuration(chart.objects_of_value_set("apps"))["apps"]
        self.assertEqual(apps["match"]["keyFile"], "/etc/causeway/secrets/apns/match/AuthKey_F6G7H8I9J0.p8")
        self.assertEqual(apps["match"]["sandboxKeyFile"], "/etc/causeway/secrets/apns/match/AuthKey_S6G7H8I9J0.p8")
        self.assertNotIn("sandboxKeyFile", apps["ride"])
        sources = [volume for volume in chart.pod_spec(chart.objects_of_value_set("apps"))["volumes"] if volume["name"] == "secrets"]
        match = sources[0]["projected"]["sources"][0]["secret"]
        self.assertEqual(match["name"], "apns-match")
        self.assertEqual([item["key"] for item in match["items"]], ["production.p8", "sandbox.p8"])

    def test_only_a_changed_configuration_restarts_pods(self):
        before = chart.objects_of_value_set("minimal")
        scaled = chart.render_objects({"replicaCount": 7, "serviceMonitor": {"enabled": True}, "commonAnnotations": {"a": "b"}})
        self.assertEqual(chart.workload(before)["spec"]["template"], chart.workload(scaled)["spec"]["template"])
        for section, member in (
            ("kafka", {"groupId": "other"}), ("kafka", {"properties": {"linger.ms": 5}}), ("redis", {"url": "redis://other"}),
            ("worker", {"lanes": 7}), ("worker", {"drainMilliseconds": 1_000}), ("log", {"format": "text"}), ("http", {"port": 9_999}),
            ("apns", {"connectionsPerPool": 3}), ("apps", {"match": {"environments": ["sandbox"]}}),
            ("apps", {"match": {"keyId": "Z6G7H8I9J0"}}), ("tracing", {"endpoint": "http://otel"}),
        ):
            with self.subTest(section=section, member=member):
                self.assertNotEqual(checksum(before), checksum(chart.render_objects({"config": {section: member}})))

    def test_reloadable_keys_restart_no_pod(self):
        """Keys that a running worker applies: a new value changes only the ConfigMap, and restarts no pod."""
        config = {}
        rows = [line for line in (chart.chart / "CONFIG.md").read_text().splitlines() if line.endswith("| at once |")]
        self.assertGreater(len(rows), 15)
        others = {
            ("log", "level"): "debug", ("apps", "match", "policy"): "sports", ("apps", "match", "shapes", "file"): "/etc/shapes.json",
            ("apps", "match", "shapes", "mode"): "warn", ("policies", "default", "afterLifetime"): "restart",
            ("policies", "default", "oversize"): ["lineups"],
        }
        for row in rows:
            key, *_, default, limits, _ = row.strip("| ").split(" | ")
            path = key.strip("`").replace("<app>", "match").replace("<policy>", "default").split(".")
            *parents, name = path
            section = config
            for parent in parents:
                section = section.setdefault(parent, {})
            largest = limits.rpartition(" to ")[2]
            self.assertTrue(tuple(path) in others or largest.isdigit(), f"{key} is no integer: give it a value in `others`, above")
            section[name] = others[tuple(path)] if tuple(path) in others else int(largest)
            self.assertNotEqual(str(section[name]), default)
        config["policies"]["sports"] = config["policies"]["default"]
        before, after = chart.objects_of_value_set("minimal"), chart.render_objects({"config": config})
        written = chart.worker_configuration(after)
        for section in ("log", "policies"):
            self.assertEqual(written[section], config[section])
        self.assertEqual(written["apps"]["match"]["policy"], "sports")
        hint = "a key that a running worker applies is missing in _config.tpl: make configuration-files"
        self.assertEqual(chart.workload(before)["spec"]["template"], chart.workload(after)["spec"]["template"], hint)
        for section in ("log", "worker"):
            self.assertEqual(checksum(before), checksum(chart.render_objects({"config": {section: {}}})))

    def test_the_workload_is_a_deployment_or_a_stateful_set(self):
        deployment = chart.only_object(chart.objects_of_value_set("minimal"), "Deployment")["spec"]
        self.assertEqual(deployment["strategy"]["rollingUpdate"], {"maxSurge": 1, "maxUnavailable": 0})
        stateful = chart.only_object(chart.objects_of_value_set("statefulset"), "StatefulSet")["spec"]
        service = chart.only_object(chart.objects_of_value_set("statefulset"), "Service")
        self.assertEqual(stateful["serviceName"], service["metadata"]["name"])
        self.assertEqual(stateful["podManagementPolicy"], "Parallel")
        self.assertEqual(stateful["replicas"], 3)
        self.assertNotIn("volumeClaimTemplates", stateful)
        spreads = chart.pod_spec(chart.objects_of_value_set("minimal"))["topologySpreadConstraints"]
        self.assertEqual([spread["matchLabelKeys"] for spread in spreads], [["pod-template-hash"]] * 2)
        for spread in chart.pod_spec(chart.objects_of_value_set("statefulset"))["topologySpreadConstraints"]:
            self.assertNotIn("matchLabelKeys", spread)

    def test_the_image_has_the_chosen_name_and_version(self):
        version = chart.load_yaml((chart.chart / "Chart.yaml").read_text())["appVersion"]
        self.assertEqual(chart.worker_container(chart.objects_of_value_set("minimal"))["image"], f"causeway:{version}")
        image = chart.worker_container(chart.objects_of_value_set("placed"))["image"]
        self.assertTrue(image.startswith("registry.example.com/push/causeway@sha256:"))
        self.assertEqual(chart.worker_container(chart.render_objects({"image": {"tag": "9"}}))["image"], "causeway:9")

    def test_names_stay_within_kubernetes_limits(self):
        release = "a-release-with-a-name-that-is-as-long-as-helm-lets-it"
        found = chart.parse_documents(chart.render_text(chart.value_sets["topics"], release=release))
        for document in found:
            self.assertLessEqual(len(document["metadata"]["name"]), 63)
            for value in document["metadata"]["labels"].values():
                self.assertLessEqual(len(value), 63)

    def test_placement_reaches_the_pod(self):
        found = chart.objects_of_value_set("placed")
        spec = chart.pod_spec(found)
        self.assertEqual(spec["priorityClassName"], "high")
        self.assertEqual(spec["nodeSelector"], {"kubernetes.io/arch": "amd64"})
        self.assertEqual(spec["tolerations"][0]["value"], "push")
        self.assertIn("nodeAffinity", spec["affinity"])
        self.assertEqual(spec["imagePullSecrets"], [{"name": "registry"}])
        template = chart.workload(found)["spec"]["template"]["metadata"]
        self.assertEqual(template["labels"]["sidecar.istio.io/inject"], "false")
        self.assertEqual(template["labels"]["team"], "push")
        self.assertEqual(template["annotations"]["example.com/note"], "kept")
        self.assertTrue(all(document["metadata"]["labels"]["team"] == "push" for document in found))
        annotations = chart.only_object(found, "ServiceAccount")["metadata"]["annotations"]
        self.assertEqual(annotations["eks.amazonaws.com/role-arn"], "arn:aws:iam::1:role/push")
        for document in found:
            self.assertEqual(document["metadata"]["annotations"]["example.com/owner"], "push@example.com", document["kind"])
        self.assertNotIn("example.com/owner", template["annotations"])

    def test_disabled_objects_are_missing(self):
        found = chart.objects_of_value_set("bare")
        self.assertEqual({document["kind"] for document in found}, {"ConfigMap", "Service", "Deployment", "Pod"})
        self.assertEqual(chart.pod_spec(found)["serviceAccountName"], "default")
        self.assertNotIn("topologySpreadConstraints", chart.pod_spec(found))


def own_containers(spec):
    """Returns the chart's own containers, without those that the values add."""
    return [container for container in spec.get("initContainers", []) + spec["containers"] if container["image"].find("causeway") >= 0]


def checksum(found):
    return chart.workload(found)["spec"]["template"]["metadata"]["annotations"]["checksum/config"]


def files_named(value, key=""):
    """Yields every path in a configuration that is below the directory of mounted secrets."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from files_named(member, name)
    elif isinstance(value, str) and value.startswith("/etc/causeway/secrets/"):
        yield value
