import Testing

@testable import CausewayLab

@Suite("Comma-separated values")
struct CommaSeparatedValuesTests {
    private func fields(_ text: String) throws -> [[String]] {
        try CommaSeparatedValues.rows(of: Array(text.utf8), file: "f").map(\.fields)
    }

    @Test(arguments: [
        ("a,b\n1,2\n", [["a", "b"], ["1", "2"]]),
        ("a,b\r\n1,2", [["a", "b"], ["1", "2"]]),
        ("a,,\n", [["a", "", ""]]),
        ("\"x, y\",b\n", [["x, y", "b"]]),
        ("\"he said \"\"no\"\"\",b\n", [["he said \"no\"", "b"]]),
        ("\"two\nlines\",b\nc,d\n", [["two\nlines", "b"], ["c", "d"]]),
        ("\"\"\n", [[""]]),
        ("", []),
    ])
    func `Rows with quotes and line ends are read`(text: String, expected: [[String]]) throws {
        #expect(try fields(text) == expected)
    }

    @Test(arguments: [
        ("a\n\"b", "f:2: a quoted field is not closed"),
        ("a\nb\"c\n", "f:2: a quote inside a field that is not quoted"),
        ("\"a\"b\n", "f:1: text after the closing quote of field 1"),
        ("a\rb\n", "f:1: text after the closing quote of field 1"),
    ])
    func `An error names the line`(text: String, expected: String) {
        let error = #expect(throws: SeasonError.self) { try fields(text) }
        #expect(error?.description == expected)
    }

    @Test func `Bytes that are no text are refused`() {
        let error = #expect(throws: SeasonError.self) {
            try CommaSeparatedValues.rows(of: [0x61, 0x0A, 0xFF, 0x0A], file: "f")
        }
        #expect(error?.description == "f:2: text that is not UTF-8")
    }

    @Test func `Rows know the line that they begin on`() throws {
        let rows = try CommaSeparatedValues.rows(of: Array("\"a\nb\"\nc\n".utf8), file: "f")
        #expect(rows.map(\.lineNumber) == [1, 3])
    }
}
