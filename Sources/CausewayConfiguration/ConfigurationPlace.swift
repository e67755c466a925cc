/// The place of a value. Faults are reported in the order of their places.
enum ConfigurationPlace: Comparable, Sendable {
    /// A place in the file. Line and column count from 1.
    case document(line: Int, column: Int)
    /// The file as a whole, or the place of a value that is missing.
    case whole
    case variable(String)

    /// Returns `file:line:column`, only the file, or the variable's name.
    func description(file: String?) -> String {
        switch self {
        case .document(let line, let column): "\(file ?? ""):\(line):\(column)"
        case .whole: file ?? "environment"
        case .variable(let name): name
        }
    }
}

/// A fault that has not been reported yet.
struct PlacedFault: Sendable {
    var place: ConfigurationPlace
    var key: String
    var message: String
}
