import Glibc

/// Options of the form `--name value`.
struct Arguments {
    struct Problem: Error, CustomStringConvertible {
        var description: String
    }

    private var values: [String: String] = [:]
    private var stray: String?

    init(_ words: ArraySlice<String>) {
        var rest = words
        while let name = rest.popFirst() {
            guard name.hasPrefix("--"), let value = rest.popFirst() else {
                stray = name
                return
            }
            values[String(name.dropFirst(2))] = value
        }
    }

    mutating func text(_ name: String, _ fallback: String? = nil) throws(Problem) -> String {
        guard let value = values.removeValue(forKey: name) ?? fallback else {
            throw Problem(description: "--\(name) is missing")
        }
        return value
    }

    mutating func optional(_ name: String) -> String? { values.removeValue(forKey: name) }

    mutating func number(_ name: String, _ fallback: Int?, in range: ClosedRange<Int>) throws(Problem) -> Int {
        let text = try text(name, fallback.map(String.init))
        guard let number = Int(text), range.contains(number) else {
            throw Problem(description: "--\(name) must be \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Throws if there is an argument that no option has read.
    func end() throws(Problem) {
        if let name = stray ?? values.keys.first { throw Problem(description: "unknown argument: \(name)") }
    }
}

/// Prints the problem and ends the process.
func fail(_ text: String) -> Never {
    complain(text)
    exit(1)
}

func complain(_ text: String) {
    let line = "causeway-bench: \(text)\n"
    write(2, line, line.utf8.count)
}
