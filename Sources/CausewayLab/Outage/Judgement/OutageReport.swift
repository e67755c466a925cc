import CausewayCommandLine
import Numbers

struct OutageReport {
    private static let examplesMax = 5

    var name: String
    var verdict: OutageVerdict
    /// The case's additional expectations that are not met, as text.
    var brokenExpectations: [String]

    var isGood: Bool { verdict.isGood && brokenExpectations.isEmpty }

    /// The report as text: one line, followed by the broken promises.
    var text: String {
        let silence = Numeral.seconds(milliseconds: verdict.longestSilenceMilliseconds)
        let line =
            "\(isGood ? "ok    " : "BROKEN") \(name): lost \(verdict.losses.count), old \(verdict.oldPushes.count), "
            + "twice \(verdict.repeats.count), longest silence \(silence), "
            + "repeated after a crash \(verdict.excusedRepeats.count)"
        let findings =
            examples("lost", verdict.losses) + examples("old", verdict.oldPushes) + examples("twice", verdict.repeats)
            + brokenExpectations.map { "         \($0)" }
        return ([line] + findings).joined(separator: "\n")
    }

    private func examples(_ what: String, _ findings: [String]) -> [String] {
        let rest = findings.count - Self.examplesMax
        return findings.prefix(Self.examplesMax).map { "         \(what): \($0)" }
            + (rest > 0 ? ["         \(what): and \(rest) more"] : [])
    }

    /// Returns the last line of the output, with the sums over all reports.
    static func summary(of reports: [OutageReport]) -> String {
        func sum(_ list: KeyPath<OutageVerdict, [String]>) -> Int {
            reports.reduce(0) { $0 + $1.verdict[keyPath: list].count }
        }
        let others = reports.reduce(0) { $0 + $1.brokenExpectations.count }
        return "\(reports.count) cases: lost \(sum(\.losses)), old \(sum(\.oldPushes)), twice \(sum(\.repeats))"
            + (others > 0 ? "; \(others) other expectations broken" : "")
    }
}
