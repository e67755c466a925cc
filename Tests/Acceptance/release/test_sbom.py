"""The bill of materials has exactly what is linked and copied, and its check finds each missing field."""
import copy
import hashlib
import importlib.machinery
import importlib.util
import json
import pathlib
import subprocess
import tempfile
import unittest

root = pathlib.Path(__file__).resolve().parents[3]
script = root / ".ci/sbom"
pins = json.loads((root / "Package.resolved").read_text())["pins"]
MIT = "MIT License\n\nPermission is hereby granted, free of charge"
APACHE = "Apache License\n   Version 2.0, January 2004\n"


def module():
    loader = importlib.machinery.SourceFileLoader("sbom", str(script))
    found = importlib.util.module_from_spec(importlib.util.spec_from_loader("sbom", loader))
    loader.exec_module(found)
    return found


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


class Bill(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        place = pathlib.Path(cls.folder.name)
        for pin in pins:
            name = pin["location"].rstrip("/").removesuffix(".git").rpartition("/")[2]
            write(place / f"build/checkouts/{name}/LICENSE.txt", MIT if name == "Yams" else APACHE)
            write(place / f"build/checkouts/{name}/Sources/{name}Target/a.swift", "")
        linked = "".join(f"/x/{name}.build/a.swift.o\n" for name in ("causeway", "YamsTarget", "swift-logTarget"))
        write(place / "build/x86_64-unknown-linux-gnu/release/causeway.product/Objects.LinkFileList", linked)
        write(place / "causeway", "the program")
        write(place / "image/etc/os-release", 'NAME="Debian GNU/Linux"\nVERSION_ID="13"\n')
        write(
            place / "image/var/lib/dpkg/status.d/librdkafka1",
            "Package: librdkafka1\nArchitecture: amd64\nSource: librdkafka (2.8.0-1)\nVersion: 2.8.0-1+b1\nDescription: Kafka\n more\n",
        )
        write(place / "image/usr/share/doc/librdkafka1/copyright", "Files: *\nLicense: BSD-2-clause\n\nFiles: a\nLicense: Zlib\n text\n")
        cls.output = place / "out/bill.json"
        cls.arguments = [
            script, "--build", place / "build", "--product", "causeway", "--program", place / "causeway", "--image", place / "image",
            "--output", cls.output,
        ]
        subprocess.run(cls.arguments, check=True, cwd=root, env=None)
        cls.bill = json.loads(cls.output.read_text())
        cls.components = {component["name"]: component for component in cls.bill["components"]}

    def test_the_bill_has_exactly_the_linked_components(self):
        self.assertEqual(set(self.components), {"librdkafka1", "swift-log", "swift-runtime", "yams"})

    def test_components_have_versions_and_licences(self):
        (pin,) = [pin for pin in pins if pin["identity"] == "yams"]
        yams = self.components["yams"]
        self.assertEqual(yams["version"], pin["state"]["version"])
        self.assertEqual(yams["licenses"], [{"expression": "MIT"}])
        self.assertEqual(yams["externalReferences"][0]["comment"], pin["state"]["revision"])
        kafka = self.components["librdkafka1"]
        self.assertEqual(kafka["purl"], "pkg:deb/debian/librdkafka1@2.8.0-1%2Bb1?arch=amd64&distro=debian-13")
        self.assertEqual(kafka["licenses"], [{"license": {"name": "BSD-2-clause"}}, {"license": {"name": "Zlib"}}])
        self.assertEqual(kafka["properties"], [{"name": "debian:source", "value": "librdkafka"}])

    def test_the_bill_has_the_hash_of_the_program(self):
        (only,) = self.bill["metadata"]["component"]["hashes"]
        self.assertEqual(only["content"], hashlib.sha256(b"the program").hexdigest())

    def test_the_same_inputs_give_the_same_text(self):
        before = self.output.read_text()
        subprocess.run(self.arguments, check=True, cwd=root)
        self.assertEqual(self.output.read_text(), before)

    def test_a_missing_field_is_found(self):
        problems = module().find_problems
        self.assertEqual(list(problems(self.bill)), [])
        for path in (
            ["specVersion"], ["serialNumber"], ["metadata", "timestamp"], ["metadata", "component", "hashes"], ["components"],
            ["dependencies"],
            *(["components", 0, field] for field in ("type", "bom-ref", "name", "version", "purl", "licenses")),
        ):
            bill = copy.deepcopy(self.bill)
            part = bill
            for step in path[:-1]:
                part = part[step]
            del part[path[-1]]
            with self.subTest(path=path):
                self.assertTrue(list(problems(bill)))
        twice = copy.deepcopy(self.bill)
        twice["components"].append(twice["components"][0])
        self.assertTrue(list(problems(twice)))
