"""Runs the services of compose.yaml without a container engine, and the commands of README.md in them.

    unshare --user --map-root-user --mount --net --pid --fork --kill-child compose_run.py PROGRAMS BROKER ROOT

All services share one root, made of this machine's folders and the services' own files, and one network in which each
service's name is a name of 127.0.0.1. A service runs the command that compose.yaml and the Dockerfile give it. Only
Kafka's image is replaced, by the program BROKER. The services do not get the containers' users, restricted rights and
separate networks. ROOT is an empty folder; its mounts end with this process. The exit code is 1 if a service or a
command fails.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.request

import yaml

repository = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(repository / "Tests/Acceptance"))

from fleet.proxy import BrokerProxy  # noqa: E402

compose = yaml.safe_load((repository / "compose.yaml").read_text())
services = compose["services"]
dockerfile = (repository / "Dockerfile").read_text()
readme = (repository / "README.md").read_text()
LIMIT_SECONDS = 60
# Clients reach the broker through the proxy of the fleet's tests (Tests/Acceptance/fleet), which handles
# versions and groups as Kafka does.
KAFKA_PORT, BROKER_PORT = 9092, 19092
# A published port does not reach a server that listens only at its container's 127.0.0.1. So this program sends its
# requests to another loopback address: a server that listens only at 127.0.0.1 refuses them too.
OTHER_LOOPBACK_ADDRESS = "127.0.0.2"


class Failure(Exception):
    """A service or a command of compose.yaml has failed."""


def run(*command):
    subprocess.run(command, check=True)


def make_root(root):
    """Makes a root with this machine's folders, and with its own /etc, /tmp and /proc."""
    run("mount", "-t", "tmpfs", "tmpfs", root)
    for entry in pathlib.Path("/").iterdir():
        target = root / entry.name
        if entry.name in ("etc", "tmp", "proc"):
            target.mkdir()
        elif entry.is_symlink():
            target.symlink_to(os.readlink(entry))
        elif entry.is_dir():
            target.mkdir()
            run("mount", "--rbind", entry, target)
    run("mount", "-t", "proc", "proc", root / "proc")
    for name in ("ld.so.cache", "nsswitch.conf", "passwd", "group"):
        shutil.copy(f"/etc/{name}", root / "etc")
    (root / "etc/hosts").write_text(f"127.0.0.1 localhost {' '.join(services)}\n")


def copy_file(source, target):
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(repository / source, target)


def copy_service_files(root):
    for source, target in re.findall(r"^COPY (Config/\S+) (/\S+)$", dockerfile, re.M):
        copy_file(source, root / target.lstrip("/"))
    for service in services.values():
        for volume in service.get("volumes", []):
            source, target = volume.split(":")[:2]
            if source.startswith("./"):
                copy_file(source, root / target.lstrip("/"))
            else:
                (root / target.lstrip("/")).mkdir(parents=True, exist_ok=True)


def entry_point(service):
    """Returns the entry point of one of our images. It is empty for other images, whose command names the program."""
    if "build" not in service:
        return []
    wanted = service["build"]["target"] if isinstance(service["build"], dict) else None
    stages = re.split(r"^FROM ", dockerfile, flags=re.M)
    stage = next((text for text in stages if wanted and f" AS {wanted}\n" in text), stages[-1])
    return json.loads(re.search(r"^ENTRYPOINT (\[.*\])$", stage, re.M)[1])


class ComposedServices:
    def __init__(self, programs, broker, root):
        self.programs, self.broker, self.root = programs, broker, root
        self.running = {}

    def environment(self, service):
        path = f"{self.programs}:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
        return {"PATH": path, "HOME": "/", **(service.get("environment", {}) if "build" in service else {})}

    def command_of(self, name):
        service = services[name]
        if name == "kafka":
            return [
                self.broker, "broker", "--silent", "--storage-engine", "memory://tansu/",
                "--listener-url", f"tcp://127.0.0.1:{BROKER_PORT}",
                "--advertised-listener-url", services[name]["environment"]["KAFKA_ADVERTISED_LISTENERS"].replace("PLAINTEXT", "tcp"),
            ]
        return entry_point(service) + service["command"]

    def command_inside(self, name, words):
        environment = [f"{key}={value}" for key, value in self.environment(services[name]).items()]
        return ["chroot", self.root, "env", "-i", *environment, *words]

    def is_healthy(self, name):
        if name == "kafka":
            # Kafka's health check is a program of its image, which this test does not have. A connection replaces it.
            with socket.socket() as client:
                return client.connect_ex(("127.0.0.1", BROKER_PORT)) == 0
        if name == "worker":
            test = json.loads(re.search(r"^HEALTHCHECK .*\\\n +CMD (\[.*\])$", dockerfile, re.M)[1])
        else:
            test = services[name]["healthcheck"]["test"][1:]
        return subprocess.run(self.command_inside(name, test), capture_output=True).returncode == 0

    def start(self, name):
        log = open(self.root / f"tmp/{name}.log", "wb")
        words = self.command_inside(name, self.command_of(name))
        self.running[name] = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def await_condition(self, name, condition):
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            code = self.running[name].poll()
            if condition == "service_completed_successfully" and code == 0:
                return
            if condition == "service_healthy" and code is None and self.is_healthy(name):
                return
            if code is not None or time.monotonic() > deadline:
                raise Failure(f"{name} is not {condition} (exit code {code}):\n{self.log(name)}")
            time.sleep(0.2)

    def log(self, name):
        return (self.root / f"tmp/{name}.log").read_text(errors="replace")[-3_000:]

    def start_all(self):
        waiting = list(services)
        while waiting:
            name = next(name for name in waiting if not set(services[name].get("depends_on", {})) & set(waiting))
            for other, wanted in services[name].get("depends_on", {}).items():
                self.await_condition(other, wanted["condition"])
            self.start(name)
            waiting.remove(name)
        self.await_condition("worker", "service_healthy")

    def await_output(self, name, line, wanted):
        """Repeats a command of README.md until it prints the wanted text, because the worker needs time to join its
        group. Fails after `LIMIT_SECONDS`."""
        deadline = time.monotonic() + LIMIT_SECONDS
        while True:
            done = subprocess.run(self.command_inside(name, ["bash", "-c", f"cd {repository} && {line}"]), capture_output=True, text=True)
            if done.returncode == 0 and re.search(wanted, done.stdout):
                print(f"ok: {name}: {line}")
                return
            if time.monotonic() > deadline:
                raise Failure(f"{line}: {done.returncode} {done.stdout}{done.stderr}\n{self.log('worker')}")
            time.sleep(0.5)


def readme_commands():
    """Returns the commands of README.md that run inside services: pairs of service and command."""
    return re.findall(r"^\$ docker compose exec (?:--no-TTY )?(\w+) (.+)$", readme, re.M)


# For each command of README.md that runs in a service, in order: words in it, and a text that it must print.
EXPECTED_OUTPUTS = [
    ("localhost:8080/phones ", '"installed":1'), ("causeway send ", "1 sent, 1 acknowledged, 0 failed"),
    ("localhost:8080/phone?", '"state":"active"'), ("causeway results ", '"outcome":"accepted"'),
]


def check_ports(composed_services):
    for name, service in services.items():
        for port in service.get("ports", []):
            _, outside, inner = port.split(":")
            request = urllib.request.Request(f"http://{OTHER_LOOPBACK_ADDRESS}:{inner}/", headers={"Host": f"localhost:{outside}"})
            with urllib.request.urlopen(request, timeout=10) as response:
                if response.status != 200:
                    raise Failure(f"{name}: port {port} responds with {response.status}")
            print(f"ok: {name}: port {port} responds")


def main():
    programs, broker, root = sys.argv[1:]
    run("ip", "link", "set", "lo", "up")
    root = pathlib.Path(root)
    make_root(root)
    copy_service_files(root)
    composed_services = ComposedServices(programs, broker, root)
    BrokerProxy(KAFKA_PORT, BROKER_PORT, True, lambda *_: None).open()
    composed_services.start_all()
    commands = readme_commands()
    if len(commands) != len(EXPECTED_OUTPUTS):
        raise Failure(f"README.md has {len(commands)} commands in services, not {len(EXPECTED_OUTPUTS)}")
    for (name, line), (words, wanted) in zip(commands, EXPECTED_OUTPUTS):
        if words not in line:
            raise Failure(f"README.md has {line} where {words} is expected")
        composed_services.await_output(name, line, wanted)
    check_ports(composed_services)
    worker = composed_services.running["worker"]
    worker.send_signal(signal.SIGTERM)
    if worker.wait(LIMIT_SECONDS) != 0:
        raise Failure(f"the worker ended with {worker.returncode}")
    print("ok: the worker drains")


if __name__ == "__main__":
    try:
        main()
    except Failure as failure:
        sys.exit(f"compose_run: {failure}")
