import CausewayCommandLine
import Numbers

struct OutageReport {
    private static let findingsPerListMax = 5

    var name: String
    var findings: OutageFindings
    /// The case's additional expectations that are not met, as text.
    var unmetExpectations: [String]

    var hasSucceeded: Bool { findings.arePromisesKept && unmetExpectations.isEmpty }

    /// The report as text: one line, followed by the broken promises.
    var text: String {
        let silenceText = Numeral.seconds(milliseconds: findings.longestSilenceMilliseconds)
        let line =
            """
            \(hasSucceeded ? "ok    " : "BROKEN") \(name): lost \(findings.losses.count), old \
            \(findings.oldPushes.count), twice \(findings.repeats.count), longest silence \(silenceText), permitted \
            repeats \(findings.permittedAlertRepeats.count)
            """
        let detailLines =
            findingLines("lost", findings.losses) + findingLines("old", findings.oldPushes)
            + findingLines("twice", findings.repeats)
            + unmetExpectations.map { "         \($0)" }
        return ([line] + detailLines).joined(separator: "\n")
    }

    private func findingLines(_ label: String, _ texts: [String]) -> [String] {
        let omittedCount = texts.count - Self.findingsPerListMax
        return texts.prefix(Self.findingsPerListMax).map { "         \(label): \($0)" }
            + (omittedCount > 0 ? ["         \(label): and \(omittedCount) more"] : [])
    }

    /// Returns the last line of the output, with the sums over all reports.
    static func summary(of reports: [OutageReport]) -> String {
        func sum(_ list: KeyPath<OutageFindings, [String]>) -> Int {
            reports.reduce(0) { $0 + $1.findings[keyPath: list].count }
        }
        let unmetExpectationCount = reports.reduce(0) { $0 + $1.unmetExpectations.count }
        return "\(reports.count) cases: lost \(sum(\.losses)), old \(sum(\.oldPushes)), twice \(sum(\.repeats))"
            + (unmetExpectationCount > 0 ? "; \(unmetExpectationCount) other expectations broken" : "")
    }
}
