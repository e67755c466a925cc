"""The parts that all invariants share: the result of one check, and the report on all results."""

EXAMPLES_MAX = 5


class InvariantResult:
    """The result of checking one invariant: the measurement, and the violations."""

    def __init__(self, name):
        self.name = name
        self.measurement = ""
        self.violations = []

    def add_violation(self, text):
        self.violations.append(text)

    def examples(self):
        """Returns the first violations, and the number of further ones."""
        more_count = len(self.violations) - EXAMPLES_MAX
        return self.violations[:EXAMPLES_MAX] + ([f"and {more_count} more"] if more_count > 0 else [])


def percentile(values, share):
    """Returns the value that this share of all values does not exceed; 0 without values."""
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def print_report(results, indentation=""):
    """Prints the results. Returns the number of violated invariants."""
    for result in results:
        print(f"{indentation}{'BROKEN' if result.violations else 'ok':7}{result.name}")
        print(f"{indentation}       {result.measurement}")
        for example in result.examples():
            print(f"{indentation}     - {example}")
    violated_count = sum(bool(result.violations) for result in results)
    print(f"{indentation}{len(results) - violated_count} of {len(results)} invariants hold", flush=True)
    return violated_count
