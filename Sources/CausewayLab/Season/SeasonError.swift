/// A fault in a season's data, with its file and line.
struct SeasonError: Error, Equatable, CustomStringConvertible {
    /// The file's name, as given to the reader.
    var file: String
    /// The line of the fault, counted from 1, usually the first line of the faulty row; 0 if the whole file is faulty.
    var line: Int
    var reason: String

    var description: String {
        line > 0 ? "\(file):\(line): \(reason)" : "\(file): \(reason)"
    }
}
