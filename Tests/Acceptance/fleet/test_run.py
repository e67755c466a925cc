"""What each scenario allows has the names that the invariants read."""

import unittest
from types import SimpleNamespace

from fleet.deployment import FleetKind
from fleet.run import allowance
from fleet.scenarios import SCENARIOS
from season.options import InvariantOptions


class AllowanceTests(unittest.TestCase):
    def test_each_scenario_has_options_for_the_invariants(self):
        for protocol in ("cooperative-sticky", "range"):
            kind = FleetKind("system", protocol, False, "kafka")
            for name, scenario in SCENARIOS.items():
                with self.subTest(scenario=name, protocol=protocol):
                    options = InvariantOptions(**allowance(scenario, kind, SimpleNamespace(sent_count=1_000, activities=["ride-0"])))
                    self.assertEqual(options.superseded_results, "each")
                    self.assertGreaterEqual(options.results_again, 0)
