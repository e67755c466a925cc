import CausewayCommandLine
import Numbers

struct OutageReport {
    private static let examplesMax = 5

    var name: String
    var verdict: OutageVerdict
    /// The case's additional expectations that are not met, as text.
    var broken: [String]

    var isGood: Bool { verdict.isGood && broken.isEmpty }

    /// The report as text: one line, followed by the broken promises.
    var text: String {
        let silence = Numeral.seconds(milliseconds: verdict.longestSilenceMilliseconds)
        let line =
            "\(isGood ? "ok    " : "BROKEN") \(name): lost \(verdict.lost.count), old \(verdict.old.count), "
            + "twice \(verdict.twice.count), longest silence \(silence), "
            + "repeated after a crash \(verdict.repeatedAfterCrash.count)"
        let findings =
            examples("lost", verdict.lost) + examples("old", verdict.old) + examples("twice", verdict.twice)
            + broken.map { "         \($0)" }
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
        let others = reports.reduce(0) { $0 + $1.broken.count }
        return "\(reports.count) cases: lost \(sum(\.lost)), old \(sum(\.old)), twice \(sum(\.twice))"
            + (others > 0 ? "; \(others) other expectations broken" : "")
    }
}
