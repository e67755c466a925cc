"""Additions that teams make to the pods, with the names that other charts use, and the pod of `helm test`."""
import http.server
import subprocess
import threading
import unittest

import chart
import test_other_objects

found = chart.objects_of_value_set("extended")
values = chart.load_yaml(chart.value_sets["extended"].read_text())


class Extended(unittest.TestCase):
    def test_the_workload_has_the_added_fields(self):
        spec = chart.workload(found)["spec"]
        self.assertEqual((spec["replicas"], spec["minReadySeconds"], spec["strategy"]), (4, 30, {"type": "Recreate"}))
        stateful = chart.render_objects({"kind": "StatefulSet", "strategy": {"type": "OnDelete"}})
        self.assertEqual(chart.workload(stateful)["spec"]["updateStrategy"], {"type": "OnDelete"})
        self.assertEqual(chart.workload(chart.objects_of_value_set("statefulset"))["spec"]["updateStrategy"], {"type": "RollingUpdate"})

    def test_the_pod_has_the_added_fields(self):
        spec = chart.pod_spec(found)
        for name in ("dnsPolicy", "dnsConfig", "hostAliases", "initContainers", "nodeSelector", "tolerations"):
            self.assertEqual(spec[name], values[name], name)
        self.assertEqual(spec["containers"][1:], values["sidecars"])
        self.assertEqual([volume for volume in spec["volumes"] if volume["name"] == "vault"], values["extraVolumes"])

    def test_the_worker_container_has_the_added_fields(self):
        container = chart.worker_container(found)
        self.assertEqual(container["env"], values["extraEnv"])
        self.assertEqual(container["envFrom"], values["extraEnvFrom"])
        self.assertEqual(container["lifecycle"], values["lifecycle"])
        self.assertEqual([mount for mount in container["volumeMounts"] if mount["name"] == "vault"], values["extraVolumeMounts"])

    def test_a_worker_of_a_stateful_set_keeps_its_name_beside_other_variables(self):
        env = chart.worker_container(chart.render_objects({"extraEnv": values["extraEnv"]}, base="statefulset"))["env"]
        self.assertEqual([variable["name"] for variable in env][0], "CAUSEWAY_KAFKA_CONSUMER_GROUP_INSTANCE_ID")
        self.assertEqual(env[1:], values["extraEnv"])

    def test_a_sleep_before_the_stop_lengthens_the_grace_period(self):
        self.assertEqual(chart.pod_spec(found)["terminationGracePeriodSeconds"], 35)

    def test_spread_constraints_select_the_pods(self):
        zone, host = chart.pod_spec(found)["topologySpreadConstraints"]
        selector = chart.workload(found)["spec"]["selector"]
        self.assertEqual((zone["maxSkew"], zone["whenUnsatisfiable"], zone["minDomains"]), (2, "DoNotSchedule", 3))
        self.assertEqual((zone["labelSelector"], zone["matchLabelKeys"]), (selector, ["pod-template-hash"]))
        self.assertEqual((host["maxSkew"], host["whenUnsatisfiable"]), (1, "ScheduleAnyway"))
        self.assertEqual(host["labelSelector"], {"matchLabels": {"team": "push"}})
        self.assertNotIn("matchLabelKeys", host)

    def test_the_job_and_the_pod_of_helm_test_have_the_added_fields_too(self):
        job = chart.only_object(found, "Job")["spec"]["template"]["spec"]
        test = chart.only_object(found, "Pod")["spec"]
        for spec in (job, test):
            for name in ("dnsPolicy", "dnsConfig", "hostAliases", "nodeSelector", "tolerations"):
                self.assertEqual(spec[name], values[name], name)
            for container in spec["containers"]:
                self.assertEqual(container["env"], values["extraEnv"])
                self.assertIn(values["extraVolumeMounts"][0], container["volumeMounts"])
            # A sidecar never ends, so a Job or a test with a sidecar would never end.
            self.assertEqual(len(spec["containers"]), 1)
        # An init container may bring the key, so it runs before the check of the files.
        self.assertEqual(test["initContainers"][:-1], values["initContainers"])
        self.assertEqual(test["initContainers"][-1]["name"], "configuration")
        job_labels = chart.only_object(found, "Job")["spec"]["template"]["metadata"]["labels"]
        for labels in (job_labels, chart.only_object(found, "Pod")["metadata"]["labels"]):
            self.assertEqual(labels["sidecar.istio.io/inject"], "false")

    def test_more_labels_never_change_a_selector(self):
        taken = {"app.kubernetes.io/name": "other", "app.kubernetes.io/component": "other", "team": "push"}
        after = chart.render_objects({"commonLabels": taken, "podLabels": {"app.kubernetes.io/instance": "other"}})
        labels = chart.workload(after)["spec"]["template"]["metadata"]["labels"]
        self.assertLessEqual(chart.workload(after)["spec"]["selector"]["matchLabels"].items(), labels.items())
        self.assertEqual(labels["team"], "push")
        for document in after:
            self.assertEqual(document["metadata"]["labels"]["app.kubernetes.io/name"], "causeway")
            self.assertNotEqual(document["metadata"]["labels"]["app.kubernetes.io/component"], "other")


class HelmTest(unittest.TestCase):
    def test_the_pod_checks_the_configuration_and_asks_a_worker(self):
        minimal = chart.objects_of_value_set("minimal")
        pod = chart.only_object(minimal, "Pod")
        self.assertEqual(pod["metadata"]["annotations"]["helm.sh/hook"], "test")
        self.assertEqual(pod["spec"]["restartPolicy"], "Never")
        (check,), (ask,) = pod["spec"]["initContainers"], pod["spec"]["containers"]
        self.assertEqual(check["args"], ["check", "--config", "/etc/causeway/config/causeway.yaml", "--files"])
        self.assertEqual(ask["args"], ["health", "--url", "http://push-causeway.push.svc:9464/readyz"])
        worker = chart.worker_container(minimal)
        for container in (check, ask):
            for name in ("image", "securityContext", "volumeMounts"):
                self.assertEqual(container[name], worker[name], name)
        self.assertEqual(pod["spec"]["volumes"], chart.pod_spec(minimal)["volumes"])
        service = chart.only_object(minimal, "Service")["metadata"]["name"]
        self.assertIn(f"//{service}.push.svc:", ask["args"][-1])

    def test_the_program_asks_a_host_by_its_name(self):
        """The pod of `helm test` knows the Service only by its name."""

        class Page(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append((self.path, self.headers["host"]))
                self.send_response(200 if self.path == "/readyz" else 503)
                self.end_headers()
                self.wfile.write(b"ok\n")

            def log_message(self, *_):
                pass

        asked = []
        server = http.server.HTTPServer(("127.0.0.1", 0), Page)
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        program = test_other_objects.program(self)

        def ask(url):
            done = subprocess.run([program, "health", "--url", url], capture_output=True, text=True, env={}, timeout=chart.timeout_seconds)
            return done.returncode, done.stdout, done.stderr

        place = f"localhost:{server.server_port}"
        self.assertEqual(ask(f"http://{place}/readyz"), (0, "ok\n", ""))
        self.assertEqual(ask(f"http://{place}/livez")[0], 1)
        self.assertEqual(asked, [("/readyz", place), ("/livez", place)])
        code, _, errors = ask("http://nobody.invalid:80/readyz")
        self.assertEqual((code, errors.startswith("causeway health: nobody.invalid: ")), (1, True), errors)
        for wrong in ("http://[::zz]:80/", "https://localhost:1/", "http://localhost:0/", "localhost:1/readyz"):
            self.assertEqual(ask(wrong)[0], 64, wrong)

    def test_the_network_policy_lets_the_pod_reach_a_worker(self):
        for name in ("minimal", "locked-down"):
            found = chart.objects_of_value_set(name)
            labels = chart.only_object(found, "Pod")["metadata"]["labels"]
            own = chart.only_object(found, "NetworkPolicy", "push-causeway-test")["spec"]
            self.assertLessEqual(own["podSelector"]["matchLabels"].items(), labels.items())
            self.assertEqual([{port["port"] for port in rule["ports"]} for rule in own["egress"]], [{53}, {9464}])
            (rule,) = chart.only_object(found, "NetworkPolicy", "push-causeway")["spec"]["ingress"]
            peers = [peer["podSelector"]["matchLabels"] for peer in rule.get("from", []) if "podSelector" in peer]
            self.assertEqual(len(peers), 1 if name == "locked-down" else 0)
            for peer in peers:
                self.assertLessEqual(peer.items(), labels.items())
            # The network policy of the workers must not select the pod of `helm test`.
            worker = chart.only_object(found, "NetworkPolicy", "push-causeway")["spec"]["podSelector"]["matchLabels"]
            self.assertFalse(worker.items() <= labels.items())

    def test_the_init_containers_of_the_pod_have_the_egress_of_the_workers(self):
        rule = {"ports": [{"protocol": "TCP", "port": 8200}]}
        policy = {"networkPolicy": {"extraEgress": [rule]}}
        for name, rules in (("extended", [rule]), ("minimal", [])):
            found = chart.render_objects(policy, base=name)
            egress = chart.only_object(found, "NetworkPolicy", "push-causeway-test")["spec"]["egress"]
            self.assertEqual(egress[2:], rules)


class Facts(unittest.TestCase):
    def test_the_chart_names_a_maintainer_an_icon_and_keywords(self):
        facts = chart.load_yaml((chart.chart / "Chart.yaml").read_text())
        self.assertTrue(facts["maintainers"][0]["name"])
        self.assertRegex(facts["icon"], r"^(https|data):")
        self.assertTrue(facts["keywords"])

    def test_a_packaged_chart_names_its_address(self):
        script = str(chart.root / ".ci/chart-package")
        self.assertNotEqual(chart.run([script]).returncode, 0)
        url = "https://example.com/causeway"
        done = chart.run([script, url])
        self.assertEqual(done.returncode, 0, done.stderr)
        facts = chart.load_yaml((chart.chart / "Chart.yaml").read_text())
        archive = chart.root / f".build/dist/causeway-{facts['version']}.tgz"
        self.addCleanup(archive.unlink)
        packaged = chart.load_yaml(chart.helm("show", "chart", str(archive)))
        self.assertEqual((packaged["home"], packaged["sources"]), (url, [url]))
        self.assertEqual({name: packaged[name] for name in facts}, facts)
