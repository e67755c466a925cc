"""The parts that all laws share: the verdict on one law, and the report on all verdicts."""

EXAMPLES = 5


class Law:
    """The verdict on one law: the measurement, and what breaks the law."""

    def __init__(self, name):
        self.name = name
        self.measured = ""
        self.broken = []

    def breaks(self, text):
        self.broken.append(text)

    def examples(self):
        """Returns the first breaches, and the number of further ones."""
        more = len(self.broken) - EXAMPLES
        return self.broken[:EXAMPLES] + ([f"and {more} more"] if more > 0 else [])


def percentile(values, share):
    """Returns the value that this share of all values does not exceed; 0 without values."""
    if not values:
        return 0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]



def report(laws, indentation=""):
    """Prints the verdicts. Returns the number of broken laws."""
    for law in laws:
        print(f"{indentation}{'BROKEN' if law.broken else 'ok':7}{law.name}")
        print(f"{indentation}       {law.measured}")
        for example in law.examples():
            print(f"{indentation}     - {example}")
    broken = sum(bool(law.broken) for law in laws)
    print(f"{indentation}{len(laws) - broken} of {len(laws)} laws hold", flush=True)
    return broken
