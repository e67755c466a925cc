import Foundation

/// Searches in records and bodies with C functions. Swift's search would take most of a run's time.
enum SimulatedText {
    static func contains(_ part: String, in text: String) -> Bool { strstr(text, part) != nil }

    /// The number after a text: nil if the text does not occur, 0 if no number follows it.
    static func number(after part: String, in text: String) -> Int? {
        text.withCString { text in
            guard let found = strstr(text, part) else { return nil }
            return Int(strtoll(found + strlen(part), nil, 10))
        }
    }
}
