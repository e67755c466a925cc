"""Finds what an upgrade must not bring: another value in a field that Kubernetes does not allow to change, an object
dropped without notice, or a selector that does not find its pods."""
import re
import shutil

import chart

previous_directory = chart.tests_directory / "previous"
# The value sets whose renderings are stored for each version: one for each kind of installation.
stored_value_sets = ["minimal", "statefulset", "topics"]

# Fields that Kubernetes does not allow to change, by kind.
immutable_fields = {
    "Deployment": ["spec.selector"],
    "StatefulSet": ["spec.selector", "spec.serviceName", "spec.podManagementPolicy", "spec.volumeClaimTemplates"],
    "Service": ["spec.clusterIP"],
    "Job": [],
}

# Objects that a version has dropped on purpose, as its release notes say: (version, kind, name).
dropped_objects = set()


def with_present_names(version, values):
    """Returns an old installation's values with the names of the present chart."""
    if version_numbers(version) < version_numbers("0.7.0"):
        if "replicas" in values:
            values["replicaCount"] = values.pop("replicas")
        job = values.get("topics", {}).get("job", {})
        if "clientPropertiesSecret" in job:
            job["secretName"] = job.pop("clientPropertiesSecret")
            job["passwordKey"] = "password"
    return values


def field_at(document, path):
    for name in path.split("."):
        document = document.get(name, {}) if isinstance(document, dict) else {}
    return document


def object_key(document):
    return document["apiVersion"], document["kind"], document["metadata"]["name"]


def upgrade_faults(version, before, after):
    """Yields one text for each problem of an upgrade."""
    objects_after = {object_key(document): document for document in after}
    for document in before:
        _, kind, name = object_key(document)
        is_hook = "helm.sh/hook" in document["metadata"].get("annotations", {})
        if object_key(document) not in objects_after:
            if (version, kind, name) not in dropped_objects:
                yield f"{kind} {name} is no longer there"
            continue
        # A hook is deleted and created again, so its fields may change.
        for path in [] if is_hook else immutable_fields.get(kind, []):
            if field_at(document, path) != field_at(objects_after[object_key(document)], path):
                yield f"{kind} {name}: {path} cannot be changed"
        selector = field_at(objects_after[object_key(document)], "spec.selector.matchLabels")
        labels = field_at(objects_after[object_key(document)], "spec.template.metadata.labels")
        if kind in ("Deployment", "StatefulSet") and not selector.items() <= labels.items():
            yield f"{kind} {name}: its selector does not find its pods"


def current_version():
    return chart.load_yaml((chart.chart / "Chart.yaml").read_text())["version"]


def version_numbers(version):
    return [int(number) for number in re.findall(r"\d+", version)[:3]]


def versions():
    return sorted((directory.name for directory in previous_directory.iterdir()), key=version_numbers)


def store_renderings():
    directory = previous_directory / current_version()
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    for name in stored_value_sets:
        (directory / f"{name}.values.yaml").write_text(chart.value_sets[name].read_text())
        (directory / f"{name}.rendered.yaml").write_text(chart.text_of_value_set(name))
    print(f"{directory.relative_to(chart.root)} is written")
    return 0
