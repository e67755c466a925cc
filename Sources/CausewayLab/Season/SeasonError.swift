/// What is wrong with a season's data, and where.
struct SeasonError: Error, Equatable, CustomStringConvertible {
    /// The file's name as the reader was given it.
    var file: String
    /// The line on which the faulty row begins, counted from 1; 0 when the fault concerns the file as a whole.
    var line: Int
    var reason: String

    var description: String {
        line > 0 ? "\(file):\(line): \(reason)" : "\(file): \(reason)"
    }
}
