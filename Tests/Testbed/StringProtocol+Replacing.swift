import Foundation
import Testing

extension StringProtocol {
    /// Replaces a part that the text must contain, such as a line of a configuration. Without the part, the test would
    /// run with an unchanged text and check nothing new, so a missing part is an issue.
    public func replacingRequired(
        _ part: String,
        with replacement: String,
        sourceLocation: SourceLocation = #_sourceLocation
    ) -> String {
        if range(of: part) == nil {
            Issue.record("the text does not contain the part to replace: \(part)", sourceLocation: sourceLocation)
        }
        return replacingOccurrences(of: part, with: replacement)
    }
}
