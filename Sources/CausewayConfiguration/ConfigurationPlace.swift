/// Where a value stands, in the order in which faults are reported.
enum ConfigurationPlace: Comparable, Sendable {
    /// In the file; both count from 1.
    case document(line: Int, column: Int)
    /// In the file as a whole, or nowhere, where it should be.
    case whole
    case variable(String)

    /// `file:line:column`, the file alone, or the variable's name.
    func description(file: String?) -> String {
        switch self {
        case .document(let line, let column): "\(file ?? ""):\(line):\(column)"
        case .whole: file ?? "environment"
        case .variable(let name): name
        }
    }
}

/// A fault on its way to the report.
struct PlacedFault: Sendable {
    var place: ConfigurationPlace
    var key: String
    var message: String
}
