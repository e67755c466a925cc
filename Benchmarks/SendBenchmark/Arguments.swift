import Glibc

/// Options of the form `--name value`.
struct Arguments {
    struct ArgumentError: Error, CustomStringConvertible {
        var description: String
    }

    private var values: [String: String] = [:]
    private var unknownArgument: String?

    init(_ words: ArraySlice<String>) {
        var remainingWords = words
        while let name = remainingWords.popFirst() {
            guard name.hasPrefix("--"), let value = remainingWords.popFirst() else {
                unknownArgument = name
                return
            }
            values[String(name.dropFirst(2))] = value
        }
    }

    mutating func text(_ name: String, _ fallback: String? = nil) throws(ArgumentError) -> String {
        guard let value = values.removeValue(forKey: name) ?? fallback else {
            throw ArgumentError(description: "--\(name) is missing")
        }
        return value
    }

    mutating func optional(_ name: String) -> String? { values.removeValue(forKey: name) }

    mutating func number(_ name: String, _ fallback: Int?, in range: ClosedRange<Int>) throws(ArgumentError) -> Int {
        let text = try text(name, fallback.map(String.init))
        guard let number = Int(text), range.contains(number) else {
            throw ArgumentError(description: "--\(name) must be \(range.lowerBound) to \(range.upperBound)")
        }
        return number
    }

    /// Throws if there is an argument that no option has read.
    func checkAllRead() throws(ArgumentError) {
        if let name = unknownArgument ?? values.keys.first {
            throw ArgumentError(description: "unknown argument: \(name)")
        }
    }
}

func fail(_ text: String) -> Never {
    printError(text)
    exit(1)
}

func printError(_ text: String) {
    let line = "causeway-bench: \(text)\n"
    write(2, line, line.utf8.count)
}
