extension DocumentValue {
    /// The value as YAML 1.2. Block style (a line for each key or element) is used for objects with members, and for
    /// arrays that have such objects. All else is written as JSON, which is valid YAML.
    package var yaml: String { yaml(indentation: 0).dropFirst() + "\n" }

    /// Returns the value as YAML that follows `key:`. The text begins with a space if the value is on the line of the
    /// key, otherwise with a line end.
    private func yaml(indentation: Int) -> String {
        let lineStart = "\n" + String(repeating: " ", count: indentation)
        switch self {
        case .object(let members) where !members.isEmpty:
            return members.map { "\(lineStart)\(Self.keyText($0.name)):\($0.value.yaml(indentation: indentation + 2))" }
                .joined()
        case .array(let elements) where elements.contains { !$0.members.isEmpty }:
            return
                elements.map { element in
                    // The first key of an element is on the line of the element's dash. So remove the line end before
                    // the key.
                    "\(lineStart)- "
                        + String(element.yaml(indentation: indentation + 2).trimmingPrefix { $0 == "\n" || $0 == " " })
                }
                .joined()
        case .null, .text, .number, .boolean, .array, .object:
            return " " + oneLineJSON
        }
    }

    private static func keyText(_ name: String) -> String {
        let isPlain =
            name.first.map { $0.isLetter || $0 == "$" } ?? false
            && name.allSatisfy { $0.isASCII && ($0.isLetter || $0.isNumber || "$_-".contains($0)) }
        return isPlain ? name : quoted(name)
    }
}
