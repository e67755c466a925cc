"""Renders the chart with the real Helm, and finds objects in the result."""
import functools
import hashlib
import pathlib
import subprocess
import tempfile

import yaml

root = pathlib.Path(__file__).resolve().parents[3]
chart = root / "Helm/causeway"
tools = root / ".build/tools"
tests_directory = pathlib.Path(__file__).resolve().parent
value_sets = {file.stem: file for file in sorted((tests_directory / "values").glob("*.yaml"))}

# The C parser of libyaml needs a tenth of the time of the Python parser.
yaml_loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class RefusedValues(Exception):
    """Helm rejected the values. The error has Helm's own text."""


def load_yaml(text):
    return yaml.load(text, Loader=yaml_loader)


# Each command needs only some seconds of CPU time, but the machine may be busy.
timeout_seconds = 600


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)


def helm(*arguments):
    done = run([tools / "helm", *arguments])
    if done.returncode != 0:
        raise RefusedValues(done.stderr + done.stdout)
    return done.stdout


def render_text(*value_files, values=None, release="push", arguments=(), chart=chart):
    """Returns the output of `helm template` for value files; `values` override them."""
    command = ["template", release, str(chart), "--namespace", "push", *arguments]
    for file in value_files:
        command += ["--values", str(file)]
    if values is None:
        return helm(*command)
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
        yaml.safe_dump(values, file)
        file.flush()
        return helm(*command, "--values", file.name)


def parse_documents(text):
    return [document for document in yaml.load_all(text, Loader=yaml_loader) if document]


@functools.cache
def text_of_value_set(name):
    return render_text(value_sets[name])


@functools.cache
def objects_of_value_set(name):
    """Returns the objects that the chart renders for one of our value sets."""
    return parse_documents(text_of_value_set(name))


def render_objects(values, base="minimal"):
    """Returns the objects that the chart renders for one of our value sets, with other values over it."""
    return parse_documents(render_text(value_sets[base], values=values))


def objects_of_kind(found, kind):
    return [document for document in found if document["kind"] == kind]


def only_object(found, kind, name=None):
    matching = [d for d in objects_of_kind(found, kind) if name is None or d["metadata"]["name"] == name]
    assert len(matching) == 1, f"{len(matching)} of {kind} {name or ''}"
    return matching[0]


def workload(found):
    (only,) = objects_of_kind(found, "Deployment") + objects_of_kind(found, "StatefulSet")
    return only


def pod_spec(found):
    return workload(found)["spec"]["template"]["spec"]


def worker_container(found):
    """Returns the container that runs the program."""
    (only,) = [container for container in pod_spec(found)["containers"] if container["name"] == "worker"]
    return only


def worker_configuration_text(found):
    return only_object(found, "ConfigMap", workload(found)["metadata"]["name"])["data"]["causeway.yaml"]


def worker_configuration(found):
    return load_yaml(worker_configuration_text(found))


def hash_of(document):
    return hashlib.sha256(repr(document).encode()).hexdigest()
