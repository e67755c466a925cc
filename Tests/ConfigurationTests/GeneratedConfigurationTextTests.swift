import Documents
import Foundation
import Testbed
import Testing

@testable import CausewayConfiguration

/// What each generated page shows of a key.
@Suite("Configuration pages", .ownThread)
struct GeneratedConfigurationTextTests {
    private let keys: [KeyDescription] = {
        let required: SchemaKey<WorkerConfiguration> =
            .text("one.address", \.kafka.groupId, .host, meaning: "A host | name.")
            .required(example: "example.com")
        let number: SchemaKey<WorkerConfiguration> =
            .integer("one.two.port", \.http.port, 1...9_999, meaning: "First.\n\nSecond.")
            .sourceOfDefault("Our choice.")
            .asReloadable
        let unset: SchemaKey<WorkerConfiguration> =
            .optionalText("one.two.url", \.tracing.endpoint, .collectorURL, meaning: "An address.")
            .whenUnset("nothing is sent")
        let properties: SchemaKey<WorkerConfiguration> = .properties("three", \.kafka.consumer, meaning: "Properties.")
            .exampleLines("a: 1", "b: 2")
        let list: SchemaKey<WorkerConfiguration.App> = .environments("environments", \.environments, meaning: "A list.")
        return [required, number, unset, properties].map { KeyDescription($0, of: WorkerConfiguration()) }
            + [KeyDescription(list, of: WorkerConfiguration.App(name: "x"), below: "apps.*.")]
    }()

    @Test func `The YAML page has comments, values and sections, with a blank line between neighbours`() throws {
        let page = YAMLPage.text(
            of: ConfigurationSection(name: "", keys: keys),
            introduction: "All keys.",
            schemaFile: "s.json"
        )
        let expected = """
            # yaml-language-server: $schema=s.json
            #
            # All keys.

            one:
              # A host | name.
              # Required.
              address: example.com

              two:
                # First.
                #
                # Second.
                # Our choice.
                # Default: 9464. Range 1 to 9999. Reloadable.
                port: 9464

                # An address.
                # Default: none; if unset: nothing is sent.
                url:

            # Properties.
            #   a: 1
            #   b: 2
            # Default: {}.
            three: {}


            """
        let apps = try #require(page.range(of: "# The apps"))
        #expect(String(page[..<apps.lowerBound]) == expected)
        let end = """
            apps:
              match:
                # A list.
                # Default: [production, sandbox]. One or more of production, sandbox.
                environments: [production, sandbox]

            """
        #expect(page.hasSuffix(end))
    }

    @Test func `A long line of the YAML page is wrapped between words, and loses none`() {
        let words = (1...60).map { "word\($0)" }
        let key: SchemaKey<WorkerConfiguration> = .properties(
            "a.b",
            \.kafka.consumer,
            meaning: words.joined(separator: " ")
        )
        let file = ConfigurationSection(name: "", keys: [KeyDescription(key, of: WorkerConfiguration())])
        let lines = YAMLPage.text(of: file, introduction: "", schemaFile: "").split(separator: "\n")
        #expect(lines.allSatisfy { $0.count <= YAMLPage.lineCharactersMax })
        let commentLines = lines.filter { $0.hasPrefix("  # word") }
        #expect(commentLines.flatMap { $0.dropFirst(4).split(separator: " ").map(String.init) } == words)
        // A line breaks only where the next word would exceed the page's width.
        for (line, nextLine) in zip(commentLines, commentLines.dropFirst()) {
            let nextWord = nextLine.dropFirst(4).prefix { $0 != " " }
            #expect(line.count + 1 + nextWord.count > YAMLPage.lineCharactersMax)
        }
    }

    @Test func `The Markdown page has one row for each key`() {
        let rows = ConfigurationPage.text(of: keys).split(separator: "\n").filter { $0.hasPrefix("| `") }
        #expect(
            rows == [
                "| `one.address` | A host \\| name. | required |  | after a restart |",
                "| `one.two.port` | First. Second. Our choice. | 9464 | 1 to 9999 | at once |",
                "| `one.two.url` | An address. | none; if unset: nothing is sent |  | after a restart |",
                "| `three` | Properties. | {} |  | after a restart |",
                "| `apps.<app>.environments` | A list. | [production, sandbox] | production, sandbox | after a restart |",
            ]
        )
    }

    @Test func `The JSON Schema has types, limits, patterns, defaults, and what is required`() throws {
        let schema = try parsed(JSONSchemaPage.fileSchema(of: ConfigurationSection(name: "", keys: keys)))
        #expect(schema["required"] as? [String] == ["one", "apps"])
        let one = try member(["one"], of: schema)
        #expect(one["type"] as? String == "object")
        #expect(one["required"] as? [String] == ["address"])
        #expect(one["additionalProperties"] as? Bool == false)
        let address = try member(["one", "address"], of: schema)
        #expect(address["pattern"] as? String == ConfigurationRule.host.pattern)
        #expect(address["description"] as? String == "A host | name. Required.")
        #expect(address["default"] == nil)
        let port = try member(["one", "two", "port"], of: schema)
        #expect([port["minimum"] as? Int, port["maximum"] as? Int, port["default"] as? Int] == [1, 9_999, 9_464])
        #expect(port["description"] as? String == "First. Second. Our choice. Default: 9464.")
        let apps = try member(["apps"], of: schema)
        #expect((apps["patternProperties"] as? [String: Any])?.keys.map(\.self) == ["^[a-z0-9]{1,32}$"])
        #expect([apps["minProperties"] as? Int, apps["maxProperties"] as? Int] == [1, 255])
        let chart = try parsed(JSONSchemaPage.chartSchema(of: ConfigurationSection(name: "", keys: keys)))
        #expect(try member(["one", "two", "port"], of: chart)["default"] == nil)
    }

    @Test func `JSON texts are escaped`() throws {
        let text = "a\"b\\c\nd\te\u{1}f\u{1f}g…"
        #expect(try parsed(["text": .text(text)])["text"] as? String == text)
    }

    private func parsed(_ node: DocumentValue) throws -> [String: Any] {
        try #require(try JSONSerialization.jsonObject(with: Data(node.json.utf8)) as? [String: Any])
    }

    private func member(_ path: [String], of schema: [String: Any]) throws -> [String: Any] {
        try path.reduce(schema) { part, name in
            let properties = try #require(part["properties"] as? [String: Any])
            return try #require(properties[name] as? [String: Any])
        }
    }
}
