import Foundation

/// Looks into records and bodies. The standard library's search takes most of a run's time.
enum SimulatedText {
    static func contains(_ part: String, in text: String) -> Bool { strstr(text, part) != nil }

    /// The number that follows a text which ends where the number begins; nil: the text is not there.
    static func number(after part: String, in text: String) -> Int? {
        text.withCString { text in
            guard let place = strstr(text, part) else { return nil }
            return Int(strtoll(place + strlen(part), nil, 10))
        }
    }
}
