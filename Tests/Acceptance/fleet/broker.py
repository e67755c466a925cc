"""Runs the fleet's broker behind its proxy as a separate program. Its groups rebalance by Kafka's rules.

    broker.py DIRECTORY    prints {"bootstrapServers":"127.0.0.1:40123"} when its topics are made, and serves until SIGTERM, or until
                           its parent has gone
"""

import ctypes
import json
import pathlib
import signal
import sys
import threading

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from fleet.deployment import Deployment, FleetKind  # noqa: E402
from fleet.observers import GroupObserver  # noqa: E402

PR_SET_PDEATHSIG = 1


def main(directory):
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    # When the parent process ends, the kernel sends SIGTERM to this process, so that the broker ends too.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with Deployment("causeway", FleetKind("system", "range", False, "kafka"), directory, GroupObserver()) as deployment:
        deployment.start_broker()
        print(json.dumps({"bootstrapServers": deployment.bootstrap_servers}), flush=True)
        over.wait()


if __name__ == "__main__":
    main(sys.argv[1])
