"""A broker whose groups rebalance, for a program that is no part of these tests: the fleet's own, with its gate.

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
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from stage import Kind, Stage  # noqa: E402
from watch import Group  # noqa: E402

PR_SET_PDEATHSIG = 1


def main(directory):
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    # Killed outright, as a child is by default, it would leave the broker behind.
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    with Stage("causeway", Kind("system", "range", False, "kafka"), directory, Group()) as stage:
        stage.start_broker()
        print(json.dumps({"bootstrapServers": stage.bootstrap}), flush=True)
        over.wait()


if __name__ == "__main__":
    main(sys.argv[1])
