"""The forms of Redis in these tests: one server, a primary with a replica and a Sentinel, or a cluster in
which one primary has a replica."""

import signal
import socket
import time

from processes import Failure, Process, free_ports, wait_until

START_SECONDS = 20
PRIMARY_NAME = "mymaster"
HASH_SLOTS = 16_384
PRIMARY_COUNT = 3
DOWN_AFTER_MILLISECONDS = 1_000


def send_command(port, command):
    """Returns the first line of a server's reply; an empty text if there is none."""
    try:
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(command.encode() + b"\r\n")
            return connection.recv(1_000).split(b"\r\n")[0].decode()
    except OSError:
        return ""


class SingleServer:
    """One server that keeps its data on disk."""

    def __init__(self, deployment):
        self._deployment = deployment
        self._servers = []
        """The port, the process and the options of each server. The first server is the one that is disturbed."""

    def start(self):
        if not self._servers:
            self._add_server()
        elif not self._servers[0][1].is_running():
            self._start_server(0)

    def configuration(self):
        return {"url": f"redis://127.0.0.1:{self._servers[0][0]}/0"}

    def kill(self):
        self._servers[0][1].kill()
        self._deployment.parts.pop("redis-0")

    def wipe(self):
        if send_command(self._servers[0][0], "FLUSHALL") != "+OK":
            raise Failure("Redis does not flush")

    def freeze(self, seconds):
        process = self._servers[0][1]
        process.signal(signal.SIGSTOP)
        time.sleep(seconds)
        process.signal(signal.SIGCONT)

    def _add_server(self, *options):
        self._servers.append((free_ports(1)[0], None, options))
        self._start_server(len(self._servers) - 1)

    def _start_server(self, index):
        port, _, options = self._servers[index]
        command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--dir", self._deployment.directory]
        command += ["--save", "", "--appendonly", "yes", "--appendfsync", "everysec"]
        command += ["--appenddirname", f"redis-{index}", "--dbfilename", f"redis-{index}.rdb", *options]
        process = Process(f"redis-{index}", command, self._deployment.path(f"redis-{index}.log"))
        self._deployment.parts[process.name] = process
        self._servers[index] = (port, process, options)
        wait_until(lambda: send_command(port, "PING") == "+PONG", START_SECONDS, "redis-server replies")

    def _await_replica(self):
        wait_until(lambda: send_command(self._servers[0][0], "WAIT 1 100") == ":1", START_SECONDS, "a replica that follows")


class SentinelServers(SingleServer):
    """A primary, a replica, and one Sentinel that starts a failover quickly."""

    def start(self):
        self._add_server()
        self._add_server("--replicaof", "127.0.0.1", str(self._servers[0][0]))
        self._await_replica()
        self._sentinel_port = free_ports(1)[0]
        path = self._deployment.path("sentinel.conf")
        with open(path, "w", encoding="utf-8") as file:
            file.write(
                f"bind 127.0.0.1\nport {self._sentinel_port}\ndir {self._deployment.directory}\n"
                f"sentinel monitor {PRIMARY_NAME} 127.0.0.1 {self._servers[0][0]} 1\n"
                f"sentinel down-after-milliseconds {PRIMARY_NAME} {DOWN_AFTER_MILLISECONDS}\n"
            )
        sentinel = Process("sentinel", ["redis-server", path, "--sentinel"], self._deployment.path("sentinel.log"))
        self._deployment.parts["sentinel"] = sentinel
        wait_until(lambda: send_command(self._sentinel_port, "PING") == "+PONG", START_SECONDS, "the Sentinel replies")

    def configuration(self):
        return {"mode": "sentinel", "url": f"redis://{PRIMARY_NAME}", "sentinelURL": f"redis://127.0.0.1:{self._sentinel_port}"}


class ClusterServers(SingleServer):
    """Three primaries. The one that is disturbed has a replica, which replaces it."""

    def start(self):
        bus_ports = free_ports(PRIMARY_COUNT + 1)
        for index, bus_port in enumerate(bus_ports):
            self._add_server(
                "--cluster-enabled", "yes", "--cluster-config-file", f"nodes-{index}.conf", "--cluster-port", str(bus_port),
                "--cluster-node-timeout", str(DOWN_AFTER_MILLISECONDS),
            )
        ports = [port for port, _, _ in self._servers]
        for index in range(PRIMARY_COUNT):
            first_slot, end_slot = HASH_SLOTS * index // PRIMARY_COUNT, HASH_SLOTS * (index + 1) // PRIMARY_COUNT
            self._run_command(ports[index], f"CLUSTER ADDSLOTSRANGE {first_slot} {end_slot - 1}")
        for port, bus_port in zip(ports, bus_ports):
            self._run_command(ports[0], f"CLUSTER MEET 127.0.0.1 {port} {bus_port}")
        wait_until(lambda: all(self._knows_all_primaries(port) for port in ports), START_SECONDS, "a cluster whose servers know each other")
        identifier = self._node_identifier(ports[0])
        wait_until(lambda: send_command(ports[-1], f"CLUSTER REPLICATE {identifier}") == "+OK", START_SECONDS, "a replica")
        self._await_replica()
        wait_until(lambda: all(send_command(port, "GET {probe}") != "" and self._is_up(port) for port in ports), START_SECONDS, "a cluster")

    def configuration(self):
        servers = ",".join(f"127.0.0.1:{port}" for port, _, _ in self._servers)
        return {"mode": "cluster", "url": f"redis://{servers}"}

    def _run_command(self, port, command):
        reply = send_command(port, command)
        if reply != "+OK":
            raise Failure(f"{command}: {reply}")

    def _node_identifier(self, port):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            connection.sendall(b"CLUSTER MYID\r\n")
            return connection.recv(1_000).split(b"\r\n")[1].decode()

    def _knows_all_primaries(self, port):
        return send_command(port, "CLUSTER SLOTS") == f"*{PRIMARY_COUNT}"

    def _is_up(self, port):
        return not send_command(port, "GET probe").startswith("-CLUSTERDOWN")
