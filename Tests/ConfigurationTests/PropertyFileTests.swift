import Foundation
import Kafka
import Testbed
import Testing

@testable import CausewayConfiguration

@Suite("Properties of librdkafka whose values are in files")
struct PropertyFileTests {
    private final class Directory {
        private let directory: TemporaryDirectory
        var url: URL { directory.url }

        init() throws { directory = try TemporaryDirectory() }

        func writeFile(_ name: String, _ bytes: Data, mode: Int = 0o600) throws -> String {
            let path = url.appendingPathComponent(name).path
            try bytes.write(to: URL(fileURLWithPath: path))
            try FileManager.default.setAttributes([.posixPermissions: mode], ofItemAtPath: path)
            return path
        }
    }

    /// Returns a configuration with these lines below `kafka.propertyFiles`, and other lines in the section `kafka`.
    private func configurationText(_ files: [String], otherLines: String = "") -> String {
        smallestFile.replacingRequired(
            "  bootstrapServers: broker:9092\n",
            with: "  bootstrapServers: broker:9092\n\(otherLines)  propertyFiles:\n"
                + files.map { "    \($0)\n" }.joined()
        )
    }

    private func value(_ name: String, in properties: [(name: String, value: String)]) -> String? {
        properties.last { $0.name == name }?.value
    }

    @Test func `Both clients have the file's content without its last newline, and their own properties override it`()
        throws
    {
        let directory = try Directory()
        let password = try directory.writeFile("password", Data("hunter2\n".utf8))
        let key = try directory.writeFile("key", Data("-----BEGIN\nAAAA\r\n-----END\r\n".utf8))
        let kafka = try load(
            configurationText(
                ["sasl.password: \(password)", "ssl.key.pem: \(key)"],
                otherLines: "  producer: {sasl.password: other}\n"
            ),
            requiresFiles: false
        )
        .kafka
        #expect(kafka.propertyFiles.map(\.name) == ["sasl.password", "ssl.key.pem"])
        #expect(value("sasl.password", in: try kafka.consumerProperties) == "hunter2")
        #expect(value("sasl.password", in: try kafka.producerProperties) == "other")
        #expect(value("ssl.key.pem", in: try kafka.consumerProperties) == "-----BEGIN\nAAAA\r\n-----END")
        #expect(!"\(kafka)".contains("hunter2"))
    }

    @Test func `A variable names a file too`() throws {
        let configuration = try load(
            smallestFile,
            environment: ["CAUSEWAY_KAFKA_PROPERTY_FILES_SSL_KEY_PASSWORD": "/a/b"]
        )
        #expect(configuration.kafka.propertyFiles == [PropertyValueFile(name: "ssl.key.password", path: "/a/b")])
        #expect(configuration.kafka.properties.isEmpty)
    }

    @Test func `An unreadable file is a fault that names the key and the file, and never the content`() throws {
        let directory = try Directory()
        let longFile = try directory.writeFile("long", Data(repeating: 0x61, count: PropertyValueFile.bytesMax + 1))
        let binaryFile = try directory.writeFile("binary", Data([0x61, 0xFF]))
        let emptyFile = try directory.writeFile("empty", Data("\n".utf8))
        let lines = faults(
            of: configurationText([
                "a.gone: /nowhere", "b.long: \(longFile)", "c.binary: \(binaryFile)", "d.empty: \(emptyFile)",
                "e.directory: \(directory.url.path)", "f.unnamed: ''",
            ]),
            requiresFiles: true
        )
        .filter { $0.contains("propertyFiles") }
        #expect(
            lines == [
                "c.yaml:4:5: kafka.propertyFiles.a.gone: /nowhere: No such file or directory",
                "c.yaml:5:5: kafka.propertyFiles.b.long: \(longFile): is longer than 65536 bytes",
                "c.yaml:6:5: kafka.propertyFiles.c.binary: \(binaryFile): has no text",
                "c.yaml:7:5: kafka.propertyFiles.d.empty: \(emptyFile): has no text",
                "c.yaml:8:5: kafka.propertyFiles.e.directory: \(directory.url.path): is not a file",
                "c.yaml:9:5: kafka.propertyFiles.f.unnamed: must name a file",
            ]
        )
        // Loading reports no missing file, because `check` may run on a machine without the files. A command that
        // connects to Kafka reports it.
        let kafka = try load(configurationText(["a.gone: /nowhere"])).kafka
        let error = #expect(throws: KafkaError.self) { try kafka.consumerProperties }
        #expect(error?.reason == "property a.gone: kafka.propertyFiles: /nowhere: No such file or directory")
    }

    @Test func `A property with two values, or with a configuration key of its own, is a fault`() {
        #expect(
            faults(
                of: configurationText(
                    ["ssl.key.password: f", "group.id: g"],
                    otherLines: "  properties: {ssl.key.password: x}\n"
                )
            )
                == ["c.yaml:6:5: kafka.propertyFiles.group.id: cannot be set here: use kafka.groupId"]
        )
        #expect(
            faults(of: configurationText(["ssl.key.password: f"], otherLines: "  properties: {ssl.key.password: x}\n"))
                == [
                    "c.yaml:5:5: kafka.propertyFiles.ssl.key.password: is also set in kafka.properties; "
                        + "set it in only one of them"
                ]
        )
    }

    @Test(arguments: [(0o644, true), (0o640, false), (0o400, false)])
    func `A file that other users may read is recognized`(mode: Int, isReadable: Bool) throws {
        let directory = try Directory()
        let path = try directory.writeFile("password", Data("x".utf8), mode: mode)
        #expect(SecretFile.isReadableByOthers(path) == isReadable)
    }
}
