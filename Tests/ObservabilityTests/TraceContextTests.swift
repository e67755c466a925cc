import Testing

@testable import Observability

struct TraceContextTests {
    static let example = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

    static func parse(_ text: String) -> TraceContext? { Array(text.utf8).withUnsafeBytes { TraceContext($0) } }

    @Test func `The example of the W3C specification is read and written`() throws {
        let context = try #require(Self.parse(Self.example))
        #expect(
            context.traceIdentifierHigh == 0x4bf9_2f35_77b3_4da6 && context.traceIdentifierLow == 0xa3ce_929d_0e0e_4736
        )
        #expect(context.spanIdentifier == 0x00f0_67aa_0ba9_02b7)
        #expect(context.isSampled && !context.hasRandomTraceIdentifier)
        #expect(context.description == Self.example)
    }

    @Test func `A child span keeps the id of its trace`() throws {
        let child = try #require(Self.parse(Self.example)).child(spanIdentifier: 1)
        #expect(child.description == "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000001-01")
    }

    @Test(arguments: ["00", "02", "03", "01"]) func `Known flags are kept`(_ flags: String) throws {
        let text = Self.example.dropLast(2) + flags
        #expect(try #require(Self.parse(String(text))).description == text)
    }

    @Test func `Unknown flags are not kept`() throws {
        #expect(try #require(Self.parse(String(Self.example.dropLast(2) + "ff"))).description.hasSuffix("-03"))
    }

    @Test func `A later version is read up to its known part`() throws {
        let text = "cc-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
        #expect(try #require(Self.parse(text + "-what-the-future-will-bring")).description == Self.example)
        #expect(Self.parse(text) != nil)
        #expect(Self.parse(text + ".what") == nil)
    }

    @Test(arguments: [
        "", "00", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7",
        "ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01",
        "00-00000000000000000000000000000000-00f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-0000000000000000-01",
        "00-4bf92f3577b34da6a3ce929d0e0e473-600f067aa0ba902b7-01",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01-",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0g",
        "00_4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
        " 0-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ])
    func `An invalid trace parent is ignored`(_ text: String) { #expect(Self.parse(text) == nil) }

    @Test func `The parser survives any changed byte`() {
        let bytes = Array(Self.example.utf8)
        for index in bytes.indices {
            for value in UInt8.min...UInt8.max {
                var changed = bytes
                changed[index] = value
                let context = changed.withUnsafeBytes { TraceContext($0) }
                // An accepted context is written as version 00, and this text is accepted again.
                if let context { #expect(Self.parse(context.description) == context) }
            }
        }
    }
}
