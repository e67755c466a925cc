"""What a run allows, and how its worker was configured. The invariants depend on it."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InvariantOptions:
    # Milliseconds between Redis' decision and the push's arrival, by which two pushes may differ.
    tolerance: int = 100
    # How many spacings a state may wait for a push.
    wait_spacings: float = 3
    # How many pushes may have been sent twice, results written twice, and alerts rung twice.
    repeats: int = 0
    results_again: int = 0
    # How many responses of APNs may have been lost, because connections were cut. The results then say `noResponse`.
    lost_responses: int = 0
    alerts_again: int = 0
    # How many pushes may ring nothing although an alert is due, because their state was read again. The alert stays due.
    silent_pushes: int = 0
    # `kafka.supersededResults` of the run: "each", or "counted" if newer results may count superseded commands.
    superseded_results: str = "each"
    # How often Redis lost all data. Each time, the buckets are full again.
    wipes: int = 0
