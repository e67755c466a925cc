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
tests = pathlib.Path(__file__).resolve().parent
value_sets = {file.stem: file for file in sorted((tests / "values").glob("*.yaml"))}

# The C parser of libyaml needs a tenth of the time of the Python parser.
loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Refused(Exception):
    """Helm rejected the values. The error has Helm's own text."""


def load(text):
    return yaml.load(text, Loader=loader)


# Each command needs only some seconds of CPU time, but the machine may be busy.
timeout_seconds = 600


def run(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=timeout_seconds)


def helm(*arguments):
    done = run([tools / "helm", *arguments])
    if done.returncode != 0:
        raise Refused(done.stderr + done.stdout)
    return done.stdout


def template(*value_files, values=None, release="push", arguments=(), chart=chart):
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


def documents(text):
    return [document for document in yaml.load_all(text, Loader=loader) if document]


@functools.cache
def rendered_text(name):
    return template(value_sets[name])


@functools.cache
def rendered(name):
    """Returns the objects that the chart renders for one of our value sets."""
    return documents(rendered_text(name))


def render(values, base="minimal"):
    """Returns the objects that the chart renders for one of our value sets, with other values over it."""
    return documents(template(value_sets[base], values=values))


def of_kind(found, kind):
    return [document for document in found if document["kind"] == kind]


def one(found, kind, name=None):
    matching = [d for d in of_kind(found, kind) if name is None or d["metadata"]["name"] == name]
    assert len(matching) == 1, f"{len(matching)} of {kind} {name or ''}"
    return matching[0]


def workload(found):
    (only,) = of_kind(found, "Deployment") + of_kind(found, "StatefulSet")
    return only


def pod(found):
    return workload(found)["spec"]["template"]["spec"]


def container(found):
    """Returns the container that runs the program."""
    (only,) = [container for container in pod(found)["containers"] if container["name"] == "worker"]
    return only


def worker_configuration_text(found):
    return one(found, "ConfigMap", workload(found)["metadata"]["name"])["data"]["causeway.yaml"]


def worker_configuration(found):
    return load(worker_configuration_text(found))


def digest(document):
    return hashlib.sha256(repr(document).encode()).hexdigest()
