"""Finds what an upgrade must not bring: another value in a field that Kubernetes does not allow to change, an object
dropped without notice, or a selector that does not find its pods."""
import re
import shutil

import chart

previous = chart.tests / "previous"
# The value sets whose renderings are stored for each version: one for each kind of installation.
kept = ["minimal", "statefulset", "topics"]

# Fields that Kubernetes does not allow to change, by kind.
immutable = {
    "Deployment": ["spec.selector"],
    "StatefulSet": ["spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"],
    "Service": ["spec.clusterIP"],
    "Job": [],
}

# Objects that a version has dropped on purpose, as its release notes say: (version, kind, name).
dropped = set()


def with_new_names(version, values):
    """Returns an old installation's values with the names of the present chart."""
    if order(version) < order("0.7.0"):
        if "replicas" in values:
            values["replicaCount"] = values.pop("replicas")
        job = values.get("topics", {}).get("job", {})
        if "clientPropertiesSecret" in job:
            job["secretName"] = job.pop("clientPropertiesSecret")
            job["passwordKey"] = "password"
    return values


def field(document, path):
    for name in path.split("."):
        document = document.get(name, {}) if isinstance(document, dict) else {}
    return document


def identity(document):
    return document["apiVersion"], document["kind"], document["metadata"]["name"]


def faults(version, before, after):
    """Yields one text for each problem of an upgrade."""
    now = {identity(document): document for document in after}
    for document in before:
        _, kind, name = identity(document)
        is_hook = "helm.sh/hook" in document["metadata"].get("annotations", {})
        if identity(document) not in now:
            if (version, kind, name) not in dropped:
                yield f"{kind} {name} is no longer there"
            continue
        # A hook is deleted and created again, so its fields may change.
        for path in [] if is_hook else immutable.get(kind, []):
            if field(document, path) != field(now[identity(document)], path):
                yield f"{kind} {name}: {path} cannot be changed"
        selector = field(now[identity(document)], "spec.selector.matchLabels")
        labels = field(now[identity(document)], "spec.template.metadata.labels")
        if kind in ("Deployment", "StatefulSet") and not selector.items() <= labels.items():
            yield f"{kind} {name}: its selector does not find its pods"


def current_version():
    return chart.load((chart.chart / "Chart.yaml").read_text())["version"]


def order(version):
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def versions():
    return sorted((directory.name for directory in previous.iterdir()), key=order)


def accept():
    directory = previous / current_version()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in kept:
        (directory / f"{name}.values.yaml").write_text(chart.value_sets[name].read_text())
        (directory / f"{name}.rendered.yaml").write_text(chart.rendered_text(name))
    print(f"{directory.relative_to(chart.root)} is written")
    return 0
