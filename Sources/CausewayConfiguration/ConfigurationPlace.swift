/// The place of a key or value, in the file or in the environment. The order of the cases is the order in which faults
/// are reported.
enum ConfigurationPlace: Comparable, Sendable {
    /// A place in the file. Line and column count from 1.
    case position(line: Int, column: Int)
    /// The whole file. This is also the place of a key that the file does not have.
    case wholeFile
    case variable(String)

    /// Returns the place as messages name it: `file:line:column`, or the name of a variable. For the whole file: its
    /// path, or `environment` if the worker has no file.
    func description(file: String?) -> String {
        switch self {
        case .position(let line, let column): "\(file ?? ""):\(line):\(column)"
        case .wholeFile: file ?? "environment"
        case .variable(let name): name
        }
    }
}

/// A fault with its place in a form that the loader can sort.
struct PlacedFault: Sendable {
    var place: ConfigurationPlace
    var key: String
    var message: String
}
